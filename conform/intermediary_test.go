package conform

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

// gateway is the reference intermediary: it accepts a delivery, and sends it on until there is an
// outcome. As a relay it passes the outcome of its one attempt on. Its faults are switched on by
// name.
type gateway struct {
	fault  string
	relay  bool
	mu     sync.Mutex
	target string
	done   sync.WaitGroup
}

const gatewayName = "1.1 reference"

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(r.Header.Get("Via"), gatewayName) && g.fault != "loops" {
		w.WriteHeader(http.StatusLoopDetected)
		return
	}
	if g.relay {
		code, after := g.attempt(r, body, 0)
		if g.fault == "passes Retry-After" {
			w.Header().Set("Retry-After", after)
		}
		if code == 0 || code == http.StatusMultiStatus || code/100 == 3 {
			code = http.StatusBadGateway
		}
		if g.fault == "relay accepts all" || g.fault == "207 is success" && code == http.StatusBadGateway {
			code = http.StatusAccepted
		}
		w.WriteHeader(code)
		return
	}
	g.done.Go(func() { g.store(r, body) })
	w.WriteHeader(http.StatusAccepted)
}

// store sends a delivery on until there is an outcome.
func (g *gateway) store(r *http.Request, body []byte) {
	for n := range 3 {
		code, after := g.attempt(r, body, n)
		wait, _ := strconv.Atoi(after)
		if g.fault == "hasty" {
			wait = 0
		}
		transient := code == 0 || code >= 500 || slices.Contains([]int{207, 307, 308, 408, 409, 421, 425, 429}, code)
		switch {
		case g.fault == "503 is final" && code == 503,
			g.fault == "cut is final" && code == 0, !transient && (g.fault != "retries 404" || code != 404):
			return
		}
		time.Sleep(min(time.Duration(wait)*time.Second, maxRetryAfter) + 20*time.Millisecond)
	}
}

func (g *gateway) attempt(r *http.Request, body []byte, n int) (code int, after string) {
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	if g.fault == "another body" {
		body = append(body, ' ')
	}
	req, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"Content-Type", "Idempotency-Key", "X-Id"} {
		req.Header.Set(name, r.Header.Get(name))
	}
	if g.fault == "new id" && n > 0 {
		req.Header.Set("X-Id", strconv.Itoa(n))
	}
	if g.fault == "new key" && n > 0 {
		req.Header.Set("Idempotency-Key", `"`+strconv.Itoa(n)+`"`)
	}
	if g.fault == "strips the key" {
		req.Header.Set("Idempotency-Key", strings.Trim(r.Header.Get("Idempotency-Key"), `"`))
	}
	if g.fault == "sends hop fields on" {
		req.Header.Set("X-Conform-Hop", r.Header.Get("X-Conform-Hop"))
	}
	if g.fault == "signature without its fields" {
		req.Header.Set("Signature", r.Header.Get("Signature"))
		req.Header.Set("Signature-Input", r.Header.Get("Signature-Input"))
	}
	if g.fault == "sends credentials on" {
		req.Header.Set("Authorization", r.Header.Get("Authorization"))
	}
	if g.fault != "no Via" {
		req.Header.Set("Via", gatewayName)
	}
	req.Close = true
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	_ = resp.Body.Close()
	is308 := resp.StatusCode == http.StatusPermanentRedirect && g.fault != "forgets a 308"
	if is308 || g.fault == "keeps a 307" && resp.StatusCode == http.StatusTemporaryRedirect {
		g.mu.Lock()
		g.target = resp.Header.Get("Location")
		g.mu.Unlock()
	}
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// mediate runs the checks of intermediaries on the reference.
func mediate(t *testing.T, p *Profile, g *gateway, only ...string) (*Report, []string) {
	t.Helper()
	address := freeport.Address()
	g.target = "http://" + address + "/target"
	server := httptest.NewServer(g)
	defer server.Close()
	defer g.done.Wait()
	return runPeer(t, Options{Role: Intermediary, URL: server.URL + "/in", Listen: address, Profile: p, Only: only})
}

func bearerProfile(t *testing.T) *Profile {
	t.Helper()
	p := *peerProfile(t)
	p.Scheme = "bearer"
	return &p
}

func TestTheReferenceIntermediaryHolds(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*gateway{"store": {}, "relay": {relay: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, failed := mediate(t, peerProfile(t), g)
			without := map[string]int{"store": 2, "relay": 3}[name] // it relays a 308
			if len(failed) > 0 || r.Count(Holds, "") < len(checksOf(Intermediary))-without {
				t.Errorf("%v fail: %s", failed, r.Summary())
			}
			r, failed = mediate(t, bearerProfile(t), g, "I114")
			if len(failed) > 0 || r.Count(Holds, "") != 1 {
				t.Errorf("%v fail: %s", failed, r.Summary())
			}
		})
	}
}

func TestFaultsOfIntermediariesAreFound(t *testing.T) {
	t.Parallel()
	for fault, number := range map[string]string{
		"another body": "I101", "no Via": "I102", "strips the key": "I103", "sends hop fields on": "I104",
		"passes Retry-After": "I105", "503 is final": "I106", "new key": "I106", "relay accepts all": "I106",
		"new id":         "I106",
		"207 is success": "I107", "cut is final": "I108", "retries 404": "I109", "hasty": "I110", "keeps a 307": "I111",
		"forgets a 308": "I115", "loops": "I112",
		"signature without its fields": "I113", "sends credentials on": "I114",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := peerProfile(t)
			if number == "I114" {
				p = bearerProfile(t)
			}
			if fault == "new id" {
				p.Key, p.Fields = "field:X-Id", map[string]string{"X-Id": "{id}", "Idempotency-Key": `"{id}"`}
			}
			relays := []string{"passes Retry-After", "relay accepts all", "207 is success"}
			g := &gateway{fault: fault, relay: slices.Contains(relays, fault)}
			if _, failed := mediate(t, p, g, number); !slices.Contains(failed, number) {
				t.Errorf("%s is not found by %s: %v fail", fault, number, failed)
			}
		})
	}
}
