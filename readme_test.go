package eyelet_test

import (
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
	if n := strings.Count(string(text), "\n"); n > 120 {
		t.Errorf("README has %d lines, want at most 120", n)
	}
}

// TestTheProgramsOfTheReadmeAreTheExamples compares the programs in README with those that are
// compiled.
func TestTheProgramsOfTheReadmeAreTheExamples(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	for _, s := range sources(t) {
		if strings.HasPrefix(s.path, "examples/") {
			programs.Write(s.text)
		}
	}
	shown := blocks(t, "README.md", "go")
	if len(shown) == 0 {
		t.Fatal("README shows no program")
	}
	for _, block := range shown {
		if !strings.Contains(programs.String(), block) {
			t.Errorf("README shows a program that is not in examples:\n%s", block)
		}
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
