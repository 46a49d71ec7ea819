package preset

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/verify"
)

func anyName(*x509.Certificate) bool { return true }

func serve(text []byte) func(context.Context, string) ([]byte, error) {
	return func(context.Context, string) ([]byte, error) { return text, nil }
}

func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	leaf := a.leaf(&a.key.PublicKey, "sns.amazonaws.com")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := &certAuthority{begin: a.begin, end: a.end}
	other.rootKey, other.root = other.makeCA("Other Root", nil, nil, a.begin, a.end)
	other.mid, other.midKey = other.root, other.rootKey
	isVendor := func(c *x509.Certificate) bool {
		return namedAs(c, func(n string) bool { return n == "sns.amazonaws.com" })
	}
	cases := []struct {
		name  string
		text  []byte
		chain bool
		code  verify.Code
	}{
		{"chain", pemOf(leaf, a.mid), true, ""},
		{"without the intermediate", pemOf(leaf), true, verify.CertUntrusted},
		{"without the intermediate, chain not wanted", pemOf(leaf), false, ""},
		{"another root", pemOf(other.leaf(&a.key.PublicKey, "sns.amazonaws.com")), true, verify.CertUntrusted},
		{"another name", pemOf(a.leaf(&a.key.PublicKey, "sns.amazonaws.com.evil.example"), a.mid), true,
			verify.CertUntrusted},
		{"another name, chain not wanted", pemOf(a.leaf(&a.key.PublicKey, "evil.example")), false,
			verify.CertUntrusted},
		{"an EC key", pemOf(a.leaf(&ec.PublicKey, "sns.amazonaws.com"), a.mid), true, verify.CertUntrusted},
		{"the wrong order", pemOf(a.mid, leaf), true, verify.CertUntrusted},
		{"nothing", nil, true, verify.CertUntrusted},
		{"no PEM", []byte("<html>"), true, verify.CertUntrusted},
		{"a broken certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}), true,
			verify.CertUntrusted},
		{"a bare public key", publicPEM(t, &a.key.PublicKey), false, verify.CertUntrusted},
	}
	for _, c := range cases {
		certs := &certStore{Roots: a.roots(), SkipChain: !c.chain, Fetch: serve(c.text)}
		cert, err := certs.find(t.Context(), "https://x/y.pem", isVendor)
		if verify.CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err == nil && c.chain && !cert.notAfter.Equal(a.mid.NotAfter) {
			t.Errorf("%s: valid until %v, but the intermediate ends %v", c.name, cert.notAfter, a.mid.NotAfter)
		}
	}
}

