package interop_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"strings"

	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

const acmeHost = "hooks.example.test"

// TestAnACMEAuthorityIssuesTheCertificate orders a certificate from Pebble, the authority for tests
// of Let's Encrypt, which connects to the receiver.
func TestAnACMEAuthorityIssuesTheCertificate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SSL_CERT_FILE is read on Linux only")
	}
	address := freeport.Address()
	authority, roots := startPebble(t, address)
	dir := t.TempDir()
	trusted := filepath.Join(dir, "authority.pem")
	block := pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}
	yaml := fmt.Sprintf(`listen: %s
operations: "off"
url: https://%s
store: badger:./data
acme:
  hosts: [%[2]s]
  email: ops@example.test
  url: %s%s
producers:
  github: {preset: github, secret: [of-this-test]}
`, address, acmeHost, authority.URL, wfe.DirectoryPath)
	for name, content := range map[string][]byte{trusted: pem.EncodeToMemory(&block),
		filepath.Join(dir, "eyelet.yaml"): []byte(yaml)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := buildEyelet(t)
	start := func() (stop func(), output *bytes.Buffer) {
		output = &bytes.Buffer{}
		c := exec.Command(binary, "serve")
		c.Dir, c.Stderr, c.Env = dir, output, append(os.Environ(), "SSL_CERT_FILE="+trusted)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		stop = func() {
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait()
		}
		return stop, output
	}
	stop, output := start()
	first, err := certificateOf(address, acmeHost, roots)
	if err != nil {
		stop()
		t.Fatalf("%v\n%s", err, output)
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{ServerName: "other.example.test", RootCAs: roots}); err == nil {
		t.Error("a name that is not configured has a certificate")
	}
	trust := &tls.Config{ServerName: acmeHost, RootCAs: roots}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	res, err := client.Get("https://" + address + "/policy")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("got %s", res.Status)
	}
	client.CloseIdleConnections()
	stop()
	if info, err := os.Stat(filepath.Join(dir, "data", "acme")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the keys: %v, %v", info, err)
	}

	authority.Close() // the next start has the certificate from its folder
	stop, output = start()
	defer stop()
	second, err := certificateOf(address, acmeHost, roots)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if first.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("another certificate after a restart")
	}
}

// certificateOf waits until a server has a certificate that the roots have issued.
func certificateOf(address, host string, roots *x509.CertPool) (*x509.Certificate, error) {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: host, RootCAs: roots})
		if err == nil {
			leaf := c.ConnectionState().PeerCertificates[0]
			return leaf, c.Close()
		}
		if time.Since(began) > time.Minute {
			return nil, err
		}
	}
}

// startPebble starts an authority that connects to the port of an address whatever the name.
func startPebble(t *testing.T, address string) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	_, digits, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	memory := db.NewMemoryStore()
	issuer := ca.New(quiet, memory, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "of this test"}})
	validation := va.New(quiet, 1, port, false, startDNS(t), memory)
	front := wfe.New(quiet, memory, validation, issuer, []string{"ca.example.test"}, false, false, 1, 1)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.Handler = withLocation(front.Handler(), srv)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(issuer.GetRootCert(0).PEM()) {
		t.Fatal("the authority has no root")
	}
	return srv, roots
}

// withLocation names the order in the answer to its finalization, as Let's Encrypt does: the client
// of golang.org/x/crypto needs it, and RFC 8555 does not ask for it.
func withLocation(next http.Handler, srv *httptest.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if order, ok := strings.CutPrefix(r.URL.Path, "/finalize-order/"); ok {
			w.Header().Set("Location", srv.URL+"/my-order/"+order)
		}
		next.ServeHTTP(w, r)
	})
}

// startDNS starts a server that has 127.0.0.1 for every name.
func startDNS(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w dns.ResponseWriter, q *dns.Msg) {
		a := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			head := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}
			a.Answer = append(a.Answer, &dns.A{Hdr: head, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(a)
	}
	srv := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(answer)}
	go srv.ActivateAndServe() //nolint:errcheck // ends with the test
	t.Cleanup(func() { _ = srv.Shutdown() })
	return ln.Addr().String()
}
