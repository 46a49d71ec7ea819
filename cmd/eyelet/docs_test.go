package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/replay"
)

// pages are README.md and the pages of docs by their path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}
	check(t, read("../../README.md", nil, nil))
	check(t, filepath.WalkDir("../../docs", read))
	return all
}

// TestThePagesCommandsExist finds every command in a block for a shell, with its flags.
func TestThePagesCommandsExist(t *testing.T) {
	t.Parallel()
	root := (&program{}).command()
	root.InitDefaultCompletionCmd()
	seen, text := 0, ""
	blocks := regexp.MustCompile("(?ms)^```(?:sh|console|bash)\n(.*?)^```")
	command := regexp.MustCompile(`(?m)(?:^|^\$ |^\w.* \| |\$\()eyelet ([a-z][^\n|)#;&>]*)`)
	for path, page := range pages(t) {
		text += page
		for _, block := range blocks.FindAllStringSubmatch(page, -1) {
			for _, m := range command.FindAllStringSubmatch(block[1], -1) {
				words := strings.Fields(m[1])
				c, _, err := root.Find(words)
				if err != nil || c == root {
					t.Errorf("%s: %q is not a command: %v", path, m[0], err)
					continue
				}
				seen++
				for _, word := range words {
					name, isFlag := strings.CutPrefix(word, "--")
					if name, _, _ = strings.Cut(name, "="); isFlag && c.Flags().Lookup(name) == nil {
						t.Errorf("%s: %s has no flag --%s", path, c.CommandPath(), name)
					}
				}
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d commands were looked at", seen)
	}
	for _, field := range []string{replay.FieldOriginalEvent, replay.FieldOriginalAccepted,
		replay.FieldOriginalAttempt} {
		if !strings.Contains(text, "`"+field+"`") {
			t.Errorf("no page names the field %s", field)
		}
	}
}

// TestConfigurationsOfThePagesAreGood checks each configuration with producers on a page. The files
// that it names need not exist.
func TestConfigurationsOfThePagesAreGood(t *testing.T) {
	t.Parallel()
	seen := 0
	for path, page := range pages(t) {
		for i, part := range strings.Split(page, "```yaml\n")[1:] {
			example, _, _ := strings.Cut(part, "```")
			if !strings.HasPrefix(example, "producers:") && !strings.Contains(example, "\nproducers:") {
				continue
			}
			seen++
			for line := range strings.Lines(mistakes(t, example)) {
				if strings.HasPrefix(line, "eyelet: ") && !ofThisMachine.MatchString(line) {
					t.Errorf("%s, configuration %d: %s", path, i+1, line)
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d configurations were checked", seen)
	}
}

// ofThisMachine are mistakes of files and values that are not on a page.
var ofThisMachine = regexp.MustCompile(`no such file|no program|secret \d+ of \d+`)

// mistakes is what config check finds.
func mistakes(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	if !strings.HasPrefix(text, "url:") && !strings.Contains(text, "\nurl:") {
		text = "url: https://hooks.example\n" + text
	}
	check(t, os.WriteFile(file, []byte(text), 0o600))
	var errs strings.Builder
	p := &program{Out: io.Discard, Err: &errs}
	for _, name := range regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`).FindAllStringSubmatch(text, -1) {
		value := "a-long-secret-0123456789abcdef"
		if strings.Contains(text, "store: ${"+name[1]) || strings.Contains(text, "store: \"${"+name[1]) {
			value = "postgres://eyelet@127.0.0.1/eyelet"
		}
		p.Environ = append(p.Environ, name[1]+"="+value)
	}
	if p.Run(t.Context(), "config", "check", "--config", file) == exitOK {
		return ""
	}
	return errs.String()
}
