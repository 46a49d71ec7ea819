package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheResponseOfAFailingTargetIsShown(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte("database is locked\n\x1b[2J{\"detail\": 7}"))
	}))
	defer target.Close()
	for setting, shown := range map[string]bool{"": true, ", keep_response: false": false, ", mode: relay": true,
		", mode: relay, keep_response: false": false} {
		file := configured(t, "handlers:\n  - {producer: gh, type: push, forward: \""+target.URL+"\""+setting+"}\n")
		r := launch(t, "serve", "--config", file)
		push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
		state := "dead"
		if strings.Contains(setting, "relay") {
			state = "done" // it was answered
		}
		event := counted(t, file, state, 1)[0].Event
		out, _ := command(t, 0, "", "events", "show", event, "--config", file)
		if strings.Contains(out, "RESPONSE to attempt 1 of gh/push/forward\n  database is locked\n") != shown ||
			strings.Contains(out, "\x1b") {
			t.Errorf("%q: %q", setting, out)
		}
		out, _ = command(t, 0, "", "events", "show", event, "-o", "json", "--config", file)
		if strings.Contains(out, `"reply": "database is locked\n\u001b[2J{\"detail\": 7}"`) != shown {
			t.Errorf("%q: %s", setting, out)
		}
	}
}
