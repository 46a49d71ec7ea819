package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// vault has the secrets of tenants.
type vault struct {
	mu      sync.Mutex
	secrets map[string][]verify.Secret
	err     error // it is down
	asked   map[string]int
	hang    bool // a look-up of an unknown name takes until its end
}

func newVault(names ...string) *vault {
	v := &vault{secrets: map[string][]verify.Secret{}, asked: map[string]int{}}
	for _, name := range names {
		v.secrets[name] = verify.Secrets(name + "-hidden-secret")
	}
	return v
}

func (v *vault) list(context.Context) (map[string][]verify.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked[""]++
	return maps.Clone(v.secrets), v.err
}

func (v *vault) lookup(ctx context.Context, tenant string) ([]verify.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked[tenant]++
	found, ok := v.secrets[tenant]
	switch {
	case v.err != nil:
		return nil, v.err
	case !ok && v.hang:
		v.mu.Unlock()
		<-ctx.Done()
		v.mu.Lock()
		return nil, ctx.Err()
	case !ok:
		return nil, fmt.Errorf("vault: %w", producer.ErrNoTenant)
	}
	return found, nil
}

// change changes the vault.
func (v *vault) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

func (v *vault) count(tenant string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[tenant]
}

// hooks returns a producer whose tenants are listed, or looked up.
func (v *vault) hooks(name string, lists bool) producer.Producer {
	all := producer.Tenants{With: preset.GitHub, List: v.list}
	if !lists {
		all.List, all.Lookup = nil, v.lookup
	}
	p := all.Producer()
	p.Name = name
	return p
}

// push sends a push event to a path, and returns its status with a star for a known event.
func push(h http.Handler, path, secret, body string) string {
	return pushFrom(h, "192.0.2.1:40000", path, secret, body).String()
}

type pushed struct{ *httptest.ResponseRecorder }

func (p pushed) String() string {
	if p.Header().Get("Idempotency-Replayed") == "true" {
		return fmt.Sprint(p.Code, "*")
	}
	return fmt.Sprint(p.Code)
}

func pushFrom(h http.Handler, from, path, secret, body string) pushed {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header = gitHubRequest(secret, body).Header
	r.RequestURI, r.RemoteAddr = path, from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return pushed{w}
}

// bothSources runs a test with a list and with look-ups, in bubbles.
func bothSources(t *testing.T, f func(t *testing.T, lists bool)) {
	t.Helper()
	for _, lists := range []bool{true, false} {
		t.Run(fmt.Sprintf("lists=%t", lists), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { f(t, lists) })
		})
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestTenantsHaveTheirOwnSecretsAndEvents(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		a, b, seen := newVault("acme", "beta"), newVault("acme", "shop"), make(chan string, 9)
		b.secrets["acme"] = verify.Secrets("another secret of acme", "acme-hidden-secret")
		record := func(_ context.Context, ev Event[any]) error {
			seen <- ev.Producer + " " + ev.Tenant
			return nil
		}
		s := serve(t, a.hooks("shop", lists), func(c *Config) {
			c.Producers = append(c.Producers, b.hooks("crm", lists))
		}, On("shop", "*", record), On("crm", "*", record))
		h := s.rx.Handler()
		for _, c := range []struct{ path, secret, want, principal string }{
			{"shop/acme", "acme-hidden-secret", "200", "shop acme"},
			{"shop/acme", "acme-hidden-secret", "200*", ""},
			{"shop/beta", "beta-hidden-secret", "200", "shop beta"},
			{"shop/beta", "acme-hidden-secret", "401", ""},
			{"crm/acme", "another secret of acme", "200", "crm acme"},
			{"crm/acme", "acme-hidden-secret", "200*", ""},
			{"crm/shop", "shop-hidden-secret", "200", "crm shop"},
			{"crm/shop", "beta-hidden-secret", "401", ""},
			{"crm/beta", "beta-hidden-secret", "404", ""},
		} {
			want(t, c.path+" by "+c.secret, push(h, "/webhooks/"+c.path, c.secret, `{"n": 1}`), c.want)
			if synctest.Wait(); c.principal != "" {
				want(t, c.path, <-seen, c.principal)
			}
		}
		for _, o := range s.seen.all {
			if strings.Contains(o.Endpoint, "acme") || strings.Contains(string(o.Code), "acme") {
				t.Errorf("a label has the tenant: %+v", o)
			}
		}
		if kept := fmt.Sprintf("%+v %#v", s.records(), s.seen.all); strings.Contains(s.log.String()+kept, "hidden") {
			t.Error("a secret is logged or stored")
		}
	})
}

