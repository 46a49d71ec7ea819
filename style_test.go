package eyelet_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxFunction is the largest number of lines of a function. Tests may exceed it in 5 of 100
// functions.
const maxFunction = 60

// Columns of a line, where a tab counts as four.
const (
	maxComment = 100
	maxCode    = 120
)

func TestEveryExportedNameIsDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no comment", s.path, name)
			}
		}
	}
}

// undocumented returns the exported names of a declaration that have neither a comment of their
// own nor, in a group, one of the group.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
		return names
	}
	return nil
}

func exportedReceiver(d *ast.FuncDecl) bool {
	return d.Recv == nil || baseType(d.Recv.List[0].Type).IsExported()
}

func TestFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	var lengths, inTests []int
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			n := s.fset.Position(f.End()).Line - s.line(f) + 1
			if s.isTest() {
				inTests = append(inTests, n)
				continue
			}
			lengths = append(lengths, n)
			if n > maxFunction {
				t.Errorf("%s: %s has %d lines, want at most %d", s.path, f.Name.Name, n, maxFunction)
			}
		}
	}
	for name, list := range map[string][]int{"code": lengths, "tests": inTests} {
		slices.Sort(list)
		p95 := list[len(list)*95/100]
		t.Logf("%s: %d functions, median %d lines, 95th percentile %d", name, len(list), list[len(list)/2], p95)
		if p95 > maxFunction {
			t.Errorf("%s: the 95th percentile of function lengths is %d lines, want at most %d", name, p95, maxFunction)
		}
	}
}

func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	comments, code := map[string]int{}, map[string]int{}
	for _, s := range sources(t) {
		raw := rawLines(s)
		n := 0
		for line := range strings.Lines(string(s.text)) {
			n++
			line = strings.TrimRight(line, "\n")
			width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			isComment := strings.HasPrefix(strings.TrimSpace(line), "//")
			switch {
			case raw[n] || strings.HasPrefix(line, "//go:") || isComment && strings.Contains(line, "://"):
			case isComment && width > maxComment:
				comments[s.dir]++
			case !isComment && width > maxCode:
				code[s.dir]++
			}
		}
	}
	ratchet(t, "long-comments", comments)
	ratchet(t, "long-code", code)
}

// rawLines returns the lines that belong to string literals of more than one line, which cannot
// be wrapped.
func rawLines(s source) map[int]bool {
	raw := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, "\n") {
			return true
		}
		for line := s.line(lit); line <= s.fset.Position(lit.End()).Line; line++ {
			raw[line] = true
		}
		return true
	})
	return raw
}

// ratchet compares counts with those of testdata/style/KIND.txt, which may only fall. -update
// lowers them.
func ratchet(t *testing.T, kind string, counts map[string]int) {
	t.Helper()
	file := "testdata/style/" + kind + ".txt"
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	today := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &n, &name); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		today[name] = n
	}
	lowered := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		if n > today[name] {
			t.Errorf("%s: %d %s, want at most %d", name, n, kind, today[name])
			n = today[name]
		}
		if n > 0 {
			lowered[name] = n
		}
	}
	if !maps.Equal(lowered, today) {
		if *update {
			writeCounts(t, file, lowered)
			return
		}
		t.Logf("%s holds numbers that are too high: go test . -update lowers them", file)
	}
}

func writeCounts(t *testing.T, file string, counts map[string]int) {
	t.Helper()
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%d %s\n", counts[name], name)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
