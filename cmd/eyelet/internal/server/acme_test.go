package server

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/acme"
)

// TestClientsOrderNothing connects with every kind of name before a certificate is there.
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
		for _, protocols := range [][]string{nil, {acme.ALPNProto}, {"h2", "http/1.1"}} {
			c, err := a.get(&tls.ClientHelloInfo{
				ServerName: name, SupportedProtos: protocols,
				CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			})
			if err == nil {
				t.Errorf("%q, %q: got a certificate %v", name, protocols, c)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the authority was asked %d times", n)
	}
}
