package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
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
	if !strings.Contains(out, "converted from format 2 to 7, ") || !strings.Contains(said, "start with a full backup") {
		t.Error(out, said)
	}
	_, records, _ := strings.Cut(strings.TrimSpace(out), "to 7, ")
	eyelet(t, exitOK, "store", "check", "--dir", dir)
	restored := filepath.Join(t.TempDir(), "restored")
	out, _ = eyelet(t, exitOK, "store", "restore", "--dir", restored, backup)
	if !strings.Contains(out, "restored "+records) {
		t.Errorf("%s of the backup, %s were converted", out, records)
	}
	_, said = eyelet(t, exitUsage, "store", "convert", "--dir", dir, "--backup", backup+"2")
	if _, err := os.Stat(backup + "2"); err == nil || !strings.Contains(said, "has format 7 already") {
		t.Error(said, err)
	}
}

// TestThePageShowsAStoreOfAnOlderFormat starts serve with a store of format 2, which it converts.
func TestThePageShowsAStoreOfAnOlderFormat(t *testing.T) {
	t.Parallel()
	dir := oldStore(t)
	s := &shopper{t: t, dir: t.TempDir()}
	file := filepath.Join(s.dir, "eyelet.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nstore: \"badger:"+dir+
		"\"\nlog: {level: error}\nproducers:\n  gh: {preset: github, secrets: [octo-secret]}\n"+
		"handlers: [{producer: gh, type: \"*\", stdout: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, operations := s.start()
	if text := loggedIn(t, operations, dir); !strings.Contains(text, "series now") {
		t.Errorf("without the event: %s", text)
	}
}

// loggedIn returns the first view of the page after a login with the token in a folder.
func loggedIn(t *testing.T, operations, dir string) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, opsapi.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	login, err := browser.PostForm(operations+"/ui/login", url.Values{"token": {strings.TrimSpace(string(token))}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(login.Body)
	if err := errors.Join(err, login.Body.Close()); err != nil || login.StatusCode != http.StatusOK {
		t.Fatalf("the login got %d, %v: %s", login.StatusCode, err, text)
	}
	return string(text)
}
