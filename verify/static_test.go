package verify

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestStaticVerify(t *testing.T) {
	t.Parallel()
	header, query := HeaderValue("X-Api-Key", "old", "tea"), QueryValue("code", "tea")
	basic, bearer := Basic("kettle", "a:b"), BearerToken("tea")
	either := &Static{In: InBearer, Name: "access_token", Secrets: Secrets("tea")}
	for _, c := range []struct {
		name   string
		scheme *Static
		query  string
		fields []string
		want   Code
	}{
		{"header", header, "", []string{"X-Api-Key: tea"}, ""},
		{"old value while it is changed", header, "", []string{"X-Api-Key: old"}, ""},
		{"another value", header, "", []string{"X-Api-Key: Tea"}, CredentialsMismatch},
		{"a beginning of it", header, "", []string{"X-Api-Key: te"}, CredentialsMismatch},
		{"empty", header, "", []string{"X-Api-Key: "}, CredentialsMissing},
		{"none", header, "code=tea", nil, CredentialsMissing},
		{"twice", header, "", []string{"X-Api-Key: tea", "X-Api-Key: tea"}, AmbiguousField},
		{"query", query, "a=1&code=tea", nil, ""},
		{"query, other value", query, "code=x", nil, CredentialsMismatch},
		{"query, none", query, "Code=tea", nil, CredentialsMissing},
		{"query, twice", query, "code=tea&code=x", nil, AmbiguousField},
		{"basic with a colon in the password", basic, "", []string{"Authorization: basic a2V0dGxlOmE6Yg=="}, ""},
		{"basic, other user", basic, "", []string{"Authorization: Basic a2V0dGxlWDphOmI="}, CredentialsMismatch},
		{"basic, no base64", basic, "", []string{"Authorization: Basic %%"}, CredentialsMismatch},
		{"bearer for basic", basic, "", []string{"Authorization: Bearer kettle:a:b"}, CredentialsMissing},
		{"bearer", bearer, "", []string{"Authorization: Bearer tea"}, ""},
		{"bearer, other", bearer, "", []string{"Authorization: Bearer x"}, CredentialsMismatch},
		{"bearer, twice", bearer, "", []string{"Authorization: Bearer tea", "Authorization: Bearer tea"},
			AmbiguousField},
		{"bearer in a query without Name", bearer, "access_token=tea", nil, CredentialsMissing},
		{"bearer in the query", either, "access_token=tea", nil, ""},
		{"bearer in both", either, "access_token=tea", []string{"Authorization: Bearer tea"}, AmbiguousField},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := request(c.fields...)
			r.URL.RawQuery = c.query
			id, err := c.scheme.Verify(r, func() ([]byte, error) {
				t.Error("the body was read")
				return nil, nil
			})
			if CodeOf(err) != c.want || err != nil && c.want == "" {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if id.Signed != nil || len(id.Covered) > 0 {
				t.Errorf("a credential proves no bytes: %+v", id)
			}
		})
	}
}

func TestStaticCheckReportsEveryError(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*Static{
		`"" is not header`:    {Secrets: Secrets("x")},
		"is not a field name": HeaderValue("a b", "x"),
		"has no name":         QueryValue("", "x"),
		"holds no colon":      Basic("a:b", "x"),
		"no secret is set":    BearerToken(),
		"secret 2 of 2 is em": BearerToken("x", ""),
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := s.Verify(request("Authorization: Bearer "), bodyOf("")); CodeOf(err) != KeysUnavailable {
			t.Errorf("an invalid scheme verifies: %v", err)
		}
	}
}

func TestStaticSignsWhatItAccepts(t *testing.T) {
	t.Parallel()
	for _, s := range []*Static{HeaderValue("X-Api-Key", "tea"),
		QueryValue("code", "t e&a"), Basic("kettle", "a:b"), BearerToken("tea")} {
		r := request()
		if err := s.Sign(r, nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(r, bodyOf("")); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

func TestAllRequiresEveryScheme(t *testing.T) {
	t.Parallel()
	both := All{Basic("kettle", "tea"), timedScheme()}
	r := request()
	if err := both.Sign(r, []byte("tea"), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	id, err := both.Verify(r, bodyOf("tea"))
	if err != nil || id.Signed == nil || !id.Covers("@body") || id.SignedAt.IsZero() {
		t.Errorf("got %+v, %v", id, err)
	}
	for name, want := range map[string]Code{"Authorization": CredentialsMissing, "X-Sig": SignatureMissing} {
		less := r.Clone(r.Context())
		less.Header.Del(name)
		if _, err := both.Verify(less, bodyOf("tea")); CodeOf(err) != want {
			t.Errorf("without %s: got %v", name, err)
		}
	}
	if _, err := (All{}).Verify(r, bodyOf("tea")); CodeOf(err) != KeysUnavailable {
		t.Errorf("no scheme at all: got %v", err)
	}
	if err := (All{Basic("a"), &HMAC{}}).Check(); err == nil || !strings.Contains(err.Error(), "no secret") ||
		!strings.Contains(err.Error(), "headers") {
		t.Errorf("got %v", err)
	}
}

func TestAllJoinsTimes(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	a := proof{Identity{NotBefore: at(10), Expires: at(100), ExpiredCode: CertExpired, KeyID: "a", Nonce: "n"}}
	b := proof{Identity{NotBefore: at(20), Expires: at(90), ExpiredCode: TokenExpired,
		Principal: "p", Claims: []byte("{}"), Label: "l"}}
	for _, all := range []All{{a, b}, {b, a}} {
		id, err := all.Verify(nil, nil)
		if err != nil || !id.NotBefore.Equal(at(20)) || !id.Expires.Equal(at(90)) || id.ExpiredCode != TokenExpired ||
			id.KeyID != "a" || id.Principal != "p" || id.Nonce != "n" || id.Label != "l" || id.Claims == nil {
			t.Errorf("got %+v, %v", id, err)
		}
	}
	if err := (All{a}).Sign(nil, nil, at(0)); err == nil {
		t.Error("signs with a scheme that cannot")
	}
}

// proof is a scheme that accepts everything.
type proof struct{ id Identity }

func (p proof) Verify(*http.Request, func() ([]byte, error)) (Identity, error) { return p.id, nil }

func TestAllReturnsErrorsUnchanged(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	if _, err := (All{bodyScheme()}).Verify(request("X-Sig: 00"),
		func() ([]byte, error) { return nil, cut }); !errors.Is(err, cut) {
		t.Errorf("got %v", err)
	}
}

func TestQueryParamAgreesWithNetURL(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3986, 0))
	parts := []string{"key", "k%65y", "%6bey", "ke", "=", "=", "&", "&", "v", "%", "%zz", ";", "+", "%20", "kez"}
	for range 50_000 {
		var b strings.Builder
		for range random.IntN(10) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		r := &http.Request{URL: &url.URL{RawQuery: b.String()}}
		got, err := QueryParam(r, "key")
		switch want := r.URL.Query()["key"]; {
		case len(want) > 1 && CodeOf(err) != AmbiguousField,
			len(want) == 1 && (err != nil || got != want[0]), len(want) == 0 && (err != nil || got != ""):
			t.Fatalf("%q: %q, %v, want %q", b.String(), got, err, want)
		}
	}
}
