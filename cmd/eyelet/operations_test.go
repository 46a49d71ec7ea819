package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
)

func TestTheOperationsPortIsForUs(t *testing.T) {
	t.Parallel()
	s := serveForShop(t, "  - {producer: shop, type: \"*\", stdout: true}\n")
	token, err := os.ReadFile(filepath.Join(s.dir, "data", opsapi.TokenFile))
	check(t, err)
	address, err := os.ReadFile(filepath.Join(s.dir, "data", opsapi.AddressFile))
	check(t, err)
	for _, name := range []string{opsapi.TokenFile, opsapi.AddressFile} {
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
		"health":    {path: "/healthz", status: 200, holds: "ok"},
		"readiness": {path: "/readyz", status: 200, holds: "ready"},
		"metrics": {path: "/metrics", status: 200,
			holds: `eyelet_deliveries_total{code="accepted",endpoint="shop"} 1`},
		"metrics of the store": {path: "/metrics", status: 200, holds: "eyelet_store_accepted_total 1"},
		"no token":             {path: "/events", status: 401, holds: opsapi.TokenFile},
		"another token":        {path: "/events", header: http.Header{"Authorization": {"Bearer x"}}, status: 401},
		"basic":                {path: "/events", header: http.Header{"Authorization": {"Basic x"}}, status: 401},
		"unknown path":         {path: "/nothing", status: 401},
		"the token":            {path: "/events", header: bearer, status: 200, holds: `"id":"order-1"`},
		"a wrong parameter":    {path: "/events?stat=dead", header: bearer, status: 400, holds: "stat"},
		"a foreign host":       {path: "/healthz", host: "evil.example", status: 421},
		"the page":             {path: "/ui/login", status: 200, holds: "Eyelet"},
		"the page, foreign":    {path: "/ui/login", host: "evil.example", status: 421},
		"its rows, foreign":    {path: "/ui/", host: "evil.example", status: 421},
		"localhost":            {path: "/healthz", host: "localhost:1", status: 200},
		"a foreign address":    {path: "/healthz", host: "192.0.2.7", status: 421},
		"a foreign origin": {path: "/healthz", header: http.Header{"Origin": {"https://evil.example"}},
			status: 403},
		"an opaque origin": {path: "/healthz", header: http.Header{"Origin": {"null"}}, status: 403},
		"another site":     {path: "/healthz", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		"our own origin": {path: "/healthz",
			header: http.Header{"Origin": {"http://" + strings.TrimSpace(string(address))}}, status: 200},
		"a change": {method: http.MethodPost, path: "/events", header: bearer, status: 405},
	}
	for name, tt := range tests {
		if tt.method == "" {
			tt.method = http.MethodGet
		}
		r, err := http.NewRequest(tt.method, "http://"+strings.TrimSpace(string(address))+tt.path, nil)
		check(t, err)
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
	check(t, err)
	return r
}
