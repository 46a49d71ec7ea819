package eyelet_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkTarget = regexp.MustCompile(`\]\(([^)]+)\)`)
	heading    = regexp.MustCompile("(?m)^#+ (.+)$")
	pathSpan   = regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+|[a-z0-9_]+\\.go)`")
)

// pages returns every page by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := walk(".md", func(name string) error {
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLinksBetweenPagesResolve(t *testing.T) {
	t.Parallel()
	all := pages(t)
	anchors := map[string]bool{}
	for name, text := range all {
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			anchors[name+"#"+anchor(m[1])] = true
		}
	}
	for name, text := range all {
		for _, m := range linkTarget.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if fragment != "" && !anchors[file+"#"+fragment] {
				t.Errorf("%s links to %s, and the page has no such heading", name, m[1])
			}
		}
	}
}

// anchor returns the fragment that GitHub gives a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
}

// TestPagesNameTestsThatExist covers the pages beside docs/dev/requirements.md, whose test is
// stricter. CHANGELOG keeps the names of its time.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := allTests(t)
	found := 0
	for name, text := range pages(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			found++
			if !tests.functions[m[1]] {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d tests are named", found)
	}
}

// TestContributingNamesFilesThatExist keeps the answers to "where does a change belong" true.
func TestContributingNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	text := fence.ReplaceAllString(pages(t)["CONTRIBUTING.md"], "")
	named := pathSpan.FindAllStringSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("only %d files are named", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(m[1]); err != nil && !strings.Contains(m[1], "VENDOR") {
			t.Errorf("CONTRIBUTING names %v", err)
		}
	}
	_, questions, _ := strings.Cut(text, "## Where does a change belong?")
	if n := strings.Count(questions, "\n| "); n < 11 { // a head and ten questions
		t.Errorf("CONTRIBUTING answers %d questions, want 10", n-1)
	}
}
