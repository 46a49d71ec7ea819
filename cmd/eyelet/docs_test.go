package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheReferencesExampleIsGood loads the complete example of docs/config.md.
func TestTheReferencesExampleIsGood(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/config.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	dir := t.TempDir()
	keygen := &program{Out: &strings.Builder{}, Err: &strings.Builder{}}
	if code := keygen.Run(t.Context(), "keygen", "--dir", dir); code != exitOK {
		t.Fatalf("keygen: %s", keygen.Err)
	}
	for _, script := range []string{"quote.sh", "record.sh"} {
		check(t, os.WriteFile(dir+"/"+script, []byte("#!/bin/sh\n"), 0o700))
	}
	file := dir + "/eyelet.yaml"
	check(t, os.WriteFile(file, []byte(example), 0o600))
	check := &program{Out: &strings.Builder{}, Err: &strings.Builder{}, Environ: []string{
		"SHOP_SECRET=0123456789abcdef0123456789abcdef", "GITHUB_SECRET=another-long-secret",
		"PAYMENTS_SECRET=a-third-long-secret",
	}}
	if code := check.Run(t.Context(), "config", "check", "--config", file); code != exitOK {
		t.Fatalf("the example is refused:\n%s", check.Err)
	}
}
