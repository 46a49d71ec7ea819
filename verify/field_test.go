package verify

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// notOWS are characters that Go's Unicode tables call white space or control characters, but
// HTTP does not trim.
func notOWS() []string {
	out := []string{"\x00", "\x01", "\b", "\n", "\v", "\f", "\r", "\x1b", "\x1f", "\x7f", "\x80", "\xa0", "\xff", "é"}
	for _, r := range []rune{0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x200b, 0xfeff} {
		out = append(out, string(r))
	}
	for r := rune(0x2000); r <= 0x200a; r++ {
		out = append(out, string(r))
	}
	return out
}

func TestOnlySpaceAndTabAreOptionalWhiteSpace(t *testing.T) {
	t.Parallel()
	for _, c := range []string{" ", "\t", " \t ", "\t\t  "} {
		if got := TrimOWS(c + "a b" + c); got != "a b" {
			t.Errorf("%q around the value: %q", c, got)
		}
	}
	for _, c := range notOWS() {
		if value := c + "a" + c; TrimOWS(value) != value {
			t.Errorf("%q was trimmed", c)
		}
	}
}

// Other white space around a covered value is part of the value. No signature base can hold it,
// so the request is refused, and no two readers see different values.
func TestUnicodeWhiteSpaceAroundCoveredFieldsIsRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	p.signer.Components = []string{"@method", "@target-uri",
		"content-digest", "content-type", "idempotency-key", "x-id"}
	scheme := &RFC9421{Keys: StaticKeys(p.key), Coverage: Coverage{Consumed: []string{"x-id"}}}
	deliver := func(spell func(string) string) error {
		r := newDelivery(t, testBody)
		r.Header.Set("X-Id", "e1")
		p.sign(t, r, testBody)
		r.Header.Set("X-Id", spell("e1"))
		_, err := scheme.Verify(r, bodyOf(testBody))
		return err
	}
	for _, c := range []string{" ", "\t", " \t"} {
		if err := deliver(func(v string) string { return c + v + c }); err != nil {
			t.Errorf("%q around the value: %v", c, err)
		}
	}
	for _, c := range notOWS() {
		wantCode(t, deliver(func(v string) string { return v + c }), SignatureMalformed)
		wantCode(t, deliver(func(v string) string { return c + v }), SignatureMalformed)
		wantCode(t, deliver(func(v string) string { return " " + c + v + c + "\t" }), SignatureMalformed)
	}
}

// A byte sequence (;bs) can hold every octet, so white space around the value is signed, not
// refused.
func TestByteSequencesKeepOtherWhiteSpace(t *testing.T) {
	t.Parallel()
	p := newPair(t, "k", Ed25519)
	p.signer.Components = []string{"@method", "@target-uri",
		"content-digest", "content-type", "idempotency-key", "x-id;bs"}
	scheme := &RFC9421{Keys: StaticKeys(p.key), Coverage: Coverage{Consumed: []string{"x-id"}}}
	for _, c := range notOWS() {
		r := newDelivery(t, testBody)
		r.Header.Set("X-Id", "e1"+c)
		p.sign(t, r, testBody)
		if _, err := scheme.Verify(r, bodyOf(testBody)); err != nil {
			t.Errorf("%q signed: %v", c, err)
		}
		r.Header.Set("X-Id", "e1")
		_, err := scheme.Verify(r, bodyOf(testBody))
		wantCode(t, err, SignatureMismatch)
	}
}

func TestNormalizedRequestsHaveNoOptionalWhiteSpace(t *testing.T) {
	t.Parallel()
	r := newDelivery(t, "")
	if Normalize(r) != r {
		t.Error("a request without such white space was copied")
	}
	r.Header["X-A"] = []string{" a\t", "b"}
	r.Header["X-B"] = []string{"c\u00a0"}
	got := Normalize(r)
	if fmt.Sprint(got.Header["X-A"]) != "[a b]" || got.Header.Get("X-B") != "c\u00a0" ||
		got.Header.Get("Content-Type") == "" {
		t.Errorf("%q", got.Header)
	}
	if r.Header["X-A"][0] != " a\t" {
		t.Error("the original request was changed")
	}
	if Normalize(got) != got {
		t.Error("a normalized request was copied again")
	}
}

// HMAC signs field values, and white space around a field is not part of its value.
func TestHMACReadsFieldsWithoutOptionalWhiteSpace(t *testing.T) {
	t.Parallel()
	s := &HMAC{
		Headers: []string{"X-Sig"}, IDHeaders: []string{"X-Id"}, TimestampHeaders: []string{"X-Time"}, Encoding: Hex,
		Content: "{id}.{timestamp}.{header:X-Kind}.{body}", Secrets: Secrets("0123456789abcdef"),
	}
	r := newDelivery(t, testBody)
	r.Header = http.Header{"X-Id": {"e1"}, "X-Kind": {"paid"}}
	if err := s.Sign(r, []byte(testBody), testNow); err != nil {
		t.Fatal(err)
	}
	for name := range r.Header {
		other := r.Clone(t.Context())
		other.Header.Set(name, "\t "+r.Header.Get(name)+" ")
		if _, err := s.Verify(other, bodyOf(testBody)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range notOWS() {
			other.Header.Set(name, r.Header.Get(name)+c)
			if _, err := s.Verify(other, bodyOf(testBody)); err == nil && !strings.EqualFold(name, "X-Sig") {
				t.Errorf("%s with %q after it: accepted", name, c)
			}
		}
	}
}
