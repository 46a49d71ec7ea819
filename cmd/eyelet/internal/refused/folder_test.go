package refused

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/verify"
)

// written returns the contents of our files in a folder, the oldest first.
func written(t *testing.T, dir string) (contents [][]byte) {
	t.Helper()
	found, err := os.ReadDir(dir)
	check(t, err)
	for _, entry := range found {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		info, infoErr := entry.Info()
		if err != nil || infoErr != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", entry.Name(), err, info)
		}
		if fileName.MatchString(entry.Name()) {
			contents = append(contents, text)
		}
	}
	return contents
}

func onDisk(dir string) Options {
	return Options{For: 24 * time.Hour, Dir: dir, Max: 1 << 20, Log: slog.New(slog.DiscardHandler)}
}

// settled waits until each delivery was written or counted as lost.
func (f *feed) settled(t *testing.T, files, lost int) {
	t.Helper()
	for range 1000 {
		found, err := os.ReadDir(f.Dir)
		if _, dropped := f.Counts(); err == nil && len(found) == files && dropped[DroppedDisk] == uint64(lost) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	found, err := os.ReadDir(f.Dir)
	_, dropped := f.Counts()
	t.Fatalf("%d files (%v), dropped %v, want %d files and %d lost", len(found), err, dropped, files, lost)
}

func TestFilesAreBoundedAndTheOldestAreDeletedFirst(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "refused")
	for process := range 3 {
		f := newFeedOf(onDisk(dir))
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Fatal(info, err)
		}
		if process == 0 {
			check(t, os.WriteFile(filepath.Join(dir, "mine.http"), make([]byte, 1<<20), 0o600))
		}
		for i := range 100 {
			f.now = time.Now().Add(time.Duration(process*100+i) * time.Second)
			body := fmt.Sprintf("%d-%d %s", process, i, strings.Repeat("x", 9<<10))
			d := f.delivery("shop", "198.51.100.1", body)
			d.Code = verify.Code(fmt.Sprint(i))
			f.add(d)
		}
		close(f.folder.end)
		<-f.folder.ended // close waits for a slow disk only so long
	}
	files := written(t, dir)
	const each = 12 << 10 // three blocks
	if len(files) != 1<<20/each {
		t.Errorf("%d files of %d bytes", len(files), each)
	}
	left := map[int]int{} // the newest of each process
	for i, text := range slices.Backward(files) {
		rec, err := httpfile.Parse("r", text)
		var process, number int
		_, scanErr := fmt.Sscanf(string(rec.Body), "%d-%d ", &process, &number)
		if left[process]++; err != nil || scanErr != nil || number != 100-left[process] {
			t.Errorf("file %d: %v, %v, %.60s, want number %d", i, err, scanErr, rec.Body, 100-left[process])
		}
	}
	if n := len(files); left[2] < n/2-1 || left[2] > n/2+1 {
		t.Errorf("files of each process: %v, want half of them of the last", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "mine.http")); err != nil {
		t.Error("a file of another origin was deleted:", err)
	}
}

func TestAFloodLeavesTheFilesOfOthers(t *testing.T) {
	t.Parallel()
	o := onDisk(t.TempDir())
	f := newFeedOf(o)
	f.add(f.delivery("shop", "203.0.113.9", "honest"))
	for i := range 500 {
		d := f.delivery("", fmt.Sprintf("198.%d.%d.1", i>>8, i&255), strings.Repeat("x", 9<<10))
		d.Code = "not_found"
		f.add(d)
	}
	close(f.folder.end)
	<-f.folder.ended
	if files := written(t, o.Dir); len(files) == 0 || !strings.Contains(string(files[0]), "honest") {
		t.Errorf("the first of %d files is gone", len(files))
	}
}

func TestOldFilesAreDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n, age := range []time.Duration{25 * time.Hour, time.Hour} {
		name := fmt.Sprintf("%s-%d.http", time.Now().UTC().Add(-age).Format(nameTime), n)
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	f := newFeedOf(onDisk(dir))
	f.settled(t, 1, 0)
	check(t, f.Close())
}

func TestAFailingFolderIsCountedAndLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &servertest.Buffer{}
	o := onDisk(t.TempDir())
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	f := newFeedOf(o)
	moved := o.Dir + "-moved"
	check(t, os.Rename(o.Dir, moved))
	for i := range 5 {
		f.add(f.delivery("shop", "198.51.100.1", fmt.Sprint(i)))
	}
	for range 1000 {
		if _, dropped := f.Counts(); dropped[DroppedDisk] == 5 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	check(t, os.Rename(moved, o.Dir))
	f.add(f.delivery("shop", "198.51.100.1", "5"))
	f.settled(t, 1, 5)
	if kept, _ := f.Counts(); kept != 6 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("%d are kept in memory; log:\n%s", kept, log)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := New(onDisk(filepath.Join(file, "refused"))); err == nil {
		t.Error("no error")
	}
}

// TestDisplacedDeliveriesAreCountedAsLost: the ring is the queue of the files.
func TestDisplacedDeliveriesAreCountedAsLost(t *testing.T) {
	t.Parallel()
	r, err := New(Options{For: 24 * time.Hour})
	check(t, err)
	f := &feed{r, r.started}
	for i := range 2 * alike {
		f.add(f.delivery("shop", "198.51.100.1", fmt.Sprint(i)))
	}
	if r.folder, err = openFolder(r, onDisk(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	r.folder.notify()
	check(t, r.Close())
	bodies := slices.Collect(func(yield func(string) bool) {
		for _, text := range written(t, r.folder.dir) {
			rec, _ := httpfile.Parse("r", text)
			if !yield(string(rec.Body)) {
				return
			}
		}
	})
	_, dropped := r.Counts()
	if len(bodies) != alike || bodies[0] != fmt.Sprint(alike) || dropped[DroppedDisk] != alike {
		t.Errorf("%v, dropped %v", bodies, dropped)
	}
}
