package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheReferencesExampleIsGood loads the complete example of docs/config.md.
func TestTheReferencesExampleIsGood(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(dir+"/"+script, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := dir + "/eyelet.yaml"
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	check := &program{Out: &strings.Builder{}, Err: &strings.Builder{}, Environ: []string{
		"SHOP_SECRET=0123456789abcdef0123456789abcdef", "GITHUB_SECRET=another-long-secret",
		"PAYMENTS_SECRET=a-third-long-secret",
	}}
	if code := check.Run(t.Context(), "config", "check", "--config", file); code != exitOK {
		t.Fatalf("the example is refused:\n%s", check.Err)
	}
}

// TestTheReliabilityPageNamesTestsThatExist compares docs/reliability.md with the tests.
func TestTheReliabilityPageNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, dir := range []string{".", "../../dedup", "../../dedup/badgerstore", "../../receiver",
		"../../receiver/internal/admission", "internal/config", "internal/forward", "internal/server", "internal/sink",
		"../../replay", "../../inspect"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), "_test.go") {
				source, err := os.ReadFile(dir + "/" + e.Name())
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(source)
			}
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name[1]+"(t *testing.T)") {
			t.Errorf("docs/reliability.md names %s, and there is no such test", name[1])
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d tests are named", len(names))
	}
}
