package eyelet_test

import (
	"os"
	"path/filepath"
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

// TestTheProgramsOfTheReadmeAreTheExamples holds what README shows to what is compiled.
func TestTheProgramsOfTheReadmeAreTheExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("examples/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, string(text))
	}
	shown := blocks(t, "README.md", "go")
	if len(shown) < 2 {
		t.Fatalf("README shows %d programs, want those for Echo and net/http", len(shown))
	}
	for _, block := range shown {
		if !strings.Contains(strings.Join(programs, "\n"), block) {
			t.Errorf("README shows a program that none of %v holds:\n%s", files, block)
		}
	}
}

// TestTheConfigurationOfTheReadmeIsTheReferences holds README's configuration to the one that is tested.
func TestTheConfigurationOfTheReadmeIsTheReferences(t *testing.T) {
	t.Parallel()
	readme, reference := blocks(t, "README.md", "yaml"), blocks(t, "docs/config.md", "yaml")
	if len(readme) == 0 || len(reference) == 0 || readme[0] != reference[0] {
		t.Error("the first configuration of README is not the whole file of docs/config.md")
	}
}
