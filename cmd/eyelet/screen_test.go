package main

import (
	"bytes"
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
	var said bytes.Buffer
	p := &program{Err: &said}
	ask := func(ctx context.Context, key byte) string {
		said.Reset()
		if !pressed(ctx, p, s, key) {
			t.Errorf("%c ends", key)
		}
		return said.String()
	}
	press := func(key byte, want string) {
		t.Helper()
		if says := ask(t.Context(), key); !regexp.MustCompile(want).MatchString(says) {
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
		return !strings.Contains(ask(t.Context(), 'e'), "refused yet")
	})
	press('e', "(?s)signature.*proved")
	press('o', `^http://127.0.0.1:\d+/ui/login\?code=[\w-]+\n$`)
	press('x', "^$")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ask(ctx, 'e') == "" {
		t.Error("an error says nothing")
	}
	if pressed(ctx, p, s, 'q') {
		t.Error("q does not end")
	}
}
