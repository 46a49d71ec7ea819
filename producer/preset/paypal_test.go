package preset

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

func payPalRequest(t *testing.T, text string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example.com/webhooks/paypal", nil)
	r.Header.Set("Paypal-Transmission-Id", "t1")
	r.Header.Set("Paypal-Transmission-Time", "2023-11-14T22:13:20Z")
	r.Header.Set("Paypal-Auth-Algo", "SHA256withRSA")
	r.Header.Set("Paypal-Cert-Url", "https://api.paypal.com/v1/notifications/certs/c1")
	sum := sha256.Sum256(fmt.Appendf(nil, "t1|2023-11-14T22:13:20Z|wh1|%d", crc32.ChecksumIEEE([]byte(text))))
	signature, err := rsa.SignPKCS1v15(rand.Reader, newAuthority().key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Paypal-Transmission-Sig", base64.StdEncoding.EncodeToString(signature))
	return r
}

func testPayPal() *payPalScheme {
	a := newAuthority()
	return &payPalScheme{
		webhookID: "wh1",
		certs: &certStore{Roots: a.roots(), Fetch: serve(pemOf(a.leaf(&a.key.PublicKey,
			"messageverificationcerts.paypal.com"), a.mid))},
	}
}

func TestPayPalDeliveries(t *testing.T) {
	t.Parallel()
	const text = `{"id":"WH-1"}`
	cases := []struct {
		name, field, value string // "" removes the field
		body               string
		code               verify.Code
	}{
		{"good", "X-Other", "x", text, ""},
		{"algorithm in small letters", "Paypal-Auth-Algo", "sha256withrsa", text, ""},
		{"body changed", "X-Other", "x", `{"id":"WH-2"}`, verify.SignatureMismatch},
		{"time changed", "Paypal-Transmission-Time", "2023-11-14T22:13:21Z", text, verify.SignatureMismatch},
		{"id changed", "Paypal-Transmission-Id", "t2", text, verify.SignatureMismatch},
		{"id with the separator", "Paypal-Transmission-Id", "t1|x", text, verify.SignatureMalformed},
		{"no signature", "Paypal-Transmission-Sig", "", text, verify.SignatureMissing},
		{"signature is no base64", "Paypal-Transmission-Sig", "!", text, verify.SignatureMalformed},
		{"SHA-1", "Paypal-Auth-Algo", "SHA1withRSA", text, verify.AlgorithmNotAllowed},
		{"no algorithm", "Paypal-Auth-Algo", "", text, verify.AlgorithmNotAllowed},
		{"no id", "Paypal-Transmission-Id", "", text, verify.IDMissing},
		{"no time", "Paypal-Transmission-Time", "", text, verify.TimestampMissing},
		{"time is no time", "Paypal-Transmission-Time", "now", text, verify.TimestampMalformed},
		{"another host", "Paypal-Cert-Url", "https://paypal.com.evil.example/c", text, verify.CertURLUntrusted},
		{"no certificate", "Paypal-Cert-Url", "", text, verify.CertURLUntrusted},
	}
	for _, c := range cases {
		r := payPalRequest(t, text)
		if r.Header.Set(c.field, c.value); c.value == "" {
			r.Header.Del(c.field)
		}
		if _, err := testPayPal().Verify(r, body(c.body)); verify.CodeOf(err) != c.code ||
			(err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
	}
	r := payPalRequest(t, text)
	r.Header.Add("Paypal-Transmission-Id", "t1")
	if _, err := testPayPal().Verify(r, body(text)); verify.CodeOf(err) != verify.AmbiguousField {
		t.Errorf("two ids: %v", err)
	}
	other := testPayPal()
	other.webhookID = "wh2"
	if _, err := other.Verify(payPalRequest(t, text), body(text)); verify.CodeOf(err) != verify.SignatureMismatch {
		t.Errorf("another webhook: %v", err)
	}
}

// TestPayPalDoesNotCoverTheBody forges a body with the same CRC-32.
func TestPayPalDoesNotCoverTheBody(t *testing.T) {
	t.Parallel()
	const text = `{"id":"WH-1"}`
	forged := sameCRC([]byte(`{"id":"WH-FORGED"}`), crc32.ChecksumIEEE([]byte(text)))
	r := payPalRequest(t, text)
	first, err := testPayPal().Verify(r, body(text))
	if err != nil {
		t.Fatal(err)
	}
	second, err := testPayPal().Verify(r, body(string(forged)))
	if err != nil {
		t.Fatalf("the forgery was refused: %v", err)
	}
	if first.Covers("@body") || string(first.Signed) != string(second.Signed) {
		t.Error("the signed content of the forgery differs")
	}
}

// sameCRC appends four bytes that give text the CRC-32.
func sameCRC(text []byte, want uint32) []byte {
	state := ^want
	for range 4 { // run the table backwards over the four bytes
		for i, entry := range crc32.IEEETable {
			if entry>>24 == state>>24 {
				state = (state^entry)<<8 | uint32(i) //nolint:gosec // i < 256
				break
			}
		}
	}
	patch := state ^ ^crc32.ChecksumIEEE(text)
	return append(text, byte(patch), byte(patch>>8), byte(patch>>16), byte(patch>>24))
}

func TestPayPalPinnedKeysAndSettings(t *testing.T) {
	t.Parallel()
	const text = `{"id":"WH-1"}`
	p := testPayPal()
	const address = "https://api.paypal.com/v1/notifications/certs/c1"
	p.certs = &certStore{Pinned: map[string]crypto.PublicKey{address: &newAuthority().key.PublicKey}}
	if _, err := p.Verify(payPalRequest(t, text), body(text)); err != nil {
		t.Errorf("a pinned key: %v", err)
	}
	if (&payPalScheme{certs: &certStore{}}).Check() == nil || (&payPalScheme{webhookID: "x"}).Check() == nil {
		t.Error("a scheme without webhook id or certificates was accepted")
	}
	if _, err := testPayPal().Verify(payPalRequest(t, text), noBody); err == nil || errors.As(err, new(*verify.Error)) {
		t.Errorf("the body's own error is %v", err)
	}
}