func TestOtherPathsHaveNoTenant(t *testing.T) {
	t.Parallel()
	v := newVault("acme", "a")
	s := serve(t, v.hooks("shop", false), func(c *Config) {
		c.Producers = append(c.Producers, preset.GitHub("one secret"))
	})
	for _, path := range []string{
		"/webhooks/shop", "/webhooks/shop/", "/webhooks/shop/Acme", "/webhooks/shop/%61cme", "/webhooks/shop/acme/",
		"/webhooks/shop/acme/x", "/webhooks/shop/..", "/webhooks/shop/-acme", "/webhooks/shop/_acme",
		"/webhooks/shop/acme~1", "/webhooks/shop/" + strings.Repeat("a", 64), "/webhooks/shop//acme",
		"/webhooks/shop/ac.me", "/webhooks/shop/acmé", "/webhooks/github/acme", "/webhooks/github/",
		"/webhooks/other/acme", "/webhooks//acme", "/webhooks/shop%2Facme",
	} {
		want(t, path, push(s.rx.Handler(), path, "acme-hidden-secret", "{}"), "404")
	}
	own := s.rx.HTTP("shop") // at a path of the program
	for _, path := range []string{"/hooks/Acme", "/hooks/%61cme", "/hooks/acme/", "/acme?x=/a/b", "*"} {
		at := "404"
		if path == "/acme?x=/a/b" {
			at = "200"
		}
		want(t, path, push(own, path, "acme-hidden-secret", "{}"), at)
	}
	want(t, "a query", push(s.rx.Handler(), "/webhooks/shop/acme?x=1", "acme-hidden-secret", "{}"), "200*")
	longest := strings.Repeat("a", 63)
	want(t, "63 letters", push(s.rx.Handler(), "/webhooks/shop/"+longest, "x", "{}"), "404")
	if len(v.asked) != 2 {
		t.Errorf("looked up: %v", v.asked)
	}
}

func TestAListedReceiverDoesNothingForAnUnknownTenant(t *testing.T) {
	t.Parallel()
	v := newVault("acme")
	s := serve(t, v.hooks("shop", true), nil)
	for i := range 100 {
		want(t, "unknown", push(s.rx.Handler(), fmt.Sprint("/webhooks/shop/t", i), "x", "{}"), "404")
	}
	if n := v.count(""); n != 1 {
		t.Errorf("read %d times", n)
	}
}

func TestARemovedSecretOfATenantEndsWithinAMinute(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme")
		s := serve(t, v.hooks("shop", lists), nil)
		h := s.rx.Handler()
		to := func(secret, body string) string { return push(h, "/webhooks/shop/acme", secret, body) }
		want(t, "before", to("acme-hidden-secret", "1"), "200")
		v.change(func() { v.secrets["acme"] = verify.Secrets("the next secret", "acme-hidden-secret") })
		time.Sleep(time.Minute)
		want(t, "both, new", to("the next secret", "2"), "200")
		want(t, "both, old", to("acme-hidden-secret", "3"), "200")
		v.change(func() { v.secrets["acme"] = verify.Secrets("the next secret") })
		time.Sleep(45 * time.Second)
		to("the next secret", "4") // a look-up in the background
		synctest.Wait()
		want(t, "removed", to("acme-hidden-secret", "5"), "401")
		v.change(func() { v.secrets["acme"] = verify.Secrets("the last secret") })
		time.Sleep(time.Minute)
		want(t, "removed, at the first delivery", to("the next secret", "6"), "401")
		want(t, "a retry has its secret", to("the last secret", "1"), "200*")
	})
}

