package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// withSecrets writes a configuration with a secret of each kind in a file of its own, readable by
// the owner only.
func withSecrets(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	command(t, 0, "", "keygen", "--dir", dir, "--name", "shop")
	servertest.Issue(t, dir, 1)
	files := map[string]string{
		"eyelet.yaml": "listen: 127.0.0.1:0\noperations: \"off\"\nurl: https://hooks.example\ntls: {cert_file: " +
			"cert.pem, key_file: key.pem}\nproducers:\n" +
			"  gh: {preset: github, secrets_files: [one.secret, two.secret]}\n" +
			"  shop:\n    scheme: rfc9421\n    keys:\n      - {id: k1, alg: ed25519, public_key_file: shop.pub.pem}\n" +
			"handlers:\n  - {producer: gh, type: a, forward: \"https://target.example/${NAME}\", bearer_file: " +
			"bearer, ca_file: cert.pem,\n" +
			"     sign: {id: us, private_key_file: shop.pem}}\n" +
			"  - {producer: gh, type: b, forward: \"https://target.example/b\", bearer_file: bearer}\n",
		"one.secret": "octo-secret-one\n", "two.secret": "octo-secret-two\n", "bearer": "token\n",
	}
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// warnings are the lines of config check about files.
func warnings(t *testing.T, dir string) string {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{Out: &out, Err: &errs, Environ: []string{"NAME=n"}}
	if code := p.Run(t.Context(), "config", "check", "--config", filepath.Join(dir, "eyelet.yaml")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var about strings.Builder
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, "holds a secret") {
			about.WriteString(strings.ReplaceAll(line, dir+string(filepath.Separator), ""))
		}
	}
	return about.String()
}

func TestASecretFileThatOthersCanReadIsAWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: there are no modes on Windows")
	}
	dir := withSecrets(t)
	chmod := func(mode fs.FileMode, names ...string) {
		t.Helper()
		for _, name := range names {
			check(t, os.Chmod(filepath.Join(dir, name), mode))
		}
	}
	chmod(0o644, "cert.pem", "shop.pub.pem", "eyelet.yaml")
	if got := warnings(t, dir); got != "" {
		t.Errorf("nothing is wrong: %s", got)
	}
	secrets := []string{"one.secret", "two.secret", "bearer", "shop.pem", "key.pem"}
	for mode, shown := range map[fs.FileMode]string{0o644: "0644", 0o640: "0640", 0o604: "0604"} {
		chmod(mode, secrets...)
		got := warnings(t, dir)
		for _, name := range secrets {
			line := "eyelet: warning: " + name + " holds a secret, and its mode " + shown +
				" lets others than its owner read it: chmod 600 " + name + "\n"
			if strings.Count(got, line) != 1 {
				t.Errorf("%s: no line, or more, for %s in %s", shown, name, got)
			}
		}
		if n := strings.Count(got, "\n"); n != len(secrets) {
			t.Errorf("%s: %d lines: %s", shown, n, got)
		}
	}
	chmod(0o620, secrets...) // others can write it, not read it
	if got := warnings(t, dir); got != "" {
		t.Errorf("no other user can read: %s", got)
	}
}

func TestAConfigurationWithALiteralSecretThatOthersCanReadIsAWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: there are no modes on Windows")
	}
	const rest = "listen: 127.0.0.1:0\noperations: \"off\"\nproducers:\n  gh: {preset: github, "
	for text, want := range map[string]bool{
		rest + "secret: octo-secret}\n":              true,
		rest + "secrets: [\"${A}\", octo-secret]}\n": true,
		rest + "secrets: [\"${A}\"]}\n":              false,
		rest + "secret: \"$${octo-secret\"}\n":       true, // $${ is a literal ${
		rest + "secret: \"octo-${A}\"}\n":            false,
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
