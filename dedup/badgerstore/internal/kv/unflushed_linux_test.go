package kv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// TestACompactionWhoseTableIsNotOnTheDiskDoesNotEnd fails the write of the table that a compaction
// creates. Badger does not notice it: the file looks whole until the page cache is gone.
func TestACompactionWhoseTableIsNotOnTheDiskDoesNotEnd(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(t, 256<<20)
	dir := filepath.Join(disk.Dir, "db")
	if err := errors.Join(os.Mkdir(dir, 0o700), Create(dir)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), unflushedDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if lines.Scan(); lines.Text() != "committed <nil>" {
		t.Fatal(lines.Text())
	}
	err := disk.FailWrite(unflushedEntry(unflushedKeys - 1).Value[:48])
	if _, err3 := fmt.Fprintln(in); err != nil || err3 != nil {
		t.Fatal(err, err3)
	}
	if lines.Scan(); !strings.HasPrefix(lines.Text(), "failed a compaction cannot create a table") {
		t.Errorf("it reported %q", lines.Text())
	}
	_ = cmd.Wait()
	if s, err := disk.Stats(); err != nil || s.Failed != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := errors.Join(disk.Unmount(), disk.Mount()); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, dir, tiny(t), unflushedKeys, map[string]Entry{})
	for i := range unflushedKeys {
		again.expect(unflushedEntry(i))
	}
	again.check(t)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
