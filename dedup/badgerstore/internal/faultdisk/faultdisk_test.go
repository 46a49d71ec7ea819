//go:build linux

package faultdisk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if Main() {
		return
	}
	os.Exit(m.Run())
}

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
	d := New(t, 64<<20, "EYELET_REQUIRE_POWER")
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
	d := New(t, 64<<20, "EYELET_REQUIRE_POWER")
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
