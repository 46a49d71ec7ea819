package main

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestTheLogHasWhatHandlersSay: what a program wrote although it succeeded, and why a target was
// not reached; with omit_errors neither.
func TestTheLogHasWhatHandlersSay(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_ = closed.Close()
	handlers := "limits: {backoff_base: 1ms, attempts: 2}\nhandlers:\n" +
		"  - {producer: gh, type: push, name: greet, exec: [sh, -c, \"echo hello you >&2\"]}\n" +
		"  - {producer: gh, type: push, name: away, forward: \"http://" + closed.Addr().String() + "/\"}\n"
	for rest, wants := range map[string]bool{"": true, "log: {omit_errors: true}\n": false} {
		file := configured(t, handlers)
		text, err := os.ReadFile(file)
		check(t, err)
		changed := strings.Replace(string(text), "log: {level: error}\n", rest, 1)
		check(t, os.WriteFile(file, []byte(changed), 0o600))
		r := launch(t, "serve", "--config", file)
		push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
		counted(t, file, "dead", 1)
		r.stop()
		if code := <-r.ended; code != exitOK {
			t.Errorf("exit %d", code)
		}
		for _, want := range []string{
			`level=INFO msg="program wrote to standard error" handler=greet event=`,
			`type=push id=g-1 line="hello you"`, "connection refused",
		} {
			if strings.Contains(r.errs.String(), want) != wants {
				t.Errorf("%q: %q must be there: %v:\n%s", rest, want, wants, r.errs.String())
			}
		}
		if !strings.Contains(r.errs.String(), "handler=away") {
			t.Errorf("%q: nothing about the target:\n%s", rest, r.errs.String())
		}
	}
}
