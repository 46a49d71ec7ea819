package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestAConfigurationWithALiteralSecretThatOthersCanReadIsAWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: there are no modes on Windows")
	}
	const rest = "listen: 127.0.0.1:0\noperations: \"off\"\nproducers:\n  gh: {preset: github, "
	for text, want := range map[string]bool{
		rest + "secret: octo-secret}\n":             true,
		rest + "secret: [\"${A}\", octo-secret]}\n": true,
		rest + "secret: [\"${A}\"]}\n":              false,
		rest + "secret: \"$${octo-secret\"}\n":      true, // $${ is a literal ${
		rest + "secret: \"octo-${A}\"}\n":           false,
		strings.Replace(rest, "gh: {preset: github, ",
			"wp: {preset: worldpay, keys: {\"1\": "+
				"\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}}\n", 1): true,
		rest + "secret: \"${A}\"}\nhandlers:\n  - {producer: gh, type: a, forward: " +
			"\"http://u:password@127.0.0.1:1/\"}\n": true,
		rest + "secret: \"${A}\"}\nhandlers:\n  - {producer: gh, type: a, forward: " +
			"\"http://127.0.0.1:1/deploy\"}\n": false,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "eyelet.yaml")
		check(t, os.WriteFile(file, []byte(text), 0o600))
		shown := func() string {
			var out, errs bytes.Buffer
			p := &program{Out: &out, Err: &errs, Environ: []string{"A=octo-secret-of-variables"}}
			if code := p.Run(t.Context(), "config", "check", "--config", file); code != exitOK {
				t.Fatalf("%s: exit %d: %s", text, code, errs.String())
			}
			return errs.String()
		}
		if got := shown(); strings.Contains(got, "chmod") {
			t.Errorf("for its owner only: %s", got)
		}
		check(t, os.Chmod(file, 0o644))
		warning := "eyelet: warning: " + file + " holds a secret, and its mode 0644 "
		if got := shown(); strings.Contains(got, warning) != want || strings.Contains(got, "octo") {
			t.Errorf("%s\ngives %s", text, got)
		}
	}
}

func TestServeWarnsAboutASecretFileThatOthersCanRead(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: there are no modes on Windows")
	}
	config := ending(t, "exec: [/bin/true]", "20s", "")
	check(t, os.Chmod(config, 0o644))
	c := startServed(t, config)
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if log := c.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "chmod 600 "+config) ||
		strings.Contains(log, "another-long-secret") {
		t.Error(log)
	}
}