func TestWhileTheSourceIsDownTenantsServeAnHour(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme")
		s := serve(t, v.hooks("shop", lists), nil)
		to := func(body string) string {
			return push(s.rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", body)
		}
		want(t, "up", to("0"), "200")
		v.change(func() { v.err = errors.New("the vault is sealed") })
		for i := range 58 {
			time.Sleep(time.Minute)
			want(t, fmt.Sprint("down for minute ", i), to(fmt.Sprint("down ", i)), "200")
		}
		want(t, "a stranger", push(s.rx.Handler(), "/webhooks/shop/acme", "guess", "x"), "401")
		time.Sleep(3 * time.Minute)
		w := pushFrom(s.rx.Handler(), "192.0.2.1:1", "/webhooks/shop/acme", "acme-hidden-secret", "late")
		if want(t, "after an hour", w.String(), "503"); w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		want(t, "a stranger", push(s.rx.Handler(), "/webhooks/shop/acme", "guess", "x"), "503")
		v.change(func() { v.err = nil })
		time.Sleep(30 * time.Second)
		want(t, "up again", to("again"), "200")
		if !strings.Contains(s.log.String(), "the vault is sealed") {
			t.Error("the log has no reason")
		}
	})
}

func TestASourceThatIsDownAtTheStartIsAsked(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme")
		v.err = errors.New("the vault is sealed")
		s := serve(t, v.hooks("shop", lists), nil)
		to := func() string { return push(s.rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1") }
		want(t, "down", to(), "503")
		v.change(func() { v.err = nil })
		time.Sleep(30 * time.Second)
		want(t, "up", to(), "200")
	})
}

func TestATenantThatIsMadeAgainHasNewEvents(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta")
		s := serve(t, v.hooks("shop", lists), nil)
		other, err := Open(Config{Store: s.store, Producers: []producer.Producer{v.hooks("shop", lists)},
			URL: s.rx.cfg.URL, Logger: s.rx.log})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close() //nolint:errcheck // the site has the store
		to := func(rx *Receiver, body string) string {
			return push(rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", body)
		}
		look := func() {
			time.Sleep(61 * time.Second)
			push(s.rx.Handler(), "/webhooks/shop/acme", "x", "x")
			push(other.Handler(), "/webhooks/shop/acme", "x", "x")
		}
		want(t, "first", to(s.rx, "1"), "200")
		want(t, "at the other receiver", to(other, "1"), "200*")
		for _, principal := range []string{"acme~1", "acme~2"} {
			v.change(func() { delete(v.secrets, "acme") })
			look()
			want(t, "deleted", to(s.rx, "1"), "404")
			v.change(func() { v.secrets["acme"] = verify.Secrets("acme-hidden-secret") })
			look()
			want(t, "again", to(s.rx, "1"), "200")
			want(t, "at the other receiver", to(other, "1"), "200*")
			want(t, "its principal", s.records()[0].Key.Principal, principal)
		}
	})
}

