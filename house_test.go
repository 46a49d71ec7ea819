package eyelet_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// maxFunction is how many lines 95 of 100 functions may have at most, tests included.
const maxFunction = 60

// parsed is one Go file of the repository.
type parsed struct {
	path string
	file *ast.File
	fset *token.FileSet
}

func parseAll(t *testing.T) []parsed {
	t.Helper()
	var all []parsed
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, parsed{filepath.ToSlash(path), f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go files were looked at")
	}
	return all
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	t.Parallel()
	for _, p := range parseAll(t) {
		if strings.HasSuffix(p.path, "_test.go") {
			continue
		}
		for _, d := range p.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no comment", p.path, name)
			}
		}
	}
}

// undocumented returns the exported names of a declaration that have neither a comment of their own nor, in a
// group, one of the group.
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
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func TestFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	var lengths []int
	var long []string
	for _, p := range parseAll(t) {
		for _, d := range p.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			n := p.fset.Position(f.End()).Line - p.fset.Position(f.Pos()).Line + 1
			lengths = append(lengths, n)
			if n > maxFunction {
				long = append(long, fmt.Sprintf("%d lines: %s %s", n, p.path, f.Name.Name))
			}
		}
	}
	sort.Ints(lengths)
	p95 := lengths[len(lengths)*95/100]
	t.Logf("%d functions, median %d lines, 95th percentile %d", len(lengths), lengths[len(lengths)/2], p95)
	if p95 > maxFunction {
		t.Errorf("the 95th percentile of function lengths is %d lines, more than %d:\n%s", p95, maxFunction, strings.Join(long, "\n"))
	}
}
