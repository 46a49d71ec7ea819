package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

// TestAnEventIsShownForOtherPrograms, which give it back to send: as a duplicate, and with a new
// signature.
func TestAnEventIsShownForOtherPrograms(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible)
	r := launch(t, "serve", "--config", file)
	request := pushRequest(t, r.deliveries, "g-1", `{"it's": "tea"}`)
	request.Header.Set("Authorization", "Bearer s3cret")
	request.Header.Set("Cookie", "a=s3cret")
	res, err := http.DefaultClient.Do(request)
	check(t, err)
	_ = res.Body.Close()
	event := counted(t, file, "dead", 1)[0].Event
	for format, want := range map[string]string{
		"har":  `"url": "http://127.0.0.1:0/webhooks/gh"`,
		"curl": "curl -g -X 'POST' 'http://127.0.0.1:0/webhooks/gh' \\\n  -H '",
	} {
		out, _ := command(t, exitOK, "", "events", "show", event, "-o", format, "--config", file)
		if !strings.Contains(out, want) || strings.Contains(out, "s3cret") {
			t.Errorf("%s:\n%s", format, out)
		}
		copied := filepath.Join(t.TempDir(), "t."+format)
		check(t, os.WriteFile(copied, []byte(out), 0o600))
		if out, _ = command(t, exitOK, "", "send", copied, "--url", r.deliveries); !strings.Contains(out, "duplicate") {
			t.Errorf("%s: %s", format, out)
		}
		out, _ = command(t, exitOK, "", "send", copied, "--url", r.deliveries, "--sign", "--config", file, "--producer",
			"gh")
		if !strings.HasPrefix(out, "200") {
			t.Errorf("%s, signed: %s", format, out)
		}
		code, _, errs := run(t, "events", "show", event, "-o", format, "--raw", "--config", file)
		if code != exitUsage || !strings.Contains(errs, "-o "+format+" is of one event") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if code, _, errs := run(t, "events", "list", "-o", "har", "--config", file); code != exitUsage {
		t.Errorf("exit %d: %s", code, errs)
	}
	_, errs := command(t, exitFailed, "", "events", "show", "none", "-o", "curl", "--config", file)
	if !strings.Contains(errs, "no such event") {
		t.Error(errs)
	}
}

// TestCopiesNameThePublicURL of the configuration, else the address that serve listens on.
func TestCopiesNameThePublicURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ public, listen, want string }{
		{"https://h.example/in/", ":80", "https://h.example/in"}, {"", ":80", "http://localhost:80"},
		{"", "127.0.0.1:8080", "http://127.0.0.1:8080"}, {"", "", "http://" + config.DefaultListen},
	} {
		if got := deliveriesURL(&config.Settings{URL: tt.public, Listen: tt.listen}); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
