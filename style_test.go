package eyelet_test

import (
	"go/ast"
	"slices"
	"testing"
)

// maxFunction is the largest number of lines of a function. Tests may exceed it in 5 of 100 functions.
const maxFunction = 60

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
