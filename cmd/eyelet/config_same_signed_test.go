package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSameSignedIsASetting: errors name their line, and config show prints the effective value.
func TestSameSignedIsASetting(t *testing.T) {
	t.Parallel()
	run := func(settings string, command ...string) (code int, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "eyelet.yaml")
		config := "producers:\n  own:\n    scheme: hmac\n    header: X-Sig\n    encoding: hex\n    secrets: " +
			"[0123456789abcdef-own]\n    key: header:X-Id\n" + settings
		check(t, os.WriteFile(file, []byte(config), 0o600))
		var out bytes.Buffer
		p := &program{In: strings.NewReader(""), Out: &out, Err: &out}
		code = p.Run(t.Context(), append(command, "--config", file)...)
		return code, out.String()
	}
	for settings, want := range map[string]string{
		"    same_signed: sometimes\n":                               `eyelet.yaml:8: same_signed is "sometimes"`,
		"    contract: api\n    same_signed: aside\n":                "under the API contract",
		"    same_signed_types: {a: off}\n":                          `eyelet.yaml:8: same_signed_types is "off"`,
		"    same_signed_max: -1\n":                                  "must not be negative",
		"    fingerprint: [\"nothing:x\"]\n":                         "eyelet.yaml:8: fingerprint",
		"    same_signed: run\n    same_signed_type: {a: run}\n":     `unknown setting "same_signed_type"`,
		"    contract: api\n    same_signed_types: {a: aside}\n":     "under the API contract",
		"    contract: webhook\n    same_signed_types: {a: maybe}\n": `same_signed_types is "maybe"`,
	} {
		if code, text := run(settings, "config", "check"); code != exitUsage || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, %s, want %q", settings, code, text, want)
		}
	}
	good := "    contract: webhook\n    same_signed: run\n    same_signed_max: 3\n    same_signed_types: {a: " +
		"refuse}\n    fingerprint: [\"json:id\"]\n"
	if code, text := run(good, "config", "check"); code != exitOK || !strings.Contains(text,
		"its signature covers neither id nor time") {
		t.Errorf("exit %d, %s", code, text)
	}
	if code, text := run(good, "config", "show"); code != exitOK || !strings.Contains(text, "same_signed: run\n") ||
		!strings.Contains(text, "same_signed_max: 3\n") {
		t.Errorf("exit %d, %s", code, text)
	}
}
