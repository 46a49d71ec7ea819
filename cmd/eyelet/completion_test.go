package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNamesAreCompleted: from the configuration, the presets and the running server.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: push, name: print, stdout: true}\n"+
		"  - {producer: gh, type: \"custom.*\", exec: [/bin/true]}\n")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
	event := counted(t, file, "done", 1)[0].Event
	broken := filepath.Join(t.TempDir(), "broken.yaml") // one without the secret can be completed, too
	check(t, os.WriteFile(broken, []byte("producers:\n  pay: {preset: stripe, secret: \"${EYELET_UNSET}\"}\n  x: ["),
		0o600))
	unset := filepath.Join(t.TempDir(), "unset.yaml")
	check(t, os.WriteFile(unset, []byte("producers:\n  pay: {preset: stripe, secret: \"${EYELET_UNSET}\"}\n"),
		0o600))
	for words, want := range map[string][]string{
		"events list --config " + file + " --producer ":   {"gh"},
		"events tail --config " + file + " --endpoint ":   {"gh"},
		"events forget --config " + file + " --handler ":  {"print", "gh/custom.*/exec"},
		"events retry --config " + file + " --type ":      {"custom.*", "push", "pull_request"},
		"send --config " + file + " --producer ":          {"gh"},
		"explain --config " + unset + " --producer ":      {"pay"},
		"events list --config " + unset + " --type ":      {"invoice.paid"},
		"events show --config " + file + " ":              {event + "\tpush done"},
		"events reopen --config " + file + " ":            {event + "\tpush done"},
		"events show --config " + unset + " ":             nil,
		"events list --config " + broken + " --producer ": nil,
		"send ":                          {"github", "stripe"},
		"send stripe ":                   {"invoice.paid"},
		"listen 3000 ":                   {"github"},
		"events list --state ":           {"dead"},
		"listen ":                        nil,
		"init stripe ":                   {"github"},
		"producers github ":              nil,
		"init git":                       {"github", "gitlab", "gitlab-signed"},
		"producers mailg":                {"mailgun"},
		"replay x --producer ":           nil,
		"events list --config / --type ": nil,
	} {
		args := strings.Split(words, " ")
		out, _ := command(t, 0, "", append([]string{"__complete"}, args...)...)
		lines := strings.Split(out, "\n")
		for _, word := range want {
			if !slices.Contains(lines, word) {
				t.Errorf("%s: %q is missing in\n%s", words, word, out)
			}
		}
		if want == nil && len(lines) > 2 || strings.Contains(out, "octo-secret") {
			t.Errorf("%s: %s", words, out)
		}
	}
}