func TestCertificatesAreFetchedOnceAndAgainAfterHalfADay(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	text := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	var fetches atomic.Int32
	now := time.Unix(tokenNow, 0)
	certs := &certStore{Roots: a.roots(), Now: func() time.Time { return now },
		Fetch: func(context.Context, string) ([]byte, error) {
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

// TestForgedDeliveriesCauseFewFetches requests many URLs.
func TestForgedDeliveriesCauseFewFetches(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	good := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	fetches, now := 0, time.Unix(tokenNow, 0)
	certs := &certStore{Roots: a.roots(), Now: func() time.Time { return now },
		Fetch: func(_ context.Context, address string) ([]byte, error) {
			if fetches++; address == "https://a/good.pem" {
				return good, nil
			}
			return nil, errors.New("status 404")
		}}
	if _, err := certs.find(t.Context(), "https://a/good.pem", anyName); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := certs.find(t.Context(), fmt.Sprintf("https://a/%d.pem", i),
			anyName); verify.CodeOf(err) != verify.KeysUnavailable {
			t.Fatal(err)
		}
	}
	if fetches > certFetchBudget {
		t.Errorf("%d fetches at once", fetches)
	}
	if _, err := certs.find(t.Context(), "https://a/good.pem", anyName); err != nil {
		t.Errorf("a valid certificate was evicted: %v", err)
	}
	now = now.Add(certFetchSpan)
	before := fetches
	if _, err := certs.find(t.Context(), "https://a/new.pem", anyName); verify.CodeOf(err) != verify.KeysUnavailable ||
		fetches != before+1 {
		t.Errorf("after a minute: %d fetches more, %v", fetches-before, err)
	}
}

// One network cannot keep a certificate from being fetched, which another one needs.
func TestForgedDeliveriesOfOneNetworkLeaveFetchesToOthers(t *testing.T) {
	t.Parallel()
	now, fetches := time.Unix(tokenNow, 0), 0
	certs := &certStore{Now: func() time.Time { return now }, Fetch: func(context.Context, string) ([]byte, error) {
		fetches++
		return nil, errors.New("status 404")
	}}
	urls := 0
	from := func(addr string) (n int) {
		before := fetches
		for range 3 * certFetchBudget {
			urls++
			ctx := &sender.Context{Context: t.Context(), Addr: netip.MustParseAddr(addr)}
			_, err := certs.find(ctx, fmt.Sprintf("https://a/%d.pem", urls), anyName)
			if verify.CodeOf(err) != verify.KeysUnavailable {
				t.Fatal(err)
			}
		}
		return fetches - before
	}
	for _, row := range []struct {
		addr string
		want int
	}{
		{"203.0.113.7", certFetchShare}, {"203.0.113.7", 0}, {"203.0.113.8", certFetchShare},
		{"2001:db8::1", certFetchShare}, {"2001:db8::2", 0}, {"2001:db8:0:1::1", certFetchShare},
		{"192.0.2.1", 0}, // all networks together
	} {
		if n := from(row.addr); n != row.want {
			t.Errorf("%s causes %d fetches, want %d", row.addr, n, row.want)
		}
	}
	now = now.Add(certFetchSpan)
	if n := from("203.0.113.7"); n != certFetchShare {
		t.Errorf("a minute later: %d fetches", n)
	}
}

func TestCertificateCacheIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(tokenNow, 0)
	certs := &certStore{Now: func() time.Time { return now }}
	for i := range 3 * certCacheSize {
		now = now.Add(time.Second)
		certs.keep(fmt.Sprint(i), &vendorCert{})
	}
	if len(certs.cache) != certCacheSize || certs.cached(fmt.Sprint(3*certCacheSize-1)) == nil ||
		certs.cached("0") != nil {
		t.Errorf("%d certificates are cached", len(certs.cache))
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
		if isSNSURL(address) != ok {
			t.Errorf("%q: %v", address, !ok)
		}
	}
	for host, ok := range map[string]bool{
		"api.paypal.com": true, "api.sandbox.paypal.com": true, "paypal.com": false, "notpaypal.com": false,
		"paypal.com.evil.example": false,
		"a..paypal.com":           false,
	} {
		if isVendorURL("https://"+host+"/c", isPayPalHost) != ok {
			t.Errorf("%q: %v", host, !ok)
		}
	}
}

// TestForgedDeliveriesDoNotEvictACertificateInUse names valid old certificates of the vendor
// and uses up the budget of fetches.
func TestForgedDeliveriesDoNotEvictACertificateInUse(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	now, down := time.Unix(tokenNow, 0), false
	good := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	certs := &certStore{Roots: a.roots(), Now: func() time.Time { return now },
		Fetch: func(context.Context, string) ([]byte, error) {
			if down {
				return nil, errors.New("status 503")
			}
			return good, nil
		}}
	find := func(address string) error {
		_, err := certs.find(t.Context(), address, anyName)
		return err
	}
	for _, address := range []string{"https://a/used.pem", "https://a/old.pem"} {
		if err := find(address); err != nil {
			t.Fatal(err)
		}
	}
	certs.prove("https://a/used.pem")
	certs.prove("https://a/never-fetched.pem")
	for i := range 3 * certCacheSize {
		now = now.Add(2 * certFetchSpan / certFetchBudget)
		if err := find(fmt.Sprintf("https://a/%d.pem", i)); err != nil {
			t.Fatal(err)
		}
	}
	now, down = now.Add(certCacheAge), true
	if err := find("https://a/used.pem"); err != nil {
		t.Errorf("the certificate in use: %v", err)
	}
	for _, address := range []string{"https://a/old.pem", "https://a/1.pem", "https://a/never-fetched.pem"} {
		if verify.CodeOf(find(address)) != verify.KeysUnavailable {
			t.Errorf("%s is served without a fetch", address)
		}
	}
}

func TestTheCertificateOfSNSHasOneAddress(t *testing.T) {
	t.Parallel()
	const host = "https://sns.us-east-1.amazonaws.com"
	for address, ok := range map[string]bool{
		"/SimpleNotificationService-7506a1e3.pem": true, "/a.pem?": false, "/a.pem?x=1": false, "/b/../a.pem": false,
		"//a.pem": false, "/%61.pem": false, "/b/a.pem": false, "/.pem": false, "/a.pem/": false, ":443/a.pem": true,
	} {
		if isSNSCertURL(host+address) != ok {
			t.Errorf("%s: %t", address, !ok)
		}
	}
}
