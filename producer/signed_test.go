package producer

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

var signedSecret = []byte("a secret of more than sixteen bytes")

func signedKeys(t *testing.T) verify.KeySet {
	t.Helper()
	key, err := verify.NewHMACKey("k1", signedSecret)
	if err != nil {
		t.Fatal(err)
	}
	return verify.StaticKeys(key)
}

func signedRequest(t *testing.T, body string, header map[string]string, components ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook+"?a=b", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.RequestURI()
	for name, value := range header {
		r.Header.Set(name, value)
	}
	signer := verify.Signer{KeyID: "k1", Secret: signedSecret, Components: components}
	if err := signer.Sign(r, []byte(body), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	return r
}

func verifySigned(p Producer, r *http.Request) (*Delivery, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	id, err := p.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
	return &Delivery{Request: r, Body: body, Identity: id}, err
}

func TestSignedProducerReadsTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	p := Signed("shop", signedKeys(t))
	if errs := p.Check(); len(errs) != 0 {
		t.Fatal(errs)
	}
	p = p.WithDefaults()
	for body, kind := range map[string]string{
		`{"type":"order.paid"}`: "order.paid", `{"a":1}`: "", "not JSON": "", `{"type":{"a":1}}`: "",
	} {
		d, err := verifySigned(p, signedRequest(t, body, map[string]string{"Idempotency-Key": `"k1"`,
			"Content-Type": "application/json"}))
		if err != nil {
			t.Fatal(err)
		}
		items, err := p.Items(d)
		if err != nil || len(items) != 1 || items[0].ID != "k1" || items[0].Type != kind {
			t.Errorf("%s: %+v, %v", body, items, err)
		}
	}
}

func TestSignedProducerRequiresTheKey(t *testing.T) {
	t.Parallel()
	p := Signed("shop", signedKeys(t)).WithDefaults()
	d, err := verifySigned(p, signedRequest(t, `{}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Items(d); verify.CodeOf(err) != verify.IDMissing {
		t.Errorf("without a key: %v", err)
	}
}

func TestIdentifyingFieldsMustBeSigned(t *testing.T) {
	t.Parallel()
	p := Signed("shop", signedKeys(t))
	p.Key, p.Type = Header("X-Order"), Header("X-Kind")
	p = p.WithDefaults()
	header := map[string]string{"X-Order": "o1", "X-Kind": "paid"}
	base := []string{"@method", "@target-uri", "content-digest"}
	for _, c := range []struct {
		covered []string
		code    verify.Code
	}{
		{append(base, "x-order", "x-kind"), ""},
		{append(base, "x-order"), verify.InsufficientCoverage},
		{append(base, "x-kind"), verify.InsufficientCoverage},
	} {
		if _, err := verifySigned(p, signedRequest(t, `{}`, header, c.covered...)); verify.CodeOf(err) != c.code {
			t.Errorf("covering %v: %v, want %q", c.covered, err, c.code)
		}
	}
	if again := p.WithDefaults(); again.Scheme != p.Scheme {
		t.Error("defaults make a new scheme of one that is complete")
	}
}

func TestIdentifyingFieldsMustBeSignedBesideAnotherCredential(t *testing.T) {
	t.Parallel()
	p := Signed("shop", signedKeys(t))
	p.Key = Header("X-Order")
	p.Scheme = verify.All{verify.HeaderValue("X-Token", "0123456789abcdef"), p.Scheme}
	p = p.WithDefaults()
	header := map[string]string{"X-Order": "o1", "X-Token": "0123456789abcdef"}
	base := []string{"@method", "@target-uri", "content-digest"}
	if _, err := verifySigned(p, signedRequest(t, `{}`, header, append(base, "x-order")...)); err != nil {
		t.Error(err)
	}
	if _, err := verifySigned(p, signedRequest(t, `{}`, header,
		base...)); verify.CodeOf(err) != verify.InsufficientCoverage {
		t.Errorf("without the field that holds the key: %v", err)
	}
}

func TestSignsURLFollowsFromTheScheme(t *testing.T) {
	t.Parallel()
	hmac := func(content string) *verify.HMAC {
		return &verify.HMAC{Headers: []string{"Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets("s"),
			Content: content}
	}
	for name, c := range map[string]struct {
		scheme verify.Scheme
		want   bool
	}{
		"rfc9421":             {&verify.RFC9421{Keys: signedKeys(t)}, true},
		"hmac of the URL":     {hmac("{url}{body}"), true},
		"hmac of the body":    {hmac("{body}"), false},
		"hmac that covers it": {&verify.HMAC{Covers: []string{"@target-uri"}}, true},
		"one of two":          {verify.All{verify.Basic("u", "p"), &verify.RFC9421{Keys: signedKeys(t)}}, true},
		"none of two":         {verify.All{verify.Basic("u", "p"), hmac("{body}")}, false},
		"none":                {nil, false},
	} {
		if got := (Producer{Name: "shop", Scheme: c.scheme}).WithDefaults().SignsURL; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCredentialsOfTheSchemeAreNotStored(t *testing.T) {
	t.Parallel()
	p := Producer{Name: "shop", SecretQuery: []string{"sig"}, Scheme: verify.All{
		verify.HeaderValue("X-Token", "a"), verify.QueryValue("key", "b"), verify.Basic("u", "c"),
		&verify.Static{In: verify.InBearer, Name: "access_token", Secrets: verify.Secrets("d")},
	}}.WithDefaults()
	again := p.WithDefaults()
	for _, p := range []Producer{p, again} {
		if got := strings.Join(p.SecretHeaders, " "); got != "X-Token" {
			t.Errorf("fields: %s", got)
		}
		if got := strings.Join(p.SecretQuery, " "); got != "sig key access_token" ||
			got != strings.Join(p.ScopeIgnores, " ") {
			t.Errorf("parameters: %s; not in the scope: %s", got, p.ScopeIgnores)
		}
	}
}
