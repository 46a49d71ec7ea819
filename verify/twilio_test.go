package verify

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func twilioRequest(t *testing.T, address, media, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	if err := NewTwilio(hmacSecret).Sign(r, []byte(body), time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

const formMedia = "application/x-www-form-urlencoded"

func TestTwilioTriesTheURLWithAndWithoutItsPort(t *testing.T) {
	t.Parallel()
	scheme := NewTwilio("old token", hmacSecret)
	for signed, seen := range map[string][]string{
		"https://a.example/in?x=1":     {"https://a.example/in?x=1", "https://a.example:443/in?x=1"},
		"https://a.example:443/in":     {"https://a.example/in"},
		"http://a.example:80/in":       {"http://a.example/in"},
		"https://a.example/in":         {"https://a.example:8443/in"},
		"https://[2001:db8::1]:443/in": {"https://[2001:db8::1]/in"},
	} {
		r := twilioRequest(t, signed, formMedia, "A=1")
		for _, u := range seen {
			r.URL, _ = url.Parse(u)
			if _, err := scheme.Verify(r, given("A=1")); err != nil {
				t.Errorf("signed %s, seen %s: %v", signed, u, err)
			}
		}
	}
	for signed, seen := range map[string]string{
		"https://a.example/in": "http://a.example/in", "https://a.example:8443/in": "https://a.example:9443/in",
		"https://a.example/in?a=1&b=2": "https://a.example/in?b=2&a=1",
	} {
		r := twilioRequest(t, signed, formMedia, "A=1")
		r.URL, _ = url.Parse(seen)
		if _, err := scheme.Verify(r, given("A=1")); CodeOf(err) != SignatureMismatch {
			t.Errorf("signed %s, seen %s: %v", signed, seen, err)
		}
	}
}

func TestTwilioFormsAreSigned(t *testing.T) {
	t.Parallel()
	scheme := NewTwilio(hmacSecret)
	const body = "B=2&A=x&A=w&A=x&C="
	r := twilioRequest(t, "https://a.example/in", formMedia, body)
	for sent, want := range map[string]Code{
		body: "", "C=&A=w&A=x&B=2": "", // the order of a form and its repetitions are not signed
		"B=2&A=x&C=": SignatureMismatch, "B=2&A=x&A=w&A=y&C=": SignatureMismatch, "B=2;A=x": EventMalformed, "B=%zz": EventMalformed,
	} {
		if _, err := scheme.Verify(r, given(sent)); CodeOf(err) != want {
			t.Errorf("%s: got %v, want %q", sent, err, want)
		}
	}
}

func TestTwilioBodiesThatAreNoFormsAreBoundByTheirHash(t *testing.T) {
	t.Parallel()
	scheme := NewTwilio(hmacSecret)
	const media = "application/json"
	r := twilioRequest(t, "https://a.example/in?x=1", media, `{"a":1}`)
	if !strings.Contains(r.URL.RawQuery, "bodySHA256=") {
		t.Fatal("the signer bound no body")
	}
	id, err := scheme.Verify(r, given(`{"a":1}`))
	if err != nil || !id.Covers("@body") || id.Signed == nil {
		t.Errorf("got %+v, %v", id, err)
	}
	if _, err := scheme.Verify(r, given(`{"a":2}`)); CodeOf(err) != BodyHashMismatch {
		t.Errorf("another body: got %v", err)
	}
	get := twilioRequest(t, "https://a.example/in", media, "")
	if _, err := scheme.Verify(get, given("")); err != nil {
		t.Errorf("no body: %v", err)
	}
	if _, err := scheme.Verify(get, given(`{"a":1}`)); CodeOf(err) != BodyHashMismatch {
		t.Errorf("a body that nothing binds: got %v", err)
	}
	r.URL.RawQuery += "&bodySHA256=00"
	if _, err := scheme.Verify(r, given(`{"a":1}`)); CodeOf(err) != AmbiguousField {
		t.Errorf("two hashes: got %v", err)
	}
}
