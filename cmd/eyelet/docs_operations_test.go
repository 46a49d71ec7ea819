package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/replay"
)

func operationsPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThePagesCommandsExist finds every command on the page, with its flags.
func TestThePagesCommandsExist(t *testing.T) {
	t.Parallel()
	root := (&program{}).command()
	root.InitDefaultCompletionCmd()
	seen := 0
	for line := range strings.Lines(operationsPage(t)) {
		_, rest, ok := strings.Cut(line, "eyelet ")
		if !ok || strings.HasPrefix(line, "|") || strings.Contains(line, "`eyelet") {
			continue
		}
		rest, _, _ = strings.Cut(rest, "  #")
		if _, last, piped := strings.Cut(rest, "| eyelet "); piped {
			rest = last
		}
		words := strings.Fields(rest)
		c, _, err := root.Find(words)
		if err != nil || c == root {
			t.Errorf("%q is not a command: %v", strings.TrimSpace(line), err)
			continue
		}
		seen++
		checkWords(t, c, words)
	}
	if seen < 15 {
		t.Fatalf("only %d commands were looked at", seen)
	}
	for _, field := range []string{replay.FieldOriginalEvent, replay.FieldOriginalAccepted,
		replay.FieldOriginalAttempt} {
		if !strings.Contains(operationsPage(t), "`"+field+"`") {
			t.Errorf("the page does not name the field %s", field)
		}
	}
}

func checkWords(t *testing.T, c *cobra.Command, words []string) {
	t.Helper()
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		if isFlag && c.Flags().Lookup(name) == nil {
			t.Errorf("%s has no flag --%s", c.CommandPath(), name)
		}
	}
}
