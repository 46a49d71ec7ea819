package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

func TestTheOperationsPortIsForUs(t *testing.T) {
	t.Parallel()
	s := serveForShop(t, "  - {producer: shop, type: \"*\", stdout: true}\n")
	token, err := os.ReadFile(filepath.Join(s.dir, "data", tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	address, err := os.ReadFile(filepath.Join(s.dir, "data", addressFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tokenFile, addressFile} {
		info, err := os.Stat(filepath.Join(s.dir, "data", name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v)", name, info.Mode(), err)
		}
	}
	s.send(s.fresh())
	bearer := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
	tests := map[string]struct {
		method, path, host string
		header             http.Header
		status             int
		holds              string
	}{
		"health":               {path: "/healthz", status: 200, holds: "ok"},
		"readiness":            {path: "/readyz", status: 200, holds: "ready"},
		"metrics":              {path: "/metrics", status: 200, holds: `eyelet_deliveries_total{code="accepted",endpoint="shop"} 1`},
		"metrics of the store": {path: "/metrics", status: 200, holds: "eyelet_store_accepted_total 1"},
		"no token":             {path: "/events", status: 401, holds: tokenFile},
		"another token":        {path: "/events", header: http.Header{"Authorization": {"Bearer x"}}, status: 401},
		"basic":                {path: "/events", header: http.Header{"Authorization": {"Basic x"}}, status: 401},
		"unknown path":         {path: "/nothing", status: 401},
		"the token":            {path: "/events", header: bearer, status: 200, holds: `"id":"order-1"`},
		"a wrong parameter":    {path: "/events?stat=dead", header: bearer, status: 400, holds: "stat"},
		"a foreign host":       {path: "/healthz", host: "evil.example", status: 421},
		"localhost":            {path: "/healthz", host: "localhost:1", status: 200},
		"a foreign address":    {path: "/healthz", host: "192.0.2.7", status: 421},
		"a foreign origin":     {path: "/healthz", header: http.Header{"Origin": {"https://evil.example"}}, status: 403},
		"an opaque origin":     {path: "/healthz", header: http.Header{"Origin": {"null"}}, status: 403},
		"another site":         {path: "/healthz", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		"our own origin":       {path: "/healthz", header: http.Header{"Origin": {"http://" + strings.TrimSpace(string(address))}}, status: 200},
		"a change":             {method: http.MethodPost, path: "/events", header: bearer, status: 405},
	}
	for name, tt := range tests {
		if tt.method == "" {
			tt.method = http.MethodGet
		}
		r, err := http.NewRequest(tt.method, "http://"+strings.TrimSpace(string(address))+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		for name, values := range tt.header {
			r.Header[name] = values
		}
		got := s.do(r)
		if got.status != tt.status || !strings.Contains(got.body, tt.holds) {
			t.Errorf("%s: status %d, want %d with %q:\n%.400s", name, got.status, tt.status, tt.holds, got.body)
		}
	}
	if got := s.do(mustRequest(t, s.base+"/metrics")); got.status != 404 {
		t.Errorf("metrics at the port of deliveries: %d", got.status)
	}
}

func mustRequest(t *testing.T, address string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOwnHosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		configured, host string
		want             bool
	}{
		{"127.0.0.1", "127.0.0.1:8081", true}, {"127.0.0.1", "[::1]:8081", true}, {"127.0.0.1", "localhost", true},
		{"127.0.0.1", "eyelet.internal", false}, {"127.0.0.1", "10.0.0.1", false}, {"127.0.0.1", "", false},
		{"eyelet.internal", "EYELET.internal:8081", true}, {"eyelet.internal", "10.0.0.1:8081", false},
		{"", "10.0.0.1:8081", true}, {"", "evil.example", false}, {"0.0.0.0", "10.0.0.1:8081", true}, {"0.0.0.0", "evil.example", false},
		{"", "", false},
	} {
		if got := ownHost(tt.configured, tt.host); got != tt.want {
			t.Errorf("host %q on %q: %v", tt.host, tt.configured, got)
		}
	}
}

func TestDeliveriesWithoutTLSComeFromOurProxiesOnly(t *testing.T) {
	t.Parallel()
	c, err := config.Source{}.Parse("eyelet.yaml", []byte("listen: 0.0.0.0:8080\ntrusted_proxies: [192.0.2.0/24, \"2001:db8::1\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := (&server{settings: c}).guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }))
	for peer, want := range map[string]int{
		"192.0.2.9:1": 200, "[2001:db8::1]:1": 200, "127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:192.0.2.9]:1": 200,
		"198.51.100.1:1": 403, "[2001:db8::2]:1": 403, "": 403, "pipe": 403,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: status %d, want %d", peer, w.Code, want)
		}
	}
}

// TestWhatAProxyTookInClearTextIsRefused: the proxy says so in the last value of X-Forwarded-Proto. Nobody else is asked.
func TestWhatAProxyTookInClearTextIsRefused(t *testing.T) {
	t.Parallel()
	const proxies = "trusted_proxies: [192.0.2.0/24]\n"
	for _, tt := range []struct {
		config, peer string
		said         []string
		want         int
	}{
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"http"}, 403},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"HTTPS"}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", nil, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{""}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"https, http"}, 403},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"http", "https"}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"ws"}, 403},
		{"listen: 0.0.0.0:8080\n", "198.51.100.1:1", []string{"https"}, 403},
		{"listen: 0.0.0.0:8080\n", "127.0.0.1:1", []string{"http"}, 200}, // no proxy of ours
		{"listen: 127.0.0.1:8080\n", "192.0.2.9:1", []string{"http"}, 403},
		{"listen: 0.0.0.0:8080\ninsecure_http: true\n", "192.0.2.9:1", []string{"http"}, 200},
	} {
		c, err := config.Source{}.Parse("eyelet.yaml", []byte(tt.config+proxies))
		if err != nil {
			t.Fatal(err)
		}
		h := (&server{settings: c}).guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-Proto"] = tt.said
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%q from %s saying %q: status %d, want %d", tt.config, tt.peer, tt.said, w.Code, tt.want)
		}
	}
}
