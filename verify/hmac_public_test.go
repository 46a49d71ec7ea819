package verify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"
)

func curveKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestECDSABesideHMAC(t *testing.T) {
	t.Parallel()
	key, other := curveKey(t, elliptic.P256()), curveKey(t, elliptic.P256())
	signed := func(by *ecdsa.PrivateKey, content string) string {
		sum := sha256.Sum256([]byte(content))
		der, err := ecdsa.SignASN1(rand.Reader, by, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(der)
	}
	h := &HMAC{
		Headers: []string{"S"}, Separator: " ", Entries: []string{"v1,{sig}", "e,{ecdsa}"}, Encoding: Base64,
		Content: "a:{body}", Secrets: Secrets("kettle-17"),
		ECDSAKeys: []*ecdsa.PublicKey{&other.PublicKey, &key.PublicKey},
	}
	good := signed(key, "a:tea")
	for value, want := range map[string]Code{
		"e," + good:                    "",
		"v1,AAAA e," + good:            "",
		"e," + signed(key, "a:coffee"): SignatureMismatch,
		"v1," + good:                   SignatureMismatch,
		"e," + strings.Repeat("A", 96) + " e," + strings.Repeat("A", 96): SignatureMismatch,
		"e," + strings.Repeat("A", 4000):                                 SignatureMismatch,
		"e,%":                                                            SignatureMalformed, "e,": SignatureMalformed,
	} {
		r := httptest.NewRequest("POST", "https://hooks.example/", nil)
		r.Header.Set("S", value)
		id, err := h.Verify(r, bodyOf("tea"))
		if CodeOf(err) != want || want == "" && !id.Covers("@body") {
			t.Errorf("%.20s: %v, want %q", value, err, want)
		}
	}
	only := &HMAC{Headers: []string{"S"}, Entries: []string{"{ecdsa}"}}
	if text := only.String(); !strings.HasPrefix(text, "ECDSA") {
		t.Errorf("it calls itself %s", text)
	}
}

func TestECDSAMistakes(t *testing.T) {
	t.Parallel()
	large := curveKey(t, elliptic.P384())
	for want, h := range map[string]*HMAC{
		"not a key of P-256":     {Entries: []string{"{ecdsa}"}, ECDSAKeys: []*ecdsa.PublicKey{&large.PublicKey}},
		"ECDSA key 2 of 2":       {Entries: []string{"{ecdsa}"}, ECDSAKeys: []*ecdsa.PublicKey{nil, nil}},
		"no entry holds {ecdsa}": {Entries: []string{"{sig}"}, ECDSAKeys: []*ecdsa.PublicKey{nil}},
		"no entry holds {sig}":   {Entries: []string{"{ecdsa}"}, Secrets: Secrets("kettle-17")},
		"{ecdsa} and another":    {Entries: []string{"{ecdsa}-{sig}"}, Secrets: Secrets("kettle-17")},
		"secrets: none is set":   {Entries: []string{"{ecdsa}"}},
	} {
		h.Headers, h.Encoding = []string{"S"}, Hex
		if err := h.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
