package verify

import (
	"crypto/ed25519"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSignaturesAreValidForALimitedTime: with MaxAge, expires is after created and not too far. A
// signature without it ends too.
func TestSignaturesAreValidForALimitedTime(t *testing.T) {
	t.Parallel()
	const created = 1776520800
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewPublicKey("k", "", public)
	if err != nil {
		t.Fatal(err)
	}
	keys := StaticKeys(key)
	limited, open := &RFC9421{Keys: keys, MaxAge: 5 * time.Minute}, &RFC9421{Keys: keys}
	for params, c := range map[string]struct {
		limited, open Code
		lasts         time.Duration // with the limit, after created
	}{
		";expires=1776521100": {"", "", 5 * time.Minute},
		";expires=1776520801": {"", "", time.Second},
		";expires=1776521101": {TokenExpired, "", 0},
		";expires=1776520800": {TokenExpired, "", 0},
		";expires=1776520799": {TokenExpired, TokenExpired, 0},
		"":                    {"", "", 5 * time.Minute},
	} {
		for scheme, code := range map[*RFC9421]Code{limited: c.limited, open: c.open} {
			id, err := scheme.Verify(signedByHand(private, "k", "", "", "", params), orderOf)
			if CodeOf(err) != code {
				t.Errorf("%q, at most %v: %v", params, scheme.MaxAge, err)
			}
			if err != nil || scheme == open {
				continue
			}
			end, wide := time.Unix(created, 0).Add(c.lasts), Tolerance{Past: time.Hour}
			if err := wide.Check(id, end); err != nil {
				t.Errorf("%q: %v at its end", params, err)
			}
			if err := wide.Check(id, end.Add(time.Second)); err == nil {
				t.Errorf("%q is valid after %v", params, c.lasts)
			} else if stale := CodeOf(err) == TimestampTooOld; stale != (params == "") {
				t.Errorf("%q: %v", params, err)
			}
		}
	}
}

// TestParametersMayBeRequired: before a key is looked up.
func TestParametersMayBeRequired(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{`;alg="ed25519"`, ";expires=1776521100", `;nonce="n"`}
	scheme := &RFC9421{Keys: StaticKeys(), Params: []string{"alg", "expires", "nonce"}}
	verify := func(params ...string) error {
		_, err := scheme.Verify(signedByHand(private, "k", "", "", "", params...), orderOf)
		return err
	}
	wantCode(t, verify(all...), KeyUnknown)
	wantCode(t, verify(all[0], all[1], `;nonce=""`), InsufficientCoverage)
	for i := range all {
		err := verify(slices.Delete(slices.Clone(all), i, i+1)...)
		wantCode(t, err, InsufficientCoverage)
		if !strings.Contains(err.Error(), scheme.Params[i]) {
			t.Errorf("%v does not name %s", err, scheme.Params[i])
		}
	}
	if got := scheme.AcceptSignature(); !strings.HasSuffix(got, ";created;expires") {
		t.Errorf("asks for %s", got)
	}
	wrong := &RFC9421{Keys: StaticKeys(), Params: []string{"created"}, MaxAge: -1}
	err = wrong.Check()
	for _, want := range []string{"negative", `"created"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestPathsInNormalForm: cases of github.com/adcontextprotocol/adcp, canonicalization.json. Only
// where it is configured, another form of a path has the same signature.
func TestPathsInNormalForm(t *testing.T) {
	t.Parallel()
	for sent, signed := range map[string]string{
		"/path%2fhere": "/path%2Fhere", "/a%3Ab%3Fc": "/a%3Ab%3Fc", "/%7Efoo": "/~foo", "/%41%42C": "/ABC",
		"/a//b": "/a//b", "/%2e%2E/a": "/../a", "/%e2%98%83": "/%E2%98%83", "/%25%34%31": "/%2541", "/": "/",
	} {
		s := newScene(t)
		u, err := url.Parse("https://hooks.example" + signed + "?a=%7e")
		if err != nil {
			t.Fatal(err)
		}
		s.r.URL = u
		s.pair.sign(t, s.r, s.body)
		for _, at := range []string{sent, signed} {
			for _, normal := range []bool{false, true} {
				s.scheme = &RFC9421{Keys: s.scheme.Keys, NormalPath: normal}
				if s.r.URL, err = url.Parse("https://hooks.example" + at + "?a=%7e"); err != nil {
					t.Fatal(err)
				}
				s.r.RequestURI = s.r.URL.RequestURI()
				if _, err := s.verify(); (err == nil) != (normal || at == signed) {
					t.Errorf("%s, signed as %s, normal %v: %v", at, signed, normal, err)
				}
			}
		}
	}
}