// TestTheGenerationOfATenantSurvivesARestart opens a store on disk twice.
func TestTheGenerationOfATenantSurvivesARestart(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta")
		memory := serve(t, v.hooks("shop", lists), nil)
		note := dedup.Key{Endpoint: "shop", Space: dedup.SpaceTenant, ID: "acme"}
		err := memory.store.ChangeNote(t.Context(), note, func(string) (string, error) { return "three", nil })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(t, "a bad generation", push(memory.rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1"),
			map[bool]string{true: "200", false: "503"}[lists]) // the list stays as it was
	})
	dir, v := t.TempDir(), newVault("acme", "beta")
	during := func(do func(rx *Receiver, s dedup.Store)) {
		s, err := badgerstore.Open(dir, badgerstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rx, err := Open(Config{Store: s, Producers: []producer.Producer{v.hooks("shop", true)}})
		if err != nil {
			t.Fatal(err)
		}
		do(rx, s)
		if err := errors.Join(rx.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	during(func(rx *Receiver, s dedup.Store) {
		want(t, "first", push(rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1"), "200")
		note := dedup.Key{Endpoint: "shop", Space: dedup.SpaceTenant, ID: "acme"}
		if err := s.ChangeNote(t.Context(), note, func(string) (string, error) { return "3", nil }); err != nil {
			t.Fatal(err)
		}
	})
	during(func(rx *Receiver, _ dedup.Store) {
		want(t, "after it", push(rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1"), "200")
		want(t, "and again", push(rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1"), "200*")
		want(t, "another", push(rx.Handler(), "/webhooks/shop/beta", "beta-hidden-secret", "1"), "200")
	})
}

func TestTenantsWithOneSecretAreRefusedUntilItDiffers(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta", "gamma")
		v.secrets["beta"] = verify.Secrets("beta-hidden-secret", "acme-hidden-secret", "beta-hidden-secret")
		s := serve(t, v.hooks("shop", lists), nil)
		to := func(tenant string) string {
			return push(s.rx.Handler(), "/webhooks/shop/"+tenant, tenant+"-hidden-secret", "1")
		}
		to("acme") // which is alone while it is the only one that was looked up
		to("beta")
		want(t, "one", to("acme"), "503")
		want(t, "the other", to("beta"), "503")
		want(t, "a third", to("gamma"), "200")
		log := s.log.String()
		if !strings.Contains(log, "the same secret") || !strings.Contains(log, "tenant=beta other=acme") &&
			!strings.Contains(log, "tenant=acme other=beta") || strings.Contains(log, "hidden") {
			t.Error(log)
		}
		v.change(func() { v.secrets["beta"] = verify.Secrets("beta-hidden-secret") })
		time.Sleep(time.Minute)
		to("beta")
		if one := to("acme"); one != "200" && one != "200*" {
			t.Error("one, after that:", one)
		}
		want(t, "the other, after that", to("beta"), "200*")
		if n := strings.Count(s.log.String(), "the same secret"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

func TestAnEntryThatCannotBeUsedHurtsItsTenantAlone(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta", "gamma", "delta")
		v.secrets["beta"], v.secrets["gamma"] = nil, verify.Secrets("")
		v.secrets["delta"] = verify.Secrets("whsec_of-another-vendor")
		v.secrets["No"] = verify.Secrets("no-hidden-secret")
		s := serve(t, v.hooks("shop", lists), nil)
		for tenant, status := range map[string]string{
			"acme": "200", "beta": "503", "gamma": "503", "delta": "503", "No": "404",
		} {
			want(t, tenant, push(s.rx.Handler(), "/webhooks/shop/"+tenant, tenant+"-hidden-secret", "1"), status)
		}
		time.Sleep(2 * time.Minute)
		log := s.log.String()
		if n := strings.Count(log, "a tenant cannot be used"); n != 3 && (!lists || n != 4) {
			t.Errorf("logged %d times:\n%s", n, log)
		}
		if strings.Contains(log, "hidden") || strings.Contains(log, "another-vendor") {
			t.Error("the log has a secret")
		}
	})
}

func TestAnEmptyListIsAFailure(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v := newVault("acme")
		s := serve(t, v.hooks("shop", true), nil)
		v.change(func() { clear(v.secrets) })
		time.Sleep(time.Minute)
		want(t, "unmounted", push(s.rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", "1"), "200")
		if !strings.Contains(s.log.String(), "the list is empty") {
			t.Error("the log does not say so")
		}
	})
}

func TestReplaceKeepsTheTenants(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta")
		s := serve(t, v.hooks("shop", lists), nil)
		to := func(rx *Receiver, body string) string {
			return push(rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", body)
		}
		want(t, "before", to(s.rx, "1"), "200")
		v.change(func() { v.err = errors.New("the vault is sealed") })
		c := s.rx.cfg
		c.Producers = []producer.Producer{v.hooks("shop", lists)}
		c.Producers[0].MaxBody = 8
		next, err := s.rx.Replace(c)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close() //nolint:errcheck // the site has the store
		time.Sleep(50 * time.Minute)
		want(t, "after it", to(next, "2"), "200")
		want(t, "a known event", to(next, "1"), "200*")
		want(t, "its new limit", to(next, "123456789"), "413")
		time.Sleep(11 * time.Minute)
		want(t, "after the hour", to(next, "3"), "503")
	})
}

func TestUnknownNamesCannotKeepTenantsOut(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v := newVault("acme", "beta")
		v.hang = true
		s := serve(t, v.hooks("shop", false), nil)
		h := s.rx.Handler()
		want(t, "before", push(h, "/webhooks/shop/acme", "acme-hidden-secret", "0"), "200")
		time.Sleep(2 * time.Minute) // it has to be looked up again
		var strangers sync.WaitGroup
		for i := range 500 {
			strangers.Go(func() {
				from := fmt.Sprintf("10.0.%d.%d:1", i/250, i%250)
				want(t, "a stranger", pushFrom(h, from, fmt.Sprint("/webhooks/shop/s", i), "x", "{}").String(), "503")
			})
		}
		synctest.Wait()
		want(t, "one that was verified", push(h, "/webhooks/shop/acme", "acme-hidden-secret", "1"), "200")
		want(t, "one that was not", push(h, "/webhooks/shop/beta", "beta-hidden-secret", "1"), "503")
		strangers.Wait()
		if n := len(v.asked); n != 1+8 {
			t.Errorf("%d names were looked up", n)
		}
	})
}

func TestNewNamesOfANetworkAreFew(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v := newVault()
		for i := range 100 {
			v.secrets[fmt.Sprint("t", i)] = verify.Secrets(fmt.Sprint("secret of t", i))
		}
		s := serve(t, v.hooks("shop", false), nil)
		h := s.rx.Handler()
		for i := range 100 { // the vendor of all
			want(t, "a tenant", push(h, fmt.Sprint("/webhooks/shop/t", i), fmt.Sprint("secret of t", i), "{}"), "200")
		}
		statuses := map[string]int{}
		for i := range 50 {
			statuses[pushFrom(h, "192.0.2.9:1", fmt.Sprint("/webhooks/shop/s", i), "x", "{}").String()]++
		}
		if statuses["404"] != 10 || statuses["503"] != 40 {
			t.Error(statuses)
		}
		want(t, "known to be none", pushFrom(h, "192.0.2.9:1", "/webhooks/shop/s0", "x", "{}").String(), "404")
		want(t, "another network", pushFrom(h, "192.0.2.8:1", "/webhooks/shop/s40", "x", "{}").String(), "404")
		time.Sleep(time.Second)
		want(t, "later", pushFrom(h, "192.0.2.9:1", "/webhooks/shop/s41", "x", "{}").String(), "404")
		v.change(func() { v.secrets["s0"] = verify.Secrets("made just now") })
		time.Sleep(10 * time.Second)
		want(t, "it exists by now", push(h, "/webhooks/shop/s0", "made just now", "{}"), "200")
	})
}

func TestAFunctionThatPanicsOrHangsIsASourceThatIsDown(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		mode, end := "", make(chan struct{})
		all := producer.Tenants{With: preset.GitHub}
		all.Lookup = func(context.Context, string) ([]verify.Secret, error) {
			switch mode {
			case "hang":
				<-end // whatever its context says
			case "panic":
				panic("acme-hidden-secret")
			}
			return verify.Secrets("acme-hidden-secret"), nil
		}
		s := serve(t, all.Producer(), nil)
		to := func(body string) string {
			return push(s.rx.Handler(), "/webhooks/github/acme", "acme-hidden-secret", body)
		}
		want(t, "up", to("0"), "200")
		for _, mode = range []string{"panic", "hang"} {
			for i := range 20 {
				time.Sleep(time.Minute)
				want(t, mode, to(fmt.Sprint(mode, i)), "200")
			}
			want(t, mode+", another", push(s.rx.Handler(), "/webhooks/github/beta", "x", "{}"), "503")
		}
		close(end)
		if strings.Contains(s.log.String(), "hidden") {
			t.Error("the log has the secret")
		}
	})
}

func TestHandshakesUseTheSecretOfTheirTenant(t *testing.T) {
	t.Parallel()
	v := newVault("acme", "beta")
	all := producer.Tenants{List: v.list, With: func(secrets ...string) producer.Producer {
		return preset.With("zoom", secrets...)
	}}
	s := serve(t, all.Producer(), nil)
	const body = `{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}`
	at := fmt.Sprint(time.Now().Unix())
	for _, tenant := range []string{"acme", "beta"} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/zoom/"+tenant, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Zm-Request-Timestamp", at)
		secret := tenant + "-hidden-secret"
		r.Header.Set("X-Zm-Signature", "v0="+strings.TrimPrefix(sign(secret, "v0:"+at+":"+body), "sha256="))
		w := httptest.NewRecorder()
		s.rx.Handler().ServeHTTP(w, r)
		token := strings.TrimPrefix(sign(secret, "qgg8vlvZRS6UYooatFL8Aw"), "sha256=")
		if w.Code != 200 || !strings.Contains(w.Body.String(), token) {
			t.Error(tenant, w.Code, w.Body)
		}
	}
}

