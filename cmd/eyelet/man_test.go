package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestEveryCommandHasAManualPage compares the pages with the commands and their flags. With
// EYELET_LONG, groff must accept them without a warning where it is installed.
func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	out, _ := command(t, 0, "", "man", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) < 25 || !strings.HasPrefix(out, "wrote ") {
		t.Fatalf("%d pages, %v: %s", len(files), err, out)
	}
	groff := ""
	if os.Getenv("EYELET_LONG") != "" {
		groff, _ = exec.LookPath("groff")
	}
	root := (&program{}).command()
	for _, c := range append(allCommands(root), root) {
		file := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		raw, err := os.ReadFile(file)
		if c.Hidden == (err == nil) {
			t.Errorf("%s: hidden: %v, %v", c.CommandPath(), c.Hidden, err)
		}
		if c.Hidden {
			continue
		}
		page := strings.ReplaceAll(string(raw), `\-`, "-")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			listed := strings.Contains(page, "--"+f.Name+" ") || strings.Contains(page, "--"+f.Name+"[")
			if !f.Hidden && !listed {
				t.Errorf("%s: --%s is missing", c.CommandPath(), f.Name)
			}
		})
		for _, macro := range regexp.MustCompile(`(?m)^[.'](.*)$`).FindAllString(page, -1) {
			if !regexp.MustCompile(`^\.(TH |SH |nf$|fi$)`).MatchString(macro) {
				t.Errorf("%s: a line of text is a command of roff: %s", c.CommandPath(), macro)
			}
		}
		if groff != "" {
			shown, err := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-z", file).CombinedOutput()
			if err != nil || len(shown) > 0 {
				t.Errorf("groff: %v: %s", err, shown)
			}
		}
	}
}

func TestTextsOfManualPagesAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".http":        `\&.http`,
		"a\n.b\n'c' d": "a\n\\&.b\n\\(aqc\\(aq d",
		`--x \n`:       `\-\-x \en`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
