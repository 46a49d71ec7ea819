package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
)

func TestCheckingLooksAtTheCertificateAsServingDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "e.yaml")
	text := "producers:\n  shop:\n    scheme: rfc9421\n    keys: [{id: k, alg: hmac-sha256, secret: 0123456789abcdefghij}]\nurl: http://x\n" + "tls: {cert_file: none.pem, key_file: none.pem}\nlog: {format: x}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	code := p.Run(t.Context(), "config", "check", "--config", file)
	if code != exitUsage || !strings.Contains(errs.String(), "tls: ") || !strings.Contains(errs.String(), "log.format") {
		t.Errorf("exit %d, standard output %q, standard error\n%s", code, out.String(), errs.String())
	}
}

func TestAServerTakesOnlyItsOwnFilesAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &config.Settings{Store: "badger:" + dir}
	first, err := claimState(c, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := claimState(c, "127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	first.release()
	if address, token, err := readState(dir); err != nil || address != "127.0.0.1:2" || token != second.token {
		t.Errorf("the files of the other server: %q, %v", address, err)
	}
	second.release()
	if _, _, err := readState(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files are left behind: %v", err)
	}
}

func TestAPanicOfAPageOfOursIsAnErrorInTheLog(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := &server{settings: &config.Settings{}, plan: &config.Plan{}, log: newLogger(log, "text", slog.LevelInfo)}
	site := httptest.NewUnstartedServer(http.NotFoundHandler())
	site.Config = s.newHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }), nil)
	site.Start()
	defer site.Close()
	if res, err := http.Get(site.URL); err == nil {
		_ = res.Body.Close()
		t.Fatal("the page was answered")
	}
	eventually(t, "the log tells", func() bool { return strings.Contains(log.String(), "level=ERROR") })
	if text := log.String(); !strings.Contains(text, "a bug") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

func TestWhatStrangersDoToConnectionsIsNoErrorInTheLog(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := &server{settings: &config.Settings{}, plan: &config.Plan{}, log: newLogger(log, "text", slog.LevelInfo)}
	s.newHTTPServer(nil, nil).ErrorLog.Print("http: TLS handshake error from 192.0.2.1: EOF")
	if log.String() != "" {
		t.Errorf("the log is %q", log.String())
	}
}

func TestAKeyWhoseOtherHalfCannotBeWrittenIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public := filepath.Join(dir, "shop.pub.pem")
	if err := os.WriteFile(public, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	p := &program{Out: &out, Err: &errs}
	if code := p.Run(t.Context(), "keygen", "--dir", dir); code != exitUsage {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "shop.pem")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a private key that belongs to nothing is there: %v", err)
	}
	if text, err := os.ReadFile(public); err != nil || string(text) != "another" {
		t.Errorf("the other file is %q, %v", text, err)
	}
}