func TestALaneIsThatOfOneTenant(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v, ran := newVault("acme", "beta"), make(chan string, 9)
		hold := make(chan struct{})
		s := serve(t, v.hooks("shop", true), nil, On("shop", "*", func(_ context.Context, ev Event[any]) error {
			if ran <- ev.Principal; ev.Principal == "acme" {
				<-hold
			}
			return nil
		}).Lane(producer.JSON("order")))
		for _, tenant := range []string{"acme", "beta"} {
			path, secret := "/webhooks/shop/"+tenant, tenant+"-hidden-secret"
			want(t, tenant, push(s.rx.Handler(), path, secret, `{"order": "1"}`), "200")
			synctest.Wait()
			want(t, "runs", <-ran, tenant)
		}
		close(hold)
	})
}

func TestALaneOfATenantYields(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		v, ran := newVault("acme"), make(chan string, 9)
		s := serve(t, v.hooks("shop", true), nil, On("shop", "*", func(_ context.Context, ev Event[any]) error {
			if ran <- string(ev.Body); strings.Contains(string(ev.Body), "fails") {
				return errors.New("later")
			}
			return nil
		}).Lane(producer.JSON("order")).LaneYields())
		for _, body := range []string{`{"order": "1", "n": "fails"}`, `{"order": "1"}`} {
			want(t, body, push(s.rx.Handler(), "/webhooks/shop/acme", "acme-hidden-secret", body), "200")
			synctest.Wait()
			want(t, "runs", <-ran, body)
		}
	})
}

// TestATenantMayMoveItsSecretToAnotherName is about an old name that gets no deliveries any more.
func TestATenantMayMoveItsSecretToAnotherName(t *testing.T) {
	t.Parallel()
	bothSources(t, func(t *testing.T, lists bool) {
		v := newVault("acme", "beta")
		s := serve(t, v.hooks("shop", lists), nil)
		to := func(tenant, body string) string {
			return push(s.rx.Handler(), "/webhooks/shop/"+tenant, "acme-hidden-secret", body)
		}
		want(t, "before", to("acme", "1"), "200")
		v.change(func() {
			v.secrets["acme-inc"] = v.secrets["acme"]
			delete(v.secrets, "acme")
		})
		time.Sleep(2 * time.Minute)
		to("acme-inc", "2") // while the cache has the old name
		synctest.Wait()
		want(t, "after it", to("acme-inc", "3"), "200")
		if want(t, "the old name", to("acme", "4"), "404"); lists && strings.Contains(s.log.String(), "same secret") {
			t.Error(s.log)
		}
	})
}
