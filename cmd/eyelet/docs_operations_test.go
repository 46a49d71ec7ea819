package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/replay"
)

func operationsPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	check(t, err)
	return string(text)
}

// taskPages are the pages about one task each.
var taskPages = []string{"dead-letters.md", "missing-events.md", "proxies.md", "rotate.md", "tunnels.md"}

// TestThePagesCommandsExist finds every command on the pages, with its flags.
func TestThePagesCommandsExist(t *testing.T) {
	t.Parallel()
	root := (&program{}).command()
	root.InitDefaultCompletionCmd()
	seen, text := 0, operationsPage(t)
	for _, name := range taskPages {
		page, err := os.ReadFile("../../docs/howto/" + name)
		check(t, err)
		text += string(page)
	}
	for line := range strings.Lines(text) {
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

// TestTheTasksConfigurationsAreGood checks each configuration on the pages.
func TestTheTasksConfigurationsAreGood(t *testing.T) {
	t.Parallel()
	for _, name := range taskPages {
		page, err := os.ReadFile("../../docs/howto/" + name)
		check(t, err)
		for i, part := range strings.Split(string(page), "```yaml\n")[1:] {
			example, _, _ := strings.Cut(part, "```")
			file := filepath.Join(t.TempDir(), "eyelet.yaml")
			check(t, os.WriteFile(file, []byte(example), 0o600))
			var errs strings.Builder
			check := &program{Out: io.Discard, Err: &errs, Environ: []string{
				"GITHUB_SECRET=a-long-secret-0123", "GITHUB_OLD_SECRET=another-long-secret-0123",
				"STRIPE_SECRET=whsec_a_long_secret_0123",
			}}
			if code := check.Run(t.Context(), "config", "check", "--config", file); code != exitOK {
				t.Errorf("docs/howto/%s, configuration %d: %s", name, i+1, &errs)
			}
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
