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

// The recorded deliveries have other bodies, hashes and URLs.
func TestTwilioRefusesBodiesOfTwoReadings(t *testing.T) {
	t.Parallel()
	scheme := newTwilioScheme(testSecret)
	form := twilioRequest(t, "https://a.example/in", formMedia, "B=2&A=x")
	other := twilioRequest(t, "https://a.example/in?x=1", "application/json", `{"a":1}`)
	if id, err := scheme.Verify(other, body(`{"a":1}`)); err != nil || !id.Covers("@body") || id.Signed == nil {
		t.Errorf("got %+v, %v", id, err)
	}
	twice := other.Clone(t.Context())
	twice.URL.RawQuery += "&bodySHA256=00"
	for _, c := range []struct {
		r    *http.Request
		body string
		want verify.Code
	}{
		{form, "B=2;A=x", verify.EventMalformed}, {form, "B=%zz", verify.EventMalformed},
		{twice, `{"a":1}`, verify.AmbiguousField},
	} {
		if _, err := scheme.Verify(c.r, body(c.body)); verify.CodeOf(err) != c.want {
			t.Errorf("%s at %s: got %v, want %q", c.body, c.r.URL, err, c.want)
		}
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
