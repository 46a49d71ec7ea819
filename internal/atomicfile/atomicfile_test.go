package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsCompleteOrTheOldOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := WriteText(path, "old"); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	err := Write(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return failed
	})
	if text, _ := os.ReadFile(path); !errors.Is(err, failed) || string(text) != "old" {
		t.Errorf("%v, the file is %q", err, text)
	}
	if err := WriteText(path, "new"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if text, _ := os.ReadFile(path); err != nil || string(text) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %q with mode %v (%v)", text, info, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files are left (%v)", len(all), err)
	}
}
