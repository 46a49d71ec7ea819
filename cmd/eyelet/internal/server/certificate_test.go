package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issued writes a certificate for this machine with this serial number, and its key, as PEM files
// in a folder.
func issued(t *testing.T, dir string, serial int64) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der},
		"key.pem": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		next := filepath.Join(dir, "next-"+name)
		if err := os.WriteFile(next, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestARenewedCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issued(t, dir, 1)
	var log bytes.Buffer
	s := &Server{Options: Options{Log: NewLog(&log, "text", slog.LevelInfo)}}
	f, err := s.loadCertificate("tls", &KeyPair{Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	f.now = func() time.Time { return now }
	serial := func() int64 {
		t.Helper()
		used, err := f.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return used.Leaf.SerialNumber.Int64()
	}
	if serial() != 1 {
		t.Fatal("not the first certificate")
	}
	issued(t, dir, 2)
	if got := serial(); got != 1 {
		t.Errorf("the files are looked at for each connection: %d", got)
	}
	now = now.Add(certificateCheck)
	if got := serial(); got != 2 || !strings.Contains(log.String(), "read again") {
		t.Errorf("certificate %d is in use; %s", got, log.String())
	}
	// A certificate without its key leaves the last pair in use, with one line in the log.
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(certificateCheck)
		if got := serial(); got != 2 {
			t.Errorf("certificate %d is in use", got)
		}
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
	issued(t, dir, 3)
	now = now.Add(certificateCheck)
	if got := serial(); got != 3 {
		t.Errorf("certificate %d is in use", got)
	}
	if err := os.Remove(filepath.Join(dir, "cert.pem")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateCheck)
	if got := serial(); got != 3 {
		t.Errorf("certificate %d is in use", got)
	}
}
