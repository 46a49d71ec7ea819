package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

// TestClientsOrderNothing connects with every kind of hello before a certificate is there.
func TestClientsOrderNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer authority.Close()
	a := newACMECertificates(&ACME{
		Hosts: []string{"hooks.example"}, Directory: authority.URL, Cache: filepath.Join(t.TempDir(), "acme"),
	}, nil)
	for _, name := range []string{"", "hooks.example", "HOOKS.example.", "other.example", "../../etc/passwd"} {
		for _, protocols := range [][]string{
			nil, {acme.ALPNProto}, {"h2", "http/1.1"}, {acme.ALPNProto, "http/1.1"}, {"h2", acme.ALPNProto},
			{acme.ALPNProto, acme.ALPNProto}, {acme.ALPNProto, ""}, {"ACME-TLS/1"},
		} {
			for _, suite := range []uint16{
				tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_128_GCM_SHA256,
			} {
				c, err := a.get(&tls.ClientHelloInfo{
					ServerName: name, SupportedProtos: protocols, CipherSuites: []uint16{suite},
				})
				if err == nil {
					t.Errorf("%q, %q: got a certificate %v", name, protocols, c)
				}
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the authority was asked %d times", n)
	}
}

// TestACMEBehindAProxyOfTCP: a PROXY header precedes the handshake of a client, and that of the
// authority.
func TestACMEBehindAProxyOfTCP(t *testing.T) {
	t.Parallel()
	const host, client = "hooks.example", "200 203.0.113.7:4711 receiver.connAddr"
	folder := t.TempDir()
	cacheCertificate(t, folder, host, host)
	cacheCertificate(t, folder, host+"+token", host) // the answer to a challenge
	a := newACMECertificates(&ACME{
		Hosts: []string{host}, Directory: "http://127.0.0.1:1", Cache: folder,
	}, slog.New(slog.DiscardHandler))
	check(t, a.look(host, time.Now()))
	proxy := serveProxied(t, theProxy, time.Minute, a.config())
	trusting := &tls.Config{ServerName: host, InsecureSkipVerify: true} //nolint:gosec // it has signed itself
	const header = "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"
	if got := sendProxied(t, proxy, header, trusting); got != client {
		t.Errorf("a client: %q, want %q", got, client)
	}
	if got := sendProxied(t, proxy, "", trusting); got != "" {
		t.Errorf("without a header: %q", got)
	}
	challenge := trusting.Clone()
	challenge.NextProtos = []string{acme.ALPNProto}
	protocol := ""
	challenge.VerifyConnection = func(s tls.ConnectionState) error {
		protocol = s.NegotiatedProtocol
		return nil
	}
	sendProxied(t, proxy, header, challenge)
	if protocol != acme.ALPNProto {
		t.Errorf("the authority negotiated %q", protocol)
	}
}

// cacheCertificate writes a certificate of a host as the folder of autocert has it.
func cacheCertificate(t *testing.T, folder, name, host string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(60 * 24 * time.Hour),
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	check(t, err)
	content := append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})...)
	check(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
}
