package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestViaNameIsStableAndUnique(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	file := filepath.Join(t.TempDir(), "e.yaml")
	for _, text := range []string{
		"listen: 127.0.0.1:8080\n",
		"listen: 127.0.0.1:8082\n",
		"url: https://a.example\n",
		"store: \"badger:./other\"\n",
	} {
		var last string
		for range 2 {
			s := loadText(t, file, text+"producers:\n  gh: {preset: github, secret: [octo-secret]}\n")
			if last != "" && s.viaName() != last {
				t.Errorf("was %s, now %s", last, s.viaName())
			}
			last = s.viaName()
		}
		if !regexp.MustCompile(`^eyelet-[0-9a-f]{8}$`).MatchString(last) || names[last] {
			t.Errorf("%s is not a new name", last)
		}
		names[last] = true
	}
	if got := loadText(t, file, "via: edge-1\nproducers:\n"+
		"  gh: {preset: github, secret: [octo-secret]}\n").viaName(); got != "edge-1" {
		t.Errorf("%s", got)
	}
}

// loadText writes a configuration to the file and loads it.
func loadText(t *testing.T, file, text string) *Settings {
	t.Helper()
	check(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := Source{File: file}.Load()
	check(t, err)
	return s
}
