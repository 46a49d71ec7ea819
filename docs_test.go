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
	goDoc      = regexp.MustCompile("`go doc github.com/eyelet-dev/eyelet(?:/([a-z0-9/]+))?((?: [A-Za-z0-9.]+)?)`")
	symbol     = regexp.MustCompile(`^[A-Za-z0-9]+`)
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
	questions, _, _ = strings.Cut(questions, "\n## ")
	if n := strings.Count(questions, " | "); n < 11 { // a head and ten questions
		t.Errorf("CONTRIBUTING answers %d questions, want 10", n-1)
	}
}

// TestPagesNameSymbolsThatExist finds the package and the symbol of each `go doc` command.
func TestPagesNameSymbolsThatExist(t *testing.T) {
	t.Parallel()
	symbols := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		symbols[s.dir] = true
		for _, line := range apiOf(s.file) {
			_, name, _ := strings.Cut(line, " ") // such as func Zoom(secrets ...string) producer.Producer
			symbols[s.dir+" "+symbol.FindString(name)] = true
		}
	}
	found := 0
	for page, text := range pages(t) {
		for _, m := range goDoc.FindAllStringSubmatch(text, -1) {
			found++
			if !symbols[path.Join(".", m[1])+m[2]] {
				t.Errorf("%s names %s, and there is no such symbol", page, m[0])
			}
		}
		if strings.Count(text, "`go doc ") != len(goDoc.FindAllString(text, -1)) {
			t.Errorf("%s has a `go doc` command of another form", page)
		}
	}
	if found < 2 {
		t.Errorf("only %d commands found", found)
	}
}
