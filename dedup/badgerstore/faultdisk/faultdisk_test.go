//go:build linux

package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// writeFile writes a file and flushes it if sync is set.
func writeFile(t *testing.T, path string, data []byte, sync bool) error {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	if sync && err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(t *testing.T, dir string) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAPowerCutKeepsWhatWasFlushed(t *testing.T) {
	t.Parallel()
	d := faultdisk.New(t, 64<<20)
	data := bytes.Repeat([]byte("flushed."), 1<<14)
	lost := 0
	for seed := range uint64(4) {
		kept, cached := filepath.Join(d.Dir, "kept"), filepath.Join(d.Dir, "cached")
		if err := writeFile(t, kept, data, true); err != nil {
			t.Fatal(err)
		}
		syncDir(t, d.Dir)
		if err := writeFile(t, cached, data, false); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Seed(seed), d.Cut()); err != nil {
			t.Fatal(err)
		}
		if err := d.Unmount(); err != nil {
			t.Fatal(err)
		}
		if err := d.Mount(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(kept); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("seed %d: the flushed file has %d bytes, %v", seed, len(got), err)
		}
		if got, err := os.ReadFile(cached); err != nil || !bytes.Equal(got, data) {
			lost++
		}
		_ = os.Remove(cached)
	}
	if lost == 0 {
		t.Error("no power cut lost anything")
	}
}

func TestAFailedWriteIsReportedOnceAndLostAtARemount(t *testing.T) {
	t.Parallel()
	d := faultdisk.New(t, 64<<20)
	path, data := filepath.Join(d.Dir, "file"), bytes.Repeat([]byte("the payload that fails\n"), 400)
	if err := d.FailWrite([]byte("payload that fails")); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(t, path, data, true); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the flush returned %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the page cache has %d bytes, %v", len(got), err)
	}
	if err := errors.Join(d.Unmount(), d.Mount()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, data) {
		t.Error("the file is complete although its write failed")
	}
	if s, err := d.Stats(); err != nil || s.Failed != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestAFailureAtTheEndOfALongWriteIsReported writes more at once than FUSE passes on in one write.
func TestAFailureAtTheEndOfALongWriteIsReported(t *testing.T) {
	t.Parallel()
	d := faultdisk.New(t, 64<<20)
	marker := []byte("the bytes that fail")
	data := append(bytes.Repeat([]byte("-"), 2*faultdisk.MaxWrite-100), marker...)
	if err := d.FailWrite(marker); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(t, filepath.Join(d.Dir, "file"), data, true); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the flush returned %v", err)
	}
}

// flushed opens a file or a directory, does something to it, and flushes it.
func flushed(t *testing.T, path string, flag int, do func(f *os.File) error) {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(f), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAStrictFileSystemKeepsWhatWasFlushed flushes a file and its directory in both orders.
func TestAStrictFileSystemKeepsWhatWasFlushed(t *testing.T) {
	t.Parallel()
	s := faultdisk.NewStrict(t)
	path, nothing := filepath.Join(s.Dir, "file"), func(*os.File) error { return nil }
	flushed(t, path, os.O_CREATE|os.O_RDWR, func(f *os.File) error {
		_, err := f.WriteString("flushed")
		return err
	})
	flushed(t, s.Dir, os.O_RDONLY, nothing)
	if err := os.WriteFile(path, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+"2"), os.WriteFile(path, []byte("not flushed"), 0o600)); err != nil {
		t.Fatal(err)
	}
	flushed(t, s.Dir, os.O_RDONLY, nothing)
	flushed(t, path+"2", os.O_RDWR, nothing)
	for i, want := range []map[string]string{
		{}, {"file": "flushed"}, {"file": "", "file2": "flushed"}, {"file": "", "file2": "changed"},
	} {
		dir := filepath.Join(t.TempDir(), "image")
		if err := s.Image(i+1, dir); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if got[e.Name()] = string(text); err != nil {
				t.Error(err)
			}
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("after flush %d a crash leaves %q, want %q: %v", i+1, got, want, err)
		}
	}
}

// TestAStrictFileSystemForgetsPagesAfterAFailedFlush notifies every descriptor that was open, and
// no other.
func TestAStrictFileSystemForgetsPagesAfterAFailedFlush(t *testing.T) {
	t.Parallel()
	s := faultdisk.NewStrict(t)
	path := filepath.Join(s.Dir, "file")
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		files[i] = f
	}
	if _, err := files[0].WriteString("lost"); err != nil {
		t.Fatal(err)
	}
	if err := s.FailFlush("file"); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("descriptor %d: %v", i, err)
		}
		if err := f.Sync(); err != nil {
			t.Errorf("descriptor %d again: %v", i, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "lost" {
		t.Errorf("%q, %v", text, err)
	}
	flushed(t, path, os.O_RDWR, func(*os.File) error { return nil })
	flushed(t, s.Dir, os.O_RDONLY, func(*os.File) error { return nil })
	n, err := s.Flushes()
	dir := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(err, s.Image(n, dir)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) == "lost" {
		t.Errorf("after a crash %q, %v", text, err)
	}
}
