package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

func TestARenewedCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servertest.Issue(t, dir, 1)
	var log bytes.Buffer
	s := &Server{Options: Options{Log: NewLog(&log, "text", slog.LevelInfo)}}
	f, err := s.loadCertificate("tls", &KeyPair{Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")})
	check(t, err)
	now := time.Now()
	f.now = func() time.Time { return now }
	serial := func() int64 {
		t.Helper()
		used, err := f.get(nil)
		check(t, err)
		return used.Leaf.SerialNumber.Int64()
	}
	if serial() != 1 {
		t.Fatal("not the first certificate")
	}
	servertest.Issue(t, dir, 2)
	if got := serial(); got != 1 {
		t.Errorf("the files are looked at for each connection: %d", got)
	}
	now = now.Add(certificateCheck)
	if got := serial(); got != 2 || !strings.Contains(log.String(), "read again") {
		t.Errorf("certificate %d is in use; %s", got, log.String())
	}
	// A certificate without its key leaves the last pair in use, with one line in the log.
	check(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte("half"), 0o600))
	for range 3 {
		now = now.Add(certificateCheck)
		if got := serial(); got != 2 {
			t.Errorf("certificate %d is in use", got)
		}
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
	servertest.Issue(t, dir, 3)
	now = now.Add(certificateCheck)
	if got := serial(); got != 3 {
		t.Errorf("certificate %d is in use", got)
	}
	check(t, os.Remove(filepath.Join(dir, "cert.pem")))
	now = now.Add(certificateCheck)
	if got := serial(); got != 3 {
		t.Errorf("certificate %d is in use", got)
	}
}
