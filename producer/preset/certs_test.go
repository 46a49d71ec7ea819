package preset

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

func anyName(*x509.Certificate) bool { return true }

func serve(text []byte) func(context.Context, string) ([]byte, error) {
	return func(context.Context, string) ([]byte, error) { return text, nil }
}

// rsaKey is the key of all certificates and samples that need one of RSA.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// certificate returns a certificate in PEM that is signed by its own key.
func certificate(t *testing.T, key crypto.Signer, name string) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// The recorded messages of SNS and PayPal have other chains, names and dates.
func TestCertificatesAreOfAnRSAKey(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(rsaKey().Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"an EC key": certificate(t, ec, "x.example"), "no PEM": []byte("<html>"),
		"a broken certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}),
		"a bare public key":    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
	} {
		certs := &certStore{SkipChain: true, Fetch: serve(text)}
		_, err := certs.find(t.Context(), "https://x/y.pem", anyName)
		if verify.CodeOf(err) != verify.CertUntrusted {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificatesAreFetchedOnceAndAgainAfterHalfADay(t *testing.T) {
	t.Parallel()
	text := certificate(t, rsaKey(), "x.example")
	var fetches atomic.Int32
	now := testNow
	certs := &certStore{SkipChain: true, Now: func() time.Time { return now },
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
	good := certificate(t, rsaKey(), "x.example")
	fetches, now := 0, testNow
	certs := &certStore{SkipChain: true, Now: func() time.Time { return now },
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
	now, fetches := testNow, 0
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
	now := testNow
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

// The recorded messages of both vendors have other addresses.
func TestCertificateAddressesAreTheVendors(t *testing.T) {
	t.Parallel()
	const host = "https://sns.us-east-1.amazonaws.com"
	for address, ok := range map[string]bool{
		host + "/a.pem": true, host + "/SimpleNotificationService-7506a1e3.pem": true,
		host + "/a.pem?": false, host + "/b/../a.pem": false, host + "//a.pem": false, host + "/%61.pem": false,
		host + "/b/a.pem": false, host + "/.pem": false, host + "/a.pem/": false, host + " /a.pem": false,
		host + "/" + strings.Repeat("a", 600) + ".pem":             false,
		"https://evil.example\\@sns.us-east-1.amazonaws.com/a.pem": false,
		"https://sns.amazonaws.com/a.pem":                          false,
		"https://SNS.us-east-1.amazonaws.com/a.pem":                false,
	} {
		if isSNSCertURL(address) != ok {
			t.Errorf("%q: %v", address, !ok)
		}
	}
	for address, ok := range map[string]bool{
		"https://api.sandbox.paypal.com/c": true, "https://a..paypal.com/c": false, "https://api.paypal.com/c#x": false,
		"https://api.paypal.com/c d": false,
	} {
		if isVendorURL(address, isPayPalHost) != ok {
			t.Errorf("%q: %v", address, !ok)
		}
	}
}

// TestForgedDeliveriesDoNotEvictACertificateInUse names valid old certificates of the vendor
// and uses up the budget of fetches.
func TestForgedDeliveriesDoNotEvictACertificateInUse(t *testing.T) {
	t.Parallel()
	now, down := testNow, false
	good := certificate(t, rsaKey(), "x.example")
	certs := &certStore{SkipChain: true, Now: func() time.Time { return now },
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

// sampleOf returns a signed sample, its settings and its preset.
func sampleOf(t testing.TB, name string) (producer.Producer, *http.Request, []byte) {
	t.Helper()
	p, _ := Find(name)
	s := sampleSettings(t)[name]
	r, body, err := p.Sample(s, testHook, "", "m1", testNow)
	if err != nil {
		t.Fatal(err)
	}
	return p.Open(s), r, body
}

func TestMessagesOfSNSHaveOneReading(t *testing.T) {
	t.Parallel()
	sns, r, signed := sampleOf(t, "aws-sns")
	for name, c := range map[string]struct {
		old, replacement string
		code             verify.Code
	}{
		"as it is":                     {"", "", ""},
		"an id twice":                  {`"MessageId":`, `"MessageId":"m2","MessageId":`, verify.EventMalformed},
		"a line feed in the id":        {`"m1"`, `"m1\nSubject\nx"`, verify.EventMalformed},
		"a line feed in the signature": {`"Signature":"`, `"Signature":"\n`, verify.SignatureMalformed},
	} {
		text := strings.Replace(string(signed), c.old, c.replacement, 1)
		_, id, err := receive(sns, r, []byte(text), testNow)
		if verify.CodeOf(err) != c.code || err == nil && !id.Covers("@body") {
			t.Errorf("%s: %+v, %v, want %q", name, id, err, c.code)
		}
	}
	topics := []string{"t"}
	md5 := &snsScheme{topics: topics, certs: &certStore{}, hashes: []verify.Hash{"md5"}}
	for _, s := range []*snsScheme{{topics: topics}, md5} {
		if _, err := s.Verify(r, body("{}")); verify.CodeOf(err) != verify.KeysUnavailable {
			t.Errorf("%+v verifies with %v", s, err)
		}
	}
}

// The body is bound by its CRC-32 only, so the identity does not cover it.
func TestFieldsOfPayPalHaveOneReading(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field  string
		values []string
		code   verify.Code
	}{
		"algorithm in small letters": {"Paypal-Auth-Algo", []string{"sha256withrsa"}, ""},
		"id with the separator":      {"Paypal-Transmission-Id", []string{"t1|x"}, verify.SignatureMalformed},
		"two ids":                    {"Paypal-Transmission-Id", []string{"t1", "t1"}, verify.AmbiguousField},
	} {
		p, r, body := sampleOf(t, "paypal")
		r.Header[c.field] = c.values
		if _, id, err := receive(p, r, body, testNow); verify.CodeOf(err) != c.code || id.Covers("@body") {
			t.Errorf("%s: %+v, %v, want %q", name, id, err, c.code)
		}
	}
}

func TestPayPalNeedsASourceOfCertificates(t *testing.T) {
	t.Parallel()
	if (&payPalScheme{webhookID: "x"}).Check() == nil {
		t.Error("accepted")
	}
}

// FuzzSNS checks that no body passes without our key, and that every error is typed.
func FuzzSNS(f *testing.F) {
	sns, r, _ := sampleOf(f, "aws-sns")
	f.Add(`{"Type":"Notification","MessageId":"m","TopicArn":"arn:aws:sns:us-east-1:123456789012:tea","Message":"x",` +
		`"Timestamp":"2023-11-14T22:13:20Z","SignatureVersion":"2","Signature":"AAAA","SigningCertURL":"` +
		snsSampleCert + `"}`)
	f.Add(`{"Type":"SubscriptionConfirmation"}`)
	f.Add(`[]`)
	f.Add(`{"Signature":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := sns.Scheme.Verify(r, body(text)); verify.CodeOf(err) == "" {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
