package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jws"
)

// issuer signs tokens.
type issuer struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

var newIssuer = sync.OnceValue(func() *issuer {
	var i issuer
	var errs [3]error
	shared, err := rsaKey()
	i.rsa, errs[0] = shared.(*rsa.PrivateKey), err
	i.ec, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, i.ed, errs[2] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return &i
})

func (i *issuer) keys() TokenKeySet {
	return staticTokenKeys{
		{ID: "r", Alg: "RS256", Public: &i.rsa.PublicKey}, {ID: "any", Public: &i.rsa.PublicKey},
		{ID: "e", Alg: "ES256", Public: &i.ec.PublicKey}, {ID: "d", Public: i.ed.Public()},
	}
}

func (i *issuer) sign(t *testing.T, alg, kid string, header, claims map[string]any) string {
	t.Helper()
	var key crypto.Signer = i.rsa
	switch alg {
	case "ES256":
		key = i.ec
	case "EdDSA":
		key = i.ed
	}
	return signWith(t, key, alg, kid, header, claims)
}

func signWith(t *testing.T, key crypto.Signer, alg, kid string, header, claims map[string]any) string {
	t.Helper()
	headers := jws.NewHeaders()
	for name, value := range header {
		if err := headers.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if kid != "" {
		if err := headers.Set("kid", kid); err != nil {
			t.Fatal(err)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	method, ok := publicAlgorithm(alg)
	if !ok {
		t.Fatalf("algorithm %s", alg)
	}
	token, err := jws.Sign(payload, jws.WithKey(method, key, jws.WithProtectedHeaders(headers)))
	if err != nil {
		t.Fatal(err)
	}
	return string(token)
}

// with returns a copy of the claims with changes; nil removes a claim.
func with(claims map[string]any, changes map[string]any) map[string]any {
	changed := maps.Clone(claims)
	for name, value := range changes {
		if changed[name] = value; value == nil {
			delete(changed, name)
		}
	}
	return changed
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example.com/x", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func noBody() ([]byte, error) { return nil, errors.New("the body was not expected to be read") }

const tokenNow = 1_700_000_000

func goodClaims() map[string]any {
	return map[string]any{
		"iss": "https://issuer.example", "aud": "us", "email": "a@b.example", "email_verified": true, "roles": "sender",
		"iat": tokenNow - 10, "exp": tokenNow + 3600,
	}
}

func bearerScheme() *JWT {
	return &JWT{
		Keys: newIssuer().keys(), Algorithms: []string{"RS256", "ES256", "EdDSA"},
		Issuers: []string{"https://issuer.example"}, Audiences: []string{"us", "also us"},
		Claims: []ClaimRule{
			{Names: []string{"azp", "email"}, Values: []string{"a@b.example"}},
			{Names: []string{"email_verified"}, Values: []string{"true"}},
			{Names: []string{"roles"}, Values: []string{"sender"}},
		},
	}
}

// The recorded deliveries of Google, Azure and others have other tokens.
func TestBearerTokens(t *testing.T) {
	t.Parallel()
	i, good := newIssuer(), goodClaims()
	sign := func(changes map[string]any) string { return i.sign(t, "RS256", "r", nil, with(good, changes)) }
	cases := []struct {
		name, token string
		code        Code
	}{
		{"RSA", sign(nil), ""},
		{"ECDSA", i.sign(t, "ES256", "e", nil, good), ""},
		{"Ed25519", i.sign(t, "EdDSA", "d", nil, good), ""},
		{"issuer in a list", sign(map[string]any{"iss": []string{"https://other.example", "https://issuer.example"}}),
			IssuerMismatch},
		{"email in a list", sign(map[string]any{"email": []string{"a@b.example"}}), SubjectMismatch},
		{"azp in a list", sign(map[string]any{"azp": []string{"a@b.example", "x"}, "email": nil}), SubjectMismatch},
		{"email_verified as text", sign(map[string]any{"email_verified": "true"}), ""},
		{"not base64", sign(nil) + "!", TokenMalformed},
		{"padded", sign(nil) + "=", TokenMalformed},
		{"over 16 KiB", sign(map[string]any{"x": strings.Repeat("x", 20_000)}), TokenMalformed},
		{"an algorithm that is not the key's", i.sign(t, "ES256", "r", nil, good), SignatureMismatch},
		{"the first name counts", sign(map[string]any{"azp": "x"}), SubjectMismatch},
		{"expiry out of range", sign(map[string]any{"exp": 1e300}), TokenMalformed},
		{"alg None", unsigned(t, `{"alg":"None","kid":"r"}`, good), AlgorithmNotAllowed},
		{"alg twice", unsigned(t, `{"alg":"RS256","alg":"none"}`, good), TokenMalformed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id, err := bearerScheme().Verify(bearer(c.token), noBody)
			if CodeOf(err) != c.code || (err == nil) != (c.code == "") {
				t.Fatalf("got %v, want %q", err, c.code)
			}
			if err != nil && len(c.token) > 20 && strings.Contains(err.Error(), c.token[len(c.token)-20:]) {
				t.Error("the error shows the token")
			}
			if err == nil && (id.Signed != nil || !id.SignedAt.IsZero() || len(id.Covered) != 0) {
				t.Errorf("a bearer token binds nothing: %+v", id)
			}
		})
	}
}

func encode(parts ...string) string {
	for i, p := range parts {
		parts[i] = base64.RawURLEncoding.EncodeToString([]byte(p))
	}
	return strings.Join(parts, ".")
}

func unsigned(t *testing.T, header string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return encode(header, string(payload)) + "."
}

// TestKeysAreUsedWithTheirOwnAlgorithmOnly configures two algorithms that fit one key.
func TestKeysAreUsedWithTheirOwnAlgorithmOnly(t *testing.T) {
	t.Parallel()
	scheme := bearerScheme()
	scheme.Algorithms = []string{"RS256", "PS256"}
	for kid, code := range map[string]Code{"r": SignatureMismatch, "any": ""} {
		token := newIssuer().sign(t, "PS256", kid, nil, goodClaims())
		if _, err := scheme.Verify(bearer(token), noBody); CodeOf(err) != code {
			t.Errorf("key %s with PS256: %v, want %q", kid, err, code)
		}
	}
}

// Each ECDSA algorithm has its curve (RFC 7518 section 3.4).
func TestECDSAAlgorithmsAreTiedToTheirCurves(t *testing.T) {
	t.Parallel()
	curves := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}
	for name, curve := range curves {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for alg := range curves {
			s := bearerScheme()
			s.Algorithms = []string{alg}
			s.Keys = staticTokenKeys{{ID: "k", Public: &key.PublicKey}}
			_, err := s.Verify(bearer(signWith(t, key, alg, "k", nil, goodClaims())), noBody)
			if want := alg == name; (err == nil) != want || !want && CodeOf(err) != SignatureMismatch {
				t.Errorf("%s with the curve of %s: got %v", alg, name, err)
			}
		}
	}
}

func TestAuthorizationFieldHoldsOneBearerToken(t *testing.T) {
	t.Parallel()
	token := newIssuer().sign(t, "RS256", "r", nil, goodClaims())
	for value, code := range map[string]Code{
		"bearer " + token: "", "BEARER  " + token: "", "Basic " + token: TokenMissing, token: TokenMissing,
		"Bearer": TokenMissing, "Bearer ": TokenMissing,
	} {
		r := bearer("")
		r.Header.Set("Authorization", value)
		if _, err := bearerScheme().Verify(r, noBody); CodeOf(err) != code {
			t.Errorf("%.12s...: %v, want %q", value, err, code)
		}
	}
	r := bearer(token)
	r.Header.Add("Authorization", "Bearer "+token)
	if _, err := bearerScheme().Verify(r, noBody); CodeOf(err) != AmbiguousField {
		t.Errorf("two fields: %v", err)
	}
}

// The recorded tokens have whole seconds.
func TestAFractionOfASecondEndsAToken(t *testing.T) {
	t.Parallel()
	token := newIssuer().sign(t, "RS256", "r", nil, with(goodClaims(), map[string]any{"exp": tokenNow - 0.5}))
	id, err := bearerScheme().Verify(bearer(token), noBody)
	if early := (Tolerance{}).Check(id, time.Unix(tokenNow-1, 0)); err != nil || early != nil {
		t.Errorf("half a second before its end: %v, %v", err, early)
	}
	if late := (Tolerance{}).Check(id, time.Unix(tokenNow, 0)); CodeOf(late) != TokenExpired {
		t.Errorf("half a second after its end: %v", late)
	}
}

// TestChangedTokensAreRefused flips every bit of a token.
func TestChangedTokensAreRefused(t *testing.T) {
	t.Parallel()
	token := newIssuer().sign(t, "ES256", "e", nil, goodClaims())
	for at := range token {
		for bit := range 7 {
			changed := []byte(token)
			if changed[at] ^= 1 << bit; changed[at] < ' ' || changed[at] == 0x7f {
				continue
			}
			if _, err := bearerScheme().Verify(bearer(string(changed)), noBody); err == nil {
				t.Fatalf("character %d may be changed from %q to %q", at, token[at], changed[at])
			}
		}
	}
}

func TestUnavailableKeysAreTransient(t *testing.T) {
	t.Parallel()
	scheme := bearerScheme()
	scheme.Keys = downKeys{}
	token := newIssuer().sign(t, "RS256", "r", nil, goodClaims())
	if _, err := scheme.Verify(bearer(token), noBody); CodeOf(err) != KeysUnavailable {
		t.Errorf("got %v", err)
	}
}

type downKeys struct{}

func (downKeys) PublicKeys(context.Context, string) ([]JSONWebKey, error) {
	return nil, &Error{Code: KeysUnavailable}
}

func TestTokenSchemesCheckTheirDescription(t *testing.T) {
	t.Parallel()
	keys := newIssuer().keys()
	for name, c := range map[string]struct {
		scheme JWT
		want   string
	}{
		"no keys":        {JWT{Algorithms: []string{"RS256"}, Audiences: []string{"us"}}, "no keys"},
		"no algorithms":  {JWT{Keys: keys, Audiences: []string{"us"}}, "no algorithms"},
		"none":           {JWT{Keys: keys, Algorithms: []string{"none"}, Audiences: []string{"us"}}, `"none"`},
		"HMAC":           {JWT{Keys: keys, Algorithms: []string{"HS256"}, Audiences: []string{"us"}}, `"HS256"`},
		"for anyone":     {JWT{Keys: keys, Algorithms: []string{"RS256"}}, "restricts tokens to us"},
		"empty audience": {JWT{Keys: keys, Algorithms: []string{"RS256"}, Audiences: []string{""}}, "empty"},
		"empty claim": {JWT{Keys: keys, Algorithms: []string{"RS256"},
			Claims: []ClaimRule{{Names: []string{"email"}, Values: []string{""}}}}, "email"},
		"claim, no value": {JWT{Keys: keys, Algorithms: []string{"RS256"},
			Claims: []ClaimRule{{Names: []string{"email"}}}}, "email"},
	} {
		if err := c.scheme.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.scheme.Verify(bearer("a.b.c"), noBody); CodeOf(err) != KeysUnavailable {
			t.Errorf("%s: verifies with %v", name, err)
		}
	}
}

func TestParseTokenKeysSkipsOtherKeys(t *testing.T) {
	t.Parallel()
	const ec = `{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256","use":"sig",` +
		`"x":"R33s_my8ozz-sJJp9oz3NnH52S876UTW-gV_mDdHFgE","y":"sxetUKOaRCB95RT9oOAj48PBZRpTC0vUDvgsk9w4Tzk"}`
	set, err := ParseTokenKeys([]byte(`{"keys":[` + ec +
		`,{"kty":"oct","kid":"b","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQ"},{"kty":"new","kid":"c"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := set.PublicKeys(t.Context(), "")
	if err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Errorf("keys %+v, %v", all, err)
	}
	for _, text := range []string{``, `{}`, `{"keys":[]}`, `[]`, `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`} {
		if _, err := ParseTokenKeys([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// FuzzToken checks that no bearer token panics or verifies without the key.
func FuzzToken(f *testing.F) {
	for _, s := range []string{
		"", ".", "..", "a.b.c", encode(`{"alg":"RS256"}`, `{}`, "x"),
		encode(`{"alg":"ES256","kid":"e"}`, `{"aud":["us"]}`, strings.Repeat("x", 64)),
		encode(`{"alg":1}`, `{}`) + ".", encode(`[]`, `{}`) + ".",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		r := bearer("")
		r.Header["Authorization"] = []string{"Bearer " + token}
		if _, err := bearerScheme().Verify(r, noBody); err == nil || CodeOf(err) == "" {
			t.Fatalf("%q: %v", token, err)
		}
	})
}
