package preset

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

func twilioRequest(t *testing.T, address, media, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	if err := newTwilioScheme(testSecret).Sign(r, []byte(body), time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTwilioTriesTheURLWithAndWithoutItsPort(t *testing.T) {
	t.Parallel()
	scheme := newTwilioScheme("old token", testSecret)
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
			if _, err := scheme.Verify(r, body("A=1")); err != nil {
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
		if _, err := scheme.Verify(r, body("A=1")); verify.CodeOf(err) != verify.SignatureMismatch {
			t.Errorf("signed %s, seen %s: %v", signed, seen, err)
		}
	}
}

func TestTwilioFormsAreSigned(t *testing.T) {
	t.Parallel()
	scheme := newTwilioScheme(testSecret)
	const form = "B=2&A=x&A=w&A=x&C="
	r := twilioRequest(t, "https://a.example/in", formMedia, form)
	for sent, want := range map[string]verify.Code{
		form: "", "C=&A=w&A=x&B=2": "", // the order of a form and its repetitions are not signed
		"B=2&A=x&C=": verify.SignatureMismatch, "B=2&A=x&A=w&A=y&C=": verify.SignatureMismatch,
		"B=2;A=x": verify.EventMalformed, "B=%zz": verify.EventMalformed,
	} {
		if _, err := scheme.Verify(r, body(sent)); verify.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %q", sent, err, want)
		}
	}
}

func TestTwilioOtherBodiesAreBoundByTheirHash(t *testing.T) {
	t.Parallel()
	scheme := newTwilioScheme(testSecret)
	const media = "application/json"
	r := twilioRequest(t, "https://a.example/in?x=1", media, `{"a":1}`)
	if !strings.Contains(r.URL.RawQuery, "bodySHA256=") {
		t.Fatal("the signer did not bind the body")
	}
	id, err := scheme.Verify(r, body(`{"a":1}`))
	if err != nil || !id.Covers("@body") || id.Signed == nil {
		t.Errorf("got %+v, %v", id, err)
	}
	if _, err := scheme.Verify(r, body(`{"a":2}`)); verify.CodeOf(err) != verify.BodyHashMismatch {
		t.Errorf("another body: got %v", err)
	}
	get := twilioRequest(t, "https://a.example/in", media, "")
	if _, err := scheme.Verify(get, body("")); err != nil {
		t.Errorf("no body: %v", err)
	}
	if _, err := scheme.Verify(get, body(`{"a":1}`)); verify.CodeOf(err) != verify.BodyHashMismatch {
		t.Errorf("a body that nothing binds: got %v", err)
	}
	r.URL.RawQuery += "&bodySHA256=00"
	if _, err := scheme.Verify(r, body(`{"a":1}`)); verify.CodeOf(err) != verify.AmbiguousField {
		t.Errorf("two hashes: got %v", err)
	}
}

// referenceForm is sortedForm with the standard library.
func referenceForm(body string) (string, bool) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		sorted := slices.Sorted(slices.Values(values[name]))
		for _, v := range slices.Compact(sorted) {
			b.WriteString(name + v)
		}
	}
	return b.String(), true
}

func TestTwilioFormsMatchAReferenceSort(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2010, 0))
	parts := []string{"a", "b", "Body", "&", "&", "=", "=", "+", "%20", "%41", "%e2%82%ac", "aaaaaaaab", "aaaaaaaac",
		"\x00", "%00", "é", "&a=1", "&a=1", "&a=2"}
	for range 50_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		if random.IntN(20) == 0 {
			b.WriteString([]string{";", "%", "%4", "%zz"}[random.IntN(4)])
		}
		got, ok := sortedForm([]byte(b.String()))
		if want, wantOK := referenceForm(b.String()); ok != wantOK || string(got) != want {
			t.Fatalf("%q: %q, %t, want %q, %t", b.String(), got, ok, want, wantOK)
		}
	}
	for n, want := range map[int]bool{maxFormParams: true, maxFormParams + 1: false} {
		if _, ok := sortedForm([]byte(strings.Repeat("a=1&", n))); ok != want {
			t.Errorf("%d parameters: %t", n, ok)
		}
	}
}
