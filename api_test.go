package eyelet_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheAPIIsTheGoldenOne compares what each public package exports with
// testdata/api/PACKAGE.txt, as Go's own api folder does. A change of the surface is then a line
// in the diff. -update writes the files.
func TestTheAPIIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	exported := map[string][]string{}
	for _, s := range sources(t) {
		if !s.isTest() && s.file.Name.Name != "main" && !strings.Contains(s.dir, "internal") && s.dir != "testdata" &&
			!strings.HasPrefix(s.dir, "examples/") {
			exported[s.dir] = append(exported[s.dir], apiOf(s.file)...)
		}
	}
	golden := map[string]bool{}
	for dir, lines := range exported {
		slices.Sort(lines)
		lines = slices.Compact(lines) // files for several systems declare the same names
		if dir == "." {
			dir = "eyelet"
		}
		file := filepath.Join("testdata/api", strings.ReplaceAll(dir, "/", "-")+".txt")
		golden[file] = true
		compareAPI(t, file, lines)
	}
	files, err := filepath.Glob("testdata/api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !golden[file] {
			t.Errorf("%s: the package is gone; delete the file", file)
		}
	}
}

func compareAPI(t *testing.T, file string, lines []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v (go test . -update writes it)", err)
		return
	}
	want := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("%s: gone: %s", file, line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("%s: new: %s (go test . -update accepts it)", file, line)
		}
	}
}

// apiOf returns the exported names of a file, one line each.
func apiOf(f *ast.File) []string {
	var lines []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				lines = append(lines, funcAPI(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				lines = append(lines, specAPI(d.Tok, spec)...)
			}
		}
	}
	return lines
}

func funcAPI(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return "func " + d.Name.Name + typeParams(d.Type.TypeParams) + signature(d.Type)
	}
	return fmt.Sprintf("method (%s) %s%s", types.ExprString(d.Recv.List[0].Type), d.Name.Name, signature(d.Type))
}

func specAPI(tok token.Token, spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() {
			return typeAPI(spec)
		}
	case *ast.ValueSpec:
		var lines []string
		for _, name := range spec.Names {
			if !name.IsExported() {
				continue
			}
			line := tok.String() + " " + name.Name
			if spec.Type != nil {
				line += " " + types.ExprString(spec.Type)
			}
			lines = append(lines, line)
		}
		return lines
	}
	return nil
}

func typeAPI(spec *ast.TypeSpec) []string {
	name := spec.Name.Name
	head := "type " + name + typeParams(spec.TypeParams) + " "
	if spec.Assign.IsValid() {
		head += "= "
	}
	switch def := spec.Type.(type) {
	case *ast.StructType:
		return append([]string{head + "struct"}, membersAPI("field "+name+".", def.Fields)...)
	case *ast.InterfaceType:
		return append([]string{head + "interface"}, membersAPI("method "+name+".", def.Methods)...)
	case *ast.FuncType:
		return []string{head + "func" + signature(def)}
	default:
		return []string{head + types.ExprString(def)}
	}
}

// membersAPI lists the exported fields of a struct, or the methods of an interface.
func membersAPI(head string, members *ast.FieldList) []string {
	var lines []string
	for _, m := range members.List {
		if len(m.Names) == 0 && baseType(m.Type).IsExported() {
			lines = append(lines, head+"("+types.ExprString(m.Type)+")")
		}
		for _, name := range m.Names {
			f, method := m.Type.(*ast.FuncType)
			switch {
			case !name.IsExported():
			case method && strings.HasPrefix(head, "method"):
				lines = append(lines, head+name.Name+signature(f))
			case method:
				lines = append(lines, head+name.Name+" func"+signature(f))
			default:
				lines = append(lines, head+name.Name+" "+types.ExprString(m.Type))
			}
		}
	}
	return lines
}

// signature writes the types of parameters and results, without their names.
func signature(f *ast.FuncType) string {
	results := typesOf(f.Results)
	switch len(results) {
	case 0:
		return "(" + strings.Join(typesOf(f.Params), ", ") + ")"
	case 1:
		return "(" + strings.Join(typesOf(f.Params), ", ") + ") " + results[0]
	}
	return "(" + strings.Join(typesOf(f.Params), ", ") + ") (" + strings.Join(results, ", ") + ")"
}

func typeParams(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	return "[" + strings.Join(typesOf(list), ", ") + "]"
}

func typesOf(list *ast.FieldList) []string {
	if list == nil {
		return nil
	}
	var all []string
	for _, field := range list.List {
		text := types.ExprString(field.Type)
		if f, ok := field.Type.(*ast.FuncType); ok {
			text = "func" + signature(f)
		}
		for range max(1, len(field.Names)) {
			all = append(all, text)
		}
	}
	return all
}
