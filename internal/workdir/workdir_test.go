package workdir

import (
	"os"
	"path/filepath"
	"testing"
)

// own and other are go.mod files: of the module of this test, and of another one.
const (
	own   = "// a comment\nmodule github.com/eyelet-dev/eyelet\n\ngo 1.26.0\n"
	other = "module example.com/other\n"
)

func TestARelativePathIsThatOfTheShell(t *testing.T) {
	shell := t.TempDir()
	absolute := filepath.Join(shell, "absolute")
	for _, tc := range []struct {
		what, goMod, pwd, name string
		want                   string // below the working directory if it is relative
	}{
		{"go run -C", own, shell, "d", filepath.Join(shell, "d")},
		{"go run -C, a folder above", own, shell, "../d", filepath.Join(filepath.Dir(shell), "d")},
		{"go run -C, absolute", own, shell, absolute, absolute},
		{"no PWD", own, "", "d", "d"},
		{"a relative PWD", own, "shell", "d", "d"},
		{"the module of something else", other, shell, "d", "d"},
		{"a binary anywhere", "", shell, "d", "d"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			dir := t.TempDir()
			if tc.goMod != "" {
				if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(tc.goMod), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			t.Setenv("PWD", tc.pwd)
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if !filepath.IsAbs(want) {
				want = filepath.Join(here, want)
			}
			empty, name := "", tc.name
			if err := AbsAll(&empty, &name); err != nil || name != want || empty != "" {
				t.Errorf("%s and %q, %v; want %s", name, empty, err, want)
			}
		})
	}
}
