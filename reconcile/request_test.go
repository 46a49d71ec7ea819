package reconcile

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimitsOfTheVendorAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := stripeWorld(t, 20)
		began := time.Now()
		s.refuse = func(n int, rw http.ResponseWriter) bool {
			if n == 1 {
				rw.Header().Set("Retry-After", "20")
				rw.WriteHeader(http.StatusTooManyRequests)
			}
			return n == 1
		}
		if p := w.compare(Request{}); p.Missed != 2 || time.Since(began) < 20*time.Second {
			t.Errorf("missed %d after %s", p.Missed, time.Since(began))
		}
		w.rx.Step(15 * time.Minute)
		s.refuse = func(n int, rw http.ResponseWriter) bool {
			rw.Header().Set("X-RateLimit-Remaining", "0")
			rw.Header().Set("X-RateLimit-Reset", "99999999999")
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
		_, err := w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
		if limited, ok := errors.AsType[*limitedError](err); !ok || limited.wait != 24*time.Hour {
			t.Errorf("a long limit: %v", err)
		}
		w.once(20)
	})
}

// A request that the vendor refuses by a limit does not count as one of five.
func TestARequestThatIsLimitedIsNotCounted(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 10)
	for range maxAsks + 2 {
		g.refuse = func(_ int, rw http.ResponseWriter) bool {
			if !strings.HasPrefix(g.asked[len(g.asked)-1], "POST") {
				return false
			}
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		_, _ = w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
		w.rx.Step(15 * time.Minute)
	}
	g.refuse = nil
	if p := w.compare(Request{}); p.Asked != 1 {
		t.Errorf("asked %d times", p.Asked)
	}
	w.once(10)
}

func TestTheTokenGoesToTheListAlone(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(*http.Response){
		"has another origin": func(r *http.Response) {
			r.Header.Set("Link", `<https://evil.test/repos/acme/shop/hooks/1/deliveries>; rel="next"`)
		},
		"has another origin, in plain": func(r *http.Response) {
			r.Header.Set("Link", `<http://api.github.test/repos>; rel="next"`)
		},
		"redirects are not followed": func(r *http.Response) {
			r.StatusCode = http.StatusFound
			r.Header.Set("Location", "https://evil.test/")
		},
	} {
		w, g := githubWorld(t, 20)
		g.respond = tamper
		_, err := w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
		if reason, _, _ := strings.Cut(name, ","); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error has the token", name)
		}
		for _, address := range g.asked {
			if strings.Contains(address, "evil") || strings.Contains(address, "http://") {
				t.Errorf("%s: %s", name, address)
			}
		}
	}
	// A page of a source that was configured before is not read with the token of this one.
	w, g := githubWorld(t, 300)
	w.compareIn(26, true)
	w.rx.Step(leaseTime)
	w.p.Source.URL = strings.Replace(hook, "shop", "other", 1)
	before := len(g.asked)
	_, _ = w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
	if first := g.asked[before]; !strings.Contains(first, "/other/") || strings.Contains(first, "cursor") {
		t.Errorf("the first request to another source: %s", first)
	}
}

// Run begins with what is due, and ends with its context.
func TestRunComparesEveryInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := stripeWorld(t, 20)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.reconciler(w.store).Run(ctx)
			close(ended)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if s.requests() != 1 {
			t.Errorf("%d requests at the start", s.requests())
		}
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if s.requests() != 2 {
			t.Errorf("%d requests after an interval", s.requests())
		}
		cancel()
		<-ended
		w.once(20)
	})
}
