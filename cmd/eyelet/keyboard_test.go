package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

// TestKeysExplainAndOpen presses keys before and after a delivery with a wrong signature.
func TestKeysExplainAndOpen(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no browser
	file := configured(t, "handlers:\n  - {producer: gh, type: push, stdout: true}\n")
	r := launch(t, "serve", "--config", file)
	s, err := config.Source{File: file}.Load()
	check(t, err)
	p := &program{Out: io.Discard, Err: io.Discard}
	press := func(key byte, want string) {
		t.Helper()
		says, ok := pressed(t.Context(), p, s, key)
		if !ok || !regexp.MustCompile(want).MatchString(says) {
			t.Errorf("%c says %q, want %s", key, says, want)
		}
	}
	press('e', "^no delivery was refused yet\n$")
	request := pushRequest(t, r.deliveries, "d1", "{}")
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader("{}\n")), 3
	res, err := http.DefaultClient.Do(request)
	check(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Fatal(res.Status)
	}
	eventually(t, "the delivery is kept", func() bool {
		says, _ := pressed(t.Context(), p, s, 'e')
		return !strings.Contains(says, "refused yet")
	})
	press('e', "(?s)signature.*proved")
	press('o', `^http://127.0.0.1:\d+/ui/login\?code=[\w-]+\n$`)
	if says, ok := pressed(t.Context(), p, s, 'x'); ok || says != "" {
		t.Errorf("x says %q", says)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if says, _ := pressed(ctx, p, s, 'e'); says == "" {
		t.Error("an error says nothing")
	}
}
