package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// certAuthority is a root, an intermediate and a leaf for tests.
type certAuthority struct {
	key        *rsa.PrivateKey // of the leaf
	root, mid  *x509.Certificate
	rootKey    *ecdsa.PrivateKey
	midKey     *ecdsa.PrivateKey
	serial     atomic.Int64
	begin, end time.Time
}

var newAuthority = sync.OnceValue(func() *certAuthority {
	a := &certAuthority{begin: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), end: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)}
	a.key = newIssuer().rsa
	a.rootKey, a.root = a.makeCA("Test Root", nil, nil, a.begin, a.end)
	a.midKey, a.mid = a.makeCA("Test Intermediate", a.root, a.rootKey, a.begin, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return a
})

func (a *certAuthority) makeCA(name string, parent *x509.Certificate, by *ecdsa.PrivateKey, begin, end time.Time) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent, by = template, key
	}
	return key, a.sign(template, parent, &key.PublicKey, by)
}

func (a *certAuthority) sign(template, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

func (a *certAuthority) leaf(public crypto.PublicKey, names ...string) *x509.Certificate {
	return a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: a.begin, NotAfter: a.end,
	}, a.mid, public, a.midKey)
}

func (a *certAuthority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}

func pemOf(certs ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

func anyName(*x509.Certificate) bool { return true }

func serve(text []byte) func(context.Context, string) ([]byte, error) {
	return func(context.Context, string) ([]byte, error) { return text, nil }
}

func TestCertificatesAreJudged(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	leaf := a.leaf(&a.key.PublicKey, "sns.amazonaws.com")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &certAuthority{begin: a.begin, end: a.end}
	stranger.rootKey, stranger.root = stranger.makeCA("Other Root", nil, nil, a.begin, a.end)
	stranger.mid, stranger.midKey = stranger.root, stranger.rootKey
	isVendor := func(c *x509.Certificate) bool {
		return namedAs(c, func(n string) bool { return n == "sns.amazonaws.com" })
	}
	cases := []struct {
		name  string
		text  []byte
		chain bool
		code  Code
	}{
		{"chain", pemOf(leaf, a.mid), true, ""},
		{"without the intermediate", pemOf(leaf), true, CertUntrusted},
		{"without the intermediate, chain not wanted", pemOf(leaf), false, ""},
		{"another root", pemOf(stranger.leaf(&a.key.PublicKey, "sns.amazonaws.com")), true, CertUntrusted},
		{"another name", pemOf(a.leaf(&a.key.PublicKey, "sns.amazonaws.com.evil.example"), a.mid), true, CertUntrusted},
		{"another name, chain not wanted", pemOf(a.leaf(&a.key.PublicKey, "evil.example")), false, CertUntrusted},
		{"an EC key", pemOf(a.leaf(&ec.PublicKey, "sns.amazonaws.com"), a.mid), true, CertUntrusted},
		{"the wrong order", pemOf(a.mid, leaf), true, CertUntrusted},
		{"nothing", nil, true, CertUntrusted},
		{"no PEM", []byte("<html>"), true, CertUntrusted},
		{"a broken certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), true, CertUntrusted},
		{"a bare public key", publicPEM(t, &a.key.PublicKey), false, CertUntrusted},
	}
	for _, c := range cases {
		certs := &Certs{Roots: a.roots(), SkipChain: !c.chain, Fetch: serve(c.text)}
		cert, err := certs.find(t.Context(), "https://x/y.pem", isVendor)
		if CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err == nil && c.chain && !cert.notAfter.Equal(a.mid.NotAfter) {
			t.Errorf("%s: good until %v, but the intermediate ends %v", c.name, cert.notAfter, a.mid.NotAfter)
		}
	}
}

func publicPEM(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestCertificatesAreFetchedOnceAndAgainAfterHalfADay(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	text := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	var fetches atomic.Int32
	now := time.Unix(tokenNow, 0)
	certs := &Certs{Roots: a.roots(), Now: func() time.Time { return now }, Fetch: func(context.Context, string) ([]byte, error) {
		fetches.Add(1)
		return text, nil
	}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := certs.find(t.Context(), "https://a/x.pem", anyName); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches for 16 deliveries", n)
	}
	now = now.Add(certCacheAge)
	if _, err := certs.find(t.Context(), "https://a/x.pem", anyName); err != nil || fetches.Load() != 2 {
		t.Errorf("after the cache's age: %d fetches, %v", fetches.Load(), err)
	}
}

// TestStrangersCannotMakeUsFetchWithoutEnd asks for address after address, as forged deliveries may.
func TestStrangersCannotMakeUsFetchWithoutEnd(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	good := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	fetches, now := 0, time.Unix(tokenNow, 0)
	certs := &Certs{Roots: a.roots(), Now: func() time.Time { return now }, Fetch: func(_ context.Context, address string) ([]byte, error) {
		if fetches++; address == "https://a/good.pem" {
			return good, nil
		}
		return nil, errors.New("status 404")
	}}
	if _, err := certs.find(t.Context(), "https://a/good.pem", anyName); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := certs.find(t.Context(), fmt.Sprintf("https://a/%d.pem", i), anyName); CodeOf(err) != KeysUnavailable {
			t.Fatal(err)
		}
	}
	if fetches > certFetchBudget {
		t.Errorf("%d fetches within a moment", fetches)
	}
	if _, err := certs.find(t.Context(), "https://a/good.pem", anyName); err != nil {
		t.Errorf("a good certificate was pushed out: %v", err)
	}
	now = now.Add(certFetchSpan)
	before := fetches
	if _, err := certs.find(t.Context(), "https://a/new.pem", anyName); CodeOf(err) != KeysUnavailable || fetches != before+1 {
		t.Errorf("after a minute: %d fetches more, %v", fetches-before, err)
	}
}

func TestCertificateCacheIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(tokenNow, 0)
	certs := &Certs{Now: func() time.Time { return now }}
	for i := range 3 * certCacheSize {
		now = now.Add(time.Second)
		certs.keep(fmt.Sprint(i), &vendorCert{})
	}
	if len(certs.cache) != certCacheSize || certs.cached(fmt.Sprint(3*certCacheSize-1)) == nil || certs.cached("0") != nil {
		t.Errorf("%d certificates are kept", len(certs.cache))
	}
}

func TestCertificateAddressesAreTheVendors(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://sns.us-east-1.amazonaws.com/a.pem":                       true,
		"https://sns.us-east-1.amazonaws.com:443/a.pem":                   true,
		"https://sns.cn-north-1.amazonaws.com.cn/a.pem":                   true,
		"http://sns.us-east-1.amazonaws.com/a.pem":                        false,
		"https://sns.us-east-1.amazonaws.com:8443/a.pem":                  false,
		"https://sns.us-east-1.amazonaws.com.evil.example/a.pem":          false,
		"https://sns.us-east-1.amazonaws.com@evil.example/a.pem":          false,
		"https://evil.example/sns.us-east-1.amazonaws.com/a.pem":          false,
		"https://evil.example\\@sns.us-east-1.amazonaws.com/a.pem":        false,
		"https://user@sns.us-east-1.amazonaws.com/a.pem":                  false,
		"https://sns.amazonaws.com/a.pem":                                 false,
		"https://xsns.us-east-1.amazonaws.com/a.pem":                      false,
		"https://SNS.us-east-1.amazonaws.com/a.pem":                       false,
		"https://sns.us-east-1.amazonaws.com/a.pem#x":                     false,
		"https://sns.us-east-1.amazonaws.com /a.pem":                      false,
		"//sns.us-east-1.amazonaws.com/a.pem":                             false,
		"":                                                                false,
		"https://sns.us-east-1.amazonaws.com/" + strings.Repeat("a", 600): false,
	} {
		if IsSNSURL(address) != ok {
			t.Errorf("%q: %v", address, !ok)
		}
	}
	for host, ok := range map[string]bool{
		"api.paypal.com": true, "api.sandbox.paypal.com": true, "paypal.com": false, "notpaypal.com": false, "paypal.com.evil.example": false,
		"a..paypal.com": false,
	} {
		if (certURL{host: isPayPalHost}).allows("https://"+host+"/c") != ok {
			t.Errorf("%q: %v", host, !ok)
		}
	}
}

func TestFetchConnectsToPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"8.8.8.8": true, "2606:4700:4700::1111": true, "127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false,
		"198.18.0.1": false, "::1": false, "::": false, "fe80::1": false, "fc00::1": false, "ff02::1": false, "2001:db8::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:7f00:1::": false, "::7f00:1": false, "fec0::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != ok {
			t.Errorf("%s: public %v", address, got)
		}
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := FetchPublic(t.Context(), server.URL); err == nil || !strings.Contains(err.Error(), "inside a network") {
		t.Errorf("loopback: %v", err)
	}
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FetchPublic(t.Context(), "https://localhost:"+port+"/"); err == nil || !strings.Contains(err.Error(), "inside a network") {
		t.Errorf("a name that resolves to loopback: %v", err)
	}
	if _, err := FetchPublic(t.Context(), "http://8.8.8.8/"); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("plain http: %v", err)
	}
}

func TestFetchIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write([]byte("text"))
		case "/full":
			_, _ = w.Write(make([]byte, fetchMaxBytes))
		case "/large":
			_, _ = w.Write(make([]byte, fetchMaxBytes+1))
		case "/away":
			http.Redirect(w, r, "/good?token=abc", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for path, ok := range map[string]bool{"/good": true, "/full": true, "/large": false, "/away": false, "/missing": false} {
		text, err := fetchWith(t.Context(), server.URL+path+"?token=abc", server.Client().Transport)
		if (err == nil) != ok || ok && len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
		if err != nil && strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: the error shows the query: %v", path, err)
		}
	}
	server.Close()
	if _, err := fetchWith(t.Context(), server.URL+"/good?token=abc", server.Client().Transport); err == nil || strings.Contains(err.Error(), "abc") {
		t.Errorf("a server that is gone: %v", err)
	}
}
