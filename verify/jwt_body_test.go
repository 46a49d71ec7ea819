package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

const tokenBody = "{\n  \"webhook_type\": \"ITEM\"\n}"

// plaid is the scheme of a vendor whose token is in a field of its own and has the body's digest.
func plaid() *JWT {
	return &JWT{Keys: newIssuer().keys(), Algorithms: []string{"ES256"}, Field: "Plaid-Verification",
		BodyClaim: "request_body_sha256"}
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func plaidRequest(tokens ...string) *http.Request {
	r := bearer("")
	r.Header["Plaid-Verification"] = tokens
	return r
}

func TestATokenWithTheDigestOfTheBodySignsIt(t *testing.T) {
	t.Parallel()
	i := newIssuer()
	made := func(changes map[string]any) string {
		claims := map[string]any{"iat": tokenNow, "request_body_sha256": hexSum(tokenBody)}
		return i.sign(t, "ES256", "e", map[string]any{"typ": "JWT"}, with(claims, changes))
	}
	hash := func(value any) []string { return []string{made(map[string]any{"request_body_sha256": value})} }
	good := made(nil)
	long := sha512.Sum512([]byte(tokenBody))
	for name, c := range map[string]struct {
		tokens []string
		body   string
		code   Code
	}{
		"good":                 {[]string{good}, tokenBody, ""},
		"digits in upper case": {hash(strings.ToUpper(hexSum(tokenBody))), tokenBody, ""},
		"no body":              {hash(hexSum("")), "", ""},
		"another body":         {[]string{good}, tokenBody + "\n", BodyHashMismatch},
		"the body is gone":     {[]string{good}, "", BodyHashMismatch},
		"no claim":             {hash(nil), tokenBody, BodyHashMismatch},
		"no claim and no body": {hash(nil), "", BodyHashMismatch},
		"an empty claim":       {hash(""), "", BodyHashMismatch},
		"half of it":           {hash(hexSum(tokenBody)[:32]), tokenBody, BodyHashMismatch},
		"too long":             {hash(hexSum(tokenBody) + "00"), tokenBody, BodyHashMismatch},
		"SHA-512":              {hash(hex.EncodeToString(long[:])), tokenBody, BodyHashMismatch},
		"not hexadecimal":      {hash(strings.Repeat("zz", 32)), tokenBody, BodyHashMismatch},
		"with spaces":          {hash(" " + hexSum(tokenBody)), tokenBody, BodyHashMismatch},
		"in a list":            {hash([]string{hexSum(tokenBody)}), tokenBody, BodyHashMismatch},
		"a number":             {hash(17), tokenBody, BodyHashMismatch},
		"no time":              {[]string{made(map[string]any{"iat": nil})}, tokenBody, TokenMalformed},
		"a time as text":       {[]string{made(map[string]any{"iat": "1700000000"})}, tokenBody, TokenMalformed},
		"two fields":           {[]string{good, good}, tokenBody, AmbiguousField},
		"two in a field":       {[]string{good + ", " + good}, tokenBody, TokenMalformed},
		"with Bearer":          {[]string{"Bearer " + good}, tokenBody, TokenMalformed},
		"none":                 {nil, tokenBody, TokenMissing},
		"an empty field":       {[]string{""}, tokenBody, TokenMissing},
		"alg none": {[]string{unsigned(t, `{"alg":"none","kid":"e"}`, goodClaims())}, tokenBody,
			AlgorithmNotAllowed},
		"a shared key": {[]string{confused(t)}, tokenBody, AlgorithmNotAllowed},
		"another key": {[]string{i.sign(t, "ES256", "r", nil, map[string]any{"iat": tokenNow})}, tokenBody,
			SignatureMismatch},
		"an unknown key": {[]string{i.sign(t, "ES256", "x", nil, map[string]any{"iat": tokenNow})}, tokenBody,
			KeyUnknown},
	} {
		id, err := plaid().Verify(plaidRequest(c.tokens...), func() ([]byte, error) { return []byte(c.body), nil })
		if CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		bound := id.Signed != nil && !id.Malleable && id.Covers("@body") && id.SignedAt.Equal(time.Unix(tokenNow, 0))
		if err == nil && !bound {
			t.Errorf("%s: proves %+v", name, id)
		}
	}
	// A bearer token has the same claim, and a token in Authorization does not stand for the field.
	inBearer := plaid()
	inBearer.Field = ""
	read := func() ([]byte, error) { return []byte(tokenBody), nil }
	if _, err := inBearer.Verify(bearer(good), read); err != nil {
		t.Errorf("a bearer token: %v", err)
	}
	if _, err := plaid().Verify(bearer(good), read); CodeOf(err) != TokenMissing {
		t.Errorf("in the wrong field: %v", err)
	}
}

// confused returns a token of HS256 whose secret is the public key.
func confused(t *testing.T) string {
	t.Helper()
	key, err := newIssuer().ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	claims := maps.Clone(goodClaims())
	claims["request_body_sha256"] = hexSum(tokenBody)
	text := strings.TrimSuffix(unsigned(t, `{"alg":"HS256","kid":"e"}`, claims), ".")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + encode(string(mac.Sum(nil)))
}

// A client can remove the token, so its claims must not name the event of a request with both.
func TestAnyHasNoClaimsThatOneSchemeReads(t *testing.T) {
	t.Parallel()
	token := newIssuer().sign(t, "ES256", "e", nil, map[string]any{"iat": tokenNow, "jti": "evt-17",
		"request_body_sha256": hexSum(tokenBody)})
	r := plaidRequest(token)
	r.Header.Set("X-Key", "0123456789abcdef")
	key, otherField := HeaderValue("X-Key", "0123456789abcdef"), plaid()
	otherField.Field = "X-Token"
	for name, c := range map[string]struct {
		scheme Any
		claims bool
	}{
		"the token first": {Any{plaid(), key}, false}, "the token second": {Any{key, plaid()}, false},
		"two fields": {Any{otherField, plaid()}, false}, "two issuers": {Any{plaid(), plaid()}, true},
	} {
		id, err := c.scheme.Verify(r, func() ([]byte, error) { return []byte(tokenBody), nil })
		if err != nil || (id.Claims != nil) != c.claims {
			t.Errorf("%s: %v, claims %s", name, err, id.Claims)
		}
	}
}

func TestABodyIsReadAfterTheTokenIsVerified(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"a.b.c", confused(t),
		newIssuer().sign(t, "ES256", "r", nil, map[string]any{"iat": tokenNow, "request_body_sha256": hexSum("")})} {
		read := false
		_, err := plaid().Verify(plaidRequest(token), func() ([]byte, error) { read = true; return nil, nil })
		if err == nil || read {
			t.Errorf("%v, and the body was read: %v", err, read)
		}
	}
}

func TestSchemesOfTokensWithADigestCheckTheirDescription(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*JWT){
		"not a field name": func(j *JWT) { j.Field = "Plaid Verification" },
		"is in no field":   func(j *JWT) { j.Body, j.Field = true, "" },
		"no digest of it":  func(j *JWT) { j.Body, j.BodyClaim = true, "" },
		"restricts tokens": func(j *JWT) { j.BodyClaim = "" },
	} {
		s := plaid()
		if change(s); s.Check() == nil || !strings.Contains(s.Check().Error(), want) {
			t.Errorf("%s: %v", want, s.Check())
		}
	}
}
