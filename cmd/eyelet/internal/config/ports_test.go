package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestOurNameInViaIsOurOwn: it stays the same, differs from that of another receiver, and can be chosen.
func TestOurNameInViaIsOurOwn(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	file := filepath.Join(t.TempDir(), "e.yaml")
	for _, text := range []string{"listen: 127.0.0.1:8080\n", "listen: 127.0.0.1:8082\n", "url: https://a.example\n", "store: \"badger:./other\"\n"} {
		var last string
		for range 2 {
			s := parsed(t, file, text+"producers:\n  gh: {preset: github, secrets: [octo-secret]}\n")
			if last != "" && s.viaName() != last {
				t.Errorf("it was %s, and is %s", last, s.viaName())
			}
			last = s.viaName()
		}
		if !regexp.MustCompile(`^eyelet-[0-9a-f]{8}$`).MatchString(last) || names[last] {
			t.Errorf("%s is no name of its own", last)
		}
		names[last] = true
	}
	if got := parsed(t, file, "via: edge-1\nproducers:\n  gh: {preset: github, secrets: [octo-secret]}\n").viaName(); got != "edge-1" {
		t.Errorf("%s", got)
	}
}

// parsed loads a configuration, written to the same file as those before it.
func parsed(t *testing.T, file, text string) *Settings {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Source{File: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
