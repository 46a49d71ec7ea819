package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
)

// TestTheOperationsPortIsForUs: clients without the token, of other hosts and of other sites get
// nothing and change nothing.
func TestTheOperationsPortIsForUs(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible+"  - {producer: gh, type: ping, forward: \"http://127.0.0.1:1/\", name: deploy}\n")
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, []byte(strings.Replace(string(text), "level: error", "level: info", 1)), 0o600))
	r := launch(t, "serve", "--config", file)
	state := map[string]string{}
	for _, name := range []string{opsapi.TokenFile, opsapi.AddressFile} {
		path := filepath.Join(filepath.Dir(file), "data", name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v)", name, info, err)
		}
		text, err := os.ReadFile(path)
		check(t, err)
		state[name] = strings.TrimSpace(string(text))
	}
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	event := "/events/" + counted(t, file, "dead", 1)[0].Event
	const ours, evil = "the token", "https://evil.example"
	for _, tt := range []struct {
		method, path, token, host, origin, site string
		status                                  int
		holds                                   string
	}{
		{path: "/healthz", status: 200, holds: "ok"},
		{path: "/readyz", status: 200, holds: "ready"},
		{path: "/metrics", status: 200, holds: `eyelet_deliveries_total{code="accepted",endpoint="gh"} 1`},
		{path: "/metrics", status: 200, holds: "eyelet_store_accepted_total 1"},
		{path: "/healthz", host: "localhost:1", status: 200},
		{path: "/healthz", host: "evil.example", status: 421},
		{path: "/healthz", host: "192.0.2.7", status: 421},
		{path: "/healthz", origin: evil, status: 403},
		{path: "/healthz", origin: "null", status: 403},
		{path: "/healthz", origin: "http://" + state[opsapi.AddressFile], status: 200},
		{path: "/healthz", site: "cross-site", status: 403},
		{path: "/ui/login", status: 200, holds: "Eyelet"},
		{path: "/ui/login", host: "evil.example", status: 421},
		{path: "/ui/", host: "evil.example", status: 421},
		{path: "/nothing", status: 401},
		{path: "/events", status: 401, holds: opsapi.TokenFile},
		{path: "/events", token: "Bearer x", status: 401},
		{path: "/events", token: "Basic x", status: 401},
		{path: "/events", token: ours, status: 200, holds: `"vendor_id":"g-1"`},
		{path: "/events?stat=dead", token: ours, status: 400, holds: "stat"},
		{method: "POST", path: "/events", token: ours, status: 405},
		{method: "POST", path: event + "/reopen", status: 401},
		{method: "POST", path: event + "/reopen", token: ours, origin: evil, status: 403},
		{method: "POST", path: event + "/reopen", token: ours, site: "cross-site", status: 403},
		{method: "POST", path: event + "/retry", status: 401},
		{path: event + "/raw", status: 401},
		{path: "/tail", status: 401},
		{path: "/handlers", status: 401},
		{path: "/handlers", token: ours, status: 200, holds: `"handler":"deploy","paused":false`},
		{method: "POST", path: "/handlers/pause", status: 401},
		{method: "POST", path: "/handlers/pause", token: ours, status: 404, holds: "there are: "},
		{path: "/targets", status: 401},
		{path: "/targets", token: ours, status: 200, holds: "deploy"},
		{method: "POST", path: "/targets?name=deploy&switch=off", status: 401},
		{method: "POST", path: "/targets?name=deploy&switch=off", token: ours, status: 204},
		{method: "POST", path: "/targets?name=deploy&switch=maybe", token: ours, status: 400},
		{method: "POST", path: "/targets?name=nobody&switch=on", token: ours, status: 404},
		{method: "DELETE", path: "/targets?name=deploy", token: ours, status: 405},
		{method: "DELETE", path: event, status: 401},
		{method: "DELETE", path: event, token: ours, origin: evil, status: 403},
		{path: "/events", token: ours, status: 200, holds: `"state":"dead"`},
		{method: "DELETE", path: event, token: ours, status: 204},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an open tail does not end
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, tt.method, r.operations+tt.path, http.NoBody)
		check(t, err)
		req.Host = tt.host
		fields := map[string]string{"Authorization": tt.token, "Origin": tt.origin, "Sec-Fetch-Site": tt.site}
		if tt.token == ours {
			fields["Authorization"] = "Bearer " + state[opsapi.TokenFile]
		}
		for name, value := range fields {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		if status, _, body := fetch(t, req); status != tt.status || !strings.Contains(body, tt.holds) {
			t.Errorf("%+v: status %d\n%.400s", tt, status, body)
		}
	}
	if log := r.errs.String(); !strings.Contains(log, "change through the operations port") ||
		!strings.Contains(log, "method=DELETE path="+event+" status=204") {
		t.Errorf("the log lacks the purge:\n%s", log)
	}
	if status, _ := get(t, r.deliveries+"/metrics"); status != http.StatusNotFound {
		t.Errorf("metrics at the port of deliveries: %d", status)
	}
}
