package eyelet_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// requirementRow is one line of the table in docs/dev/requirements.md: the number and the
// requirement, and the tests that show it.
var requirementRow = regexp.MustCompile(`^(R\d{3}) [^|]+ \| ([^|]+)$`)

// testName is a test in backticks, optionally with a subtest.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)((?:/[^`]*)?)`")

// requirements is the number of rows: R001 to R206.
const requirements = 206

// testNames are the names that rows may contain.
type testNames struct {
	functions map[string]bool
	// subtests are the string literals of the code and the names of the vector files, with "_" for
	// spaces: a superset of the subtests' names.
	subtests map[string]bool
}

func allTests(t *testing.T) testNames {
	t.Helper()
	names := testNames{map[string]bool{}, map[string]bool{}}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && s.isTest() {
				names.functions[f.Name.Name] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					names.subtests[strings.ReplaceAll(strings.TrimSuffix(text, "/"), " ", "_")] = true
				}
			}
			return true
		})
	}
	files, err := filepath.Glob("testdata/vectors/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names.subtests[strings.TrimSuffix(path.Base(filepath.ToSlash(file)), ".json")] = true
	}
	return names
}

func TestRequirementsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/dev/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := allTests(t)
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m := requirementRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			if strings.HasPrefix(line, "R") && !strings.HasPrefix(line, "Required | ") {
				t.Errorf("not a row of two columns: %s", line)
			}
			continue
		}
		if rows[m[1]] {
			t.Errorf("%s occurs twice", m[1])
		}
		rows[m[1]] = true
		checkRequirement(t, m[1], m[2], tests)
	}
	for n := 1; n <= requirements; n++ {
		if id := fmt.Sprintf("R%03d", n); !rows[id] {
			t.Errorf("%s is missing from docs/dev/requirements.md", id)
		}
	}
	if len(rows) != requirements {
		t.Errorf("%d rows, want %d", len(rows), requirements)
	}
}

// checkRequirement requires every named test to exist, and "later:" or "reason:" in a row
// without a test.
func checkRequirement(t *testing.T, id, where string, tests testNames) {
	t.Helper()
	named := testName.FindAllStringSubmatch(where, -1)
	explained := strings.HasPrefix(where, "later: ") || strings.HasPrefix(where, "reason: ")
	if len(named) == 0 && !explained {
		t.Errorf("%s names no test and gives neither \"later:\" nor \"reason:\": %q", id, where)
	}
	if rest := strings.Trim(testName.ReplaceAllString(where, ""), ", "); rest != "" && !explained {
		t.Errorf("%s contains more than tests, but does not begin with \"later:\" or \"reason:\": %q", id, rest)
	}
	for _, m := range named {
		if !tests.functions[m[1]] {
			t.Errorf("%s names %s, which does not exist", id, m[1])
		}
		for _, part := range strings.Split(m[2], "/")[1:] {
			if !tests.subtests[part] {
				t.Errorf("%s names %s%s, and nothing in the code is called %q", id, m[1], m[2], part)
			}
		}
	}
}

// TestTheKitHasTheWordsOfTheRequirements compares the rows of package conform with this page.
func TestTheKitHasTheWordsOfTheRequirements(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/dev/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile("conform/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(rows)) {
		part := strings.SplitN(strings.TrimSpace(line), " | ", 5)
		if len(part) != 5 || !strings.HasPrefix(part[0], "R") {
			continue
		}
		compared++
		if want := "\n" + part[0] + " " + part[4] + " | "; !strings.Contains(string(page), want) {
			t.Errorf("conform/rows.txt: docs/dev/requirements.md has no row %q", want)
		}
	}
	if compared == 0 {
		t.Error("conform/rows.txt has no row of docs/dev/requirements.md")
	}
}
