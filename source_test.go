package eyelet_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// source is one parsed Go file of the repository.
type source struct {
	path, dir string // with slashes, relative to the root
	text      []byte
	file      *ast.File
	fset      *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// isTagged reports whether a build constraint selects the file.
func (s source) isTagged() bool {
	return bytes.HasPrefix(s.text, []byte("//go:build ")) || bytes.Contains(s.text, []byte("\n//go:build "))
}

func (s source) lines() int { return bytes.Count(s.text, []byte("\n")) }

func (s source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// sources returns every Go file of the repository. The files are parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parseOnce()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

var parseOnce = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := walk(".go", func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{name, path.Dir(name), text, f, fset})
		return nil
	})
	return all, err
})

// walk calls visit for every file of the repository whose name ends in suffix, also those of its
// other modules. Hidden folders are skipped.
func walk(suffix string, visit func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, suffix):
			return nil
		}
		return visit(filepath.ToSlash(name))
	})
}
