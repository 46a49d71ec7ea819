package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oldStore unpacks a store that a program of format 2 wrote before it was killed.
func oldStore(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open("../../dedup/badgerstore/testdata/format2.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, "crashed/")
		if !ok {
			continue
		}
		text, err := io.ReadAll(archive)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnOldStoreIsConvertedByCommand(t *testing.T) {
	t.Parallel()
	dir := oldStore(t)
	_, said := eyelet(t, exitUsage, "store", "check", "--dir", dir)
	if !strings.Contains(said, "has format 2") || !strings.Contains(said, "eyelet store convert") {
		t.Error(said)
	}
	used, backup := filepath.Join(dir, "format"), filepath.Join(t.TempDir(), "before.backup")
	_, said = eyelet(t, exitUsage, "store", "convert", "--dir", dir, "--backup", used)
	if !strings.Contains(said, "name another file") {
		t.Error(said)
	}
	out, said := eyelet(t, exitOK, "store", "convert", "--dir", dir, "--backup", backup)
	if !strings.Contains(out, "converted from format 2 to 6, ") || !strings.Contains(said, "start with a full backup") {
		t.Error(out, said)
	}
	_, records, _ := strings.Cut(strings.TrimSpace(out), "to 6, ")
	eyelet(t, exitOK, "store", "check", "--dir", dir)
	restored := filepath.Join(t.TempDir(), "restored")
	out, _ = eyelet(t, exitOK, "store", "restore", "--dir", restored, backup)
	if !strings.Contains(out, "restored "+records) {
		t.Errorf("%s of the backup, %s were converted", out, records)
	}
	_, said = eyelet(t, exitUsage, "store", "convert", "--dir", dir, "--backup", backup+"2")
	if _, err := os.Stat(backup + "2"); err == nil || !strings.Contains(said, "has format 6 already") {
		t.Error(said, err)
	}
}
