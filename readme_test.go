package eyelet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// blocks returns the fenced blocks of a language in a document.
func blocks(t *testing.T, path, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, rest := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, ok := strings.Cut(rest, "\n```")
		if !ok {
			t.Fatalf("%s: a block does not end", path)
		}
		found = append(found, block)
	}
	return found
}

func TestTheReadmeFitsOnAScreenOrTwo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 110 {
		t.Errorf("README has %d lines, want at most 110", n)
	}
}

// TestTheProgramsOfThePagesAreTheExamples compares the code in README and docs/library.md with the
// examples, which are compiled and tested.
func TestTheProgramsOfThePagesAreTheExamples(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "examples/") {
			programs.Write(s.text)
		}
	}
	for page, least := range map[string]int{
		"README.md": 2, "docs/library.md": 10, "docs/signing.md": 1, "docs/howto/newest.md": 1,
		"docs/howto/when.md":    1,
		"docs/howto/control.md": 1, "docs/howto/tenants.md": 1,
	} {
		shown := blocks(t, page, "go")
		if len(shown) < least {
			t.Errorf("%s shows %d programs, want at least %d", page, len(shown), least)
		}
		for _, block := range shown {
			if !strings.Contains(programs.String(), "\n"+block+"\n") {
				t.Errorf("%s shows a program that is not in examples:\n%s", page, block)
			}
		}
	}
}

// The first program of README, and the test of its handler.
const (
	maxProgramLines   = 20 // that are not blank
	maxTestStatements = 5  // in the body of the test, nested ones included
)

func TestTheFirstProgramIsShort(t *testing.T) {
	t.Parallel()
	shown := blocks(t, "README.md", "go")
	lines := 0
	for line := range strings.Lines(shown[0]) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > maxProgramLines || !strings.HasPrefix(shown[0], "package main\n") {
		t.Errorf("the program has %d lines, want at most %d, with its imports", lines, maxProgramLines)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "README.md", "package main\n"+shown[1], 0)
	if err != nil {
		t.Fatal(err)
	}
	statements := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if block, ok := n.(*ast.BlockStmt); ok {
			statements += len(block.List)
		}
		return true
	})
	if statements == 0 || statements > maxTestStatements {
		t.Errorf("the test has %d statements, want at most %d", statements, maxTestStatements)
	}
}

// TestTheConfigurationOfTheReadmeIsAnExcerpt compares README's configuration with that of
// docs/config.md, which another test loads: the lines must be there, in the same order.
func TestTheConfigurationOfTheReadmeIsAnExcerpt(t *testing.T) {
	t.Parallel()
	readme, reference := blocks(t, "README.md", "yaml"), blocks(t, "docs/config.md", "yaml")
	if len(readme) == 0 || len(reference) == 0 {
		t.Fatal("README or docs/config.md shows no configuration")
	}
	rest := reference[0] + "\n"
	for line := range strings.SplitSeq(readme[0], "\n") {
		_, after, ok := strings.Cut("\n"+rest, "\n"+line+"\n")
		if !ok {
			t.Errorf("docs/config.md has no line %q after those before it", line)
		}
		rest = after
	}
}

// TestTheSessionOfTheReadmeShowsTheRecordings compares each line of README's session with the
// note of its recording.
func TestTheSessionOfTheReadmeShowsTheRecordings(t *testing.T) {
	t.Parallel()
	session := strings.Join(blocks(t, "README.md", "console"), "\n")
	for line := range strings.SplitSeq(session, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "ok" {
			continue
		}
		text, err := os.ReadFile(fields[1])
		if err != nil {
			t.Error(err)
			continue
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if about := strings.TrimPrefix(first, "# about: "); !strings.Contains(line, about) {
			t.Errorf("README shows %q, and the recording says %q", line, about)
		}
	}
}
