package interop_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

func TestAnAgentLooksAtTheServer(t *testing.T) {
	t.Parallel()
	binary := buildEyelet(t)
	s := &server{binary: binary, dir: t.TempDir(), address: freeport.Address()}
	s.start(t, "listen: "+s.address+`
operations: 127.0.0.1:0
store: badger:./data
producers:
  gh: {preset: github, secret: [octo-secret-0123456789]}
handlers:
  - {producer: gh, type: push, stdout: true}
`)
	send := s.command("send", "github", "push", "--config", "eyelet.yaml", "--producer", "gh", "--id", "g1")
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("eyelet send: %v\n%s", err, out)
	}
	type call struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	calls := []call{
		{"list_events", map[string]any{"type": "push", "limit": 3}}, {"show_event", map[string]any{"event": "g1"}},
		{"check_config", nil}, {"counts", map[string]any{}}, {"show_event", map[string]any{"event": "none"}},
	}
	out, _ := runNode(t, "agents.mjs", binary, map[string]any{"dir": s.dir, "calls": calls})
	var got struct {
		Server  struct{ Name string }
		Tools   []string
		Results []struct {
			Text   string
			Failed bool
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || got.Server.Name != "eyelet" || len(got.Tools) != 6 {
		t.Fatalf("%v: %s", err, out)
	}
	wants := []string{`"vendor_id":"g1"`, `refs/heads/main`, `"good":true`, `"accepted":1`, "no such event"}
	for i, want := range wants {
		if r := got.Results[i]; !strings.Contains(r.Text, want) || r.Failed != (i == 4) {
			t.Errorf("%s: %+v, want %s", calls[i].Name, r, want)
		}
	}
	if !slices.Contains(got.Tools, "explain_refused") {
		t.Errorf("the tools are %q", got.Tools)
	}
	s.stop(t)
}
