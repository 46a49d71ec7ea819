package eyelet_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// modules are the folders of the repository with a go.mod of their own. The limits of code, words
// and sizes are theirs too. They export nothing.
var modules = []string{
	"bench", "dedup/badgerstore/faultdisk", "examples/routers", "inspect/browser", "interop", "torture",
}

// ownModule returns the module of a folder, "" for that of the root.
func ownModule(dir string) string {
	for _, m := range modules {
		if dir == m || strings.HasPrefix(dir, m+"/") {
			return m
		}
	}
	return ""
}

func TestTheListOfModulesIsComplete(t *testing.T) {
	t.Parallel()
	var found []string
	err := walk("go.mod", func(name string) error {
		if dir := path.Dir(name); dir != "." {
			found = append(found, dir)
		}
		return nil
	})
	if err != nil || !slices.Equal(found, modules) {
		t.Errorf("go.mod files are in %q, %v; want %q", found, err, modules)
	}
}

// goTool returns what a go command prints, without network.
func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Env = append(os.Environ(), "GOPROXY=off", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// directRequirements returns the modules that go.mod requires directly.
func directRequirements(t *testing.T) (names []string) {
	t.Helper()
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goTool(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect {
			names = append(names, r.Path)
		}
	}
	return names
}

// checkModules compares the modules of a table, whose lines begin with one or more of them, with
// those that there are.
func checkModules(t *testing.T, page, title string, have []string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(raw), title+"\n---|---\n")
	if !ok {
		t.Fatalf("%s has no table %q", page, title)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for line := range strings.Lines(table) {
		names, why, _ := strings.Cut(line, " | ")
		if strings.TrimSpace(why) == "" {
			t.Errorf("%s: no reason: %s", page, line)
		}
		for name := range strings.SplitSeq(names, ", ") {
			listed = append(listed, name)
		}
	}
	for _, name := range have {
		if !slices.Contains(listed, name) {
			t.Errorf("%s: %s has no line", page, name)
		}
	}
	for i, name := range listed {
		if !slices.Contains(have, name) || slices.Contains(listed[:i], name) {
			t.Errorf("%s: %s is listed, and is not required, or twice", page, name)
		}
	}
}

func TestEveryRequirementHasAReason(t *testing.T) {
	t.Parallel()
	checkModules(t, "CONTRIBUTING.md", "requirement | why", directRequirements(t))
}

// TestWhatAProgramLinksIsListed looks at a program with a receiver and the default store.
func TestWhatAProgramLinksIsListed(t *testing.T) {
	t.Parallel()
	out := goTool(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./receiver", "./dedup/badgerstore")
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.DeleteFunc(slices.Compact(linked), func(name string) bool { return name == module })
	t.Logf("%d modules", len(linked))
	checkModules(t, "docs/dev/dependencies.md", "modules | why", linked)
}
