package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFormStaysAsItWasSigned: handlers read the JSON in a form of GitHub's, while export and
// forwarding keep the bytes that GitHub signed. The target is a receiver that verifies them again.
func TestAFormStaysAsItWasSigned(t *testing.T) {
	t.Parallel()
	second := configured(t, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	target := launch(t, "serve", "--config", second)
	file := configured(t, "handlers:\n  - {producer: gh, type: push, name: a, stdout: true}\n"+
		"  - {producer: gh, type: push, name: b, exec: [/bin/sh, -c, "+
		"'cat > got.json; echo $EYELET_EVENT_CONTENT_TYPE > type.txt']}\n"+
		"  - {producer: gh, type: push, name: c, forward: \""+target.deliveries+"/webhooks/gh\"}\n")
	r := launch(t, "serve", "--config", file)
	const event = `{"ref":"refs/heads/a&b=c","n":1}`
	form := "payload=" + url.QueryEscape(event)
	req := pushRequest(t, r.deliveries, "f-1", form)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if res := answered(t, http.DefaultClient, req); res.StatusCode != 200 {
		t.Fatalf("the form: %s", res.Status)
	}
	done := counted(t, file, "done", 1)[0]
	if !strings.Contains(r.out.String(), `"data":{"ref":"refs/heads/a&b=c","n":1}`) {
		t.Errorf("printed: %s", r.out.String())
	}
	for name, want := range map[string]string{"got.json": event, "type.txt": "application/json\n"} {
		if got, err := os.ReadFile(filepath.Join(filepath.Dir(file), name)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	relayed := counted(t, second, "done", 1)[0]
	for config, id := range map[string]string{file: done.Event, second: relayed.Event} {
		raw, _ := command(t, 0, "", "events", "show", "--raw", id, "--config", config)
		if !strings.HasSuffix(raw, form) {
			t.Errorf("the export ends otherwise than the form:\n%s", raw)
		}
		recording := filepath.Join(t.TempDir(), "form.http")
		check(t, os.WriteFile(recording, []byte(raw), 0o600))
		command(t, 0, "", "explain", recording, "--config", config)
	}
}
