package forward

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

type secretText = verify.Secret

// trust makes the target trust the server's certificate, as Config.Roots does.
func trust(t *testing.T, target *Target, f *far) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	transport := target.transport
	transport.TLSClientConfig.RootCAs = roots
}

// TestCertificatesAreValidated is row R178: nothing is sent to a target without a trusted
// certificate.
func TestCertificatesAreValidated(t *testing.T) {
	t.Parallel()
	f := newFar(t, says(200))
	f.StartTLS()
	r := deliver(t, to(t, f.URL, nil), "1")
	want(t, r, Transient, 0)
	if len(f.requests()) != 0 || !strings.Contains(r.Err.Error(), "certificate") {
		t.Errorf("%d requests, error %v", len(f.requests()), r.Err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	want(t, deliver(t, to(t, f.URL, func(c *Config) { c.Roots = roots }), "1"), Accepted, 200)
	// A trusted certificate for another name is refused too.
	other := strings.Replace(f.URL, "127.0.0.1", "localhost", 1)
	want(t, deliver(t, to(t, other, func(c *Config) { c.Roots = roots }), "1"), Transient, 0)
}

// TestDenyPrivateRefusesPrivateAddresses: checked when the connection is made, not by name.
func TestDenyPrivateRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	deny := func(c *Config) { c.DenyPrivate = true }
	named := strings.Replace(f.URL, "127.0.0.1", "localhost", 1)
	want(t, deliver(t, to(t, named, nil), "1"), Accepted, 200)
	r := deliver(t, to(t, named, deny), "1")
	want(t, r, Transient, 0)
	if len(f.requests()) != 1 || !strings.Contains(r.Err.Error(), "inside a network") {
		t.Errorf("%d requests, error %v", len(f.requests()), r.Err)
	}
	for _, address := range []string{"http://127.0.0.1/", "http://10.1.2.3/", "http://[::1]/",
		"http://169.254.169.254/", "http://[::ffff:10.0.0.1]:80/", "http://100.64.0.1/"} {
		if _, err := New(Config{Name: "x", URL: address, DenyPrivate: true}); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	if _, err := New(Config{Name: "x", URL: "https://93.184.215.14/", DenyPrivate: true}); err != nil {
		t.Error(err)
	}
	transport := to(t, "https://hooks.example/", deny).transport
	if transport.Proxy != nil {
		t.Error("a proxy would hide the address")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	transport := to(t, "https://hooks.example/", nil).transport
	if transport.MaxConnsPerHost != DefaultConns || transport.MaxResponseHeaderBytes == 0 ||
		transport.TLSHandshakeTimeout == 0 ||
		transport.TLSClientConfig.InsecureSkipVerify {
		t.Errorf("transport is %+v", transport)
	}
}
