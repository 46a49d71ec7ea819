package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// Bounds of a token, in bytes.
const (
	maxBearer    = 16 << 10
	maxBodyToken = 1 << 20
)

// JWT verifies a signed token (RFC 7519, JWS compact form): the bearer token of the
// Authorization field, the value of another field, or the whole body. It accepts only the listed
// algorithms, never "none" or one with a shared key.
//
// Refusals: token_missing, token_malformed, ambiguous_field, algorithm_not_allowed, key_unknown,
// keys_unavailable, signature_mismatch, issuer_mismatch, audience_mismatch, subject_mismatch,
// body_hash_mismatch.
// [Tolerance.Check] checks the times of the token, which are in the identity.
type JWT struct {
	Keys TokenKeySet // of the issuer; required
	// Algorithms are the accepted ones, named as in RFC 7518 and RFC 8037: RS256, PS256, ES256,
	// EdDSA, ... Required.
	Algorithms []string `conf:"alg,nonempty"`
	// Body means that the body is the token. The signature then binds it, and "iat" is its signed
	// time. A bearer token is used for many requests, so its "iat" is not the time of any of them.
	Body bool `conf:"in_body"`
	// Field is the field with the token and nothing else, such as "Plaid-Verification". Defaults to
	// Authorization, with "Bearer" before the token.
	Field string `conf:"header"`
	// BodyClaim is the claim with the SHA-256 of the body in hexadecimal, such as
	// "request_body_sha256". The signature then binds the body, "iat" is its signed time, and "exp"
	// may be missing.
	BodyClaim   string `conf:"body_claim"`
	HeaderTimes bool   // "iat" and "exp" are in the JOSE header, as Yandex Pay writes them
	NoExpiry    bool   `conf:"no_expiry"` // accepts tokens without "exp" (security event tokens, RFC 8417 section 2.2)
	// Issuers are the accepted values of "iss". Defaults to any, which is safe only if Keys
	// belong to one issuer whose tokens have no "iss".
	Issuers []string `conf:"issuers,nonempty"`
	// Audiences are the accepted values of "aud". Defaults to any; Claims must then restrict
	// the audience, unless BodyClaim does: one who captures such a token has only its body.
	Audiences []string `conf:"audience,nonempty"`
	// Claims are rules for further claims; a token that breaks one is refused with
	// subject_mismatch.
	Claims []ClaimRule
}

// ClaimRule requires one of some values of a claim. Only "aud" and "roles" may be lists, which
// must contain one of them; a list is not a value of any other claim (RFC 7519 section 4.1).
type ClaimRule struct {
	// Names of the claim; the first that is present counts. Entra writes one claim as "appid"
	// or "azp".
	Names  []string
	Values []string // the accepted ones; booleans are "true" and "false"
}

// Check reports all errors of the description.
func (j *JWT) Check() error {
	var errs errorList
	errs.addIf(j.Keys == nil, "jwt: no keys")
	errs.addIf(len(j.Algorithms) == 0, "jwt: no algorithms")
	for _, alg := range j.Algorithms {
		if _, ok := publicAlgorithm(alg); !ok {
			err := fmt.Errorf("jwt: algorithm %q is not a signature with a public key (RFC 7518 section 3.1)", alg)
			errs = append(errs, err)
		}
	}
	if j.Field != "" && !IsToken(j.Field) {
		errs = append(errs, fmt.Errorf("jwt: %q is not a field name", j.Field))
	}
	errs.addIf(j.Body && (j.Field != "" || j.BodyClaim != ""),
		"jwt: a token that is the body is in no field, and has no digest of it")
	errs.addIf(len(j.Audiences) == 0 && len(j.Claims) == 0 && j.BodyClaim == "",
		"jwt: neither an audience nor a claim restricts tokens to us")
	empty := slices.Contains(j.Audiences, "") || slices.Contains(j.Issuers, "")
	errs.addIf(empty, "jwt: an audience or issuer is empty")
	for _, rule := range j.Claims {
		if len(rule.Names) == 0 || len(rule.Values) == 0 || slices.Contains(rule.Values, "") {
			errs = append(errs, fmt.Errorf("jwt: the values of claim %q are missing or empty", rule.Names))
		}
	}
	return errors.Join(errs...)
}

// publicAlgorithm returns an algorithm with a public key. "none" and HMAC are not among them.
func publicAlgorithm(name string) (jwa.SignatureAlgorithm, bool) {
	i := slices.IndexFunc(publicAlgorithms, func(alg jwa.SignatureAlgorithm) bool { return alg.String() == name })
	if i < 0 {
		return jwa.SignatureAlgorithm{}, false
	}
	return publicAlgorithms[i], true
}

var publicAlgorithms = []jwa.SignatureAlgorithm{
	jwa.RS256(), jwa.RS384(), jwa.RS512(), jwa.PS256(), jwa.PS384(), jwa.PS512(),
	jwa.ES256(), jwa.ES384(), jwa.ES512(), jwa.EdDSA(),
}

// Verify implements [Scheme].
func (j *JWT) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	return j.verify("", r, body)
}

// verify verifies a token by the algorithm as, which only an [Alternative] has, or by the one that
// its header names.
func (j *JWT) verify(as string, r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := j.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	compact, err := j.find(r, body)
	if err != nil {
		return Identity{}, err
	}
	token, err := parseToken(compact)
	if err != nil {
		return Identity{}, &Error{Code: TokenMalformed, Err: err}
	}
	if err := j.checkSignature(r.Context(), as, token); err != nil {
		return Identity{}, err
	}
	if refusal := j.checkClaims(token); refusal != nil {
		refusal.KeyID = shortID(token.kid)
		return Identity{}, refusal
	}
	id, err := j.identity(token)
	if err == nil && j.BodyClaim != "" {
		err = j.checkBody(token, body)
	}
	if err != nil {
		return Identity{}, err
	}
	return id, nil
}

// ErrNoBodyHash is the cause of a body_hash_mismatch where the signature has no digest of the body.
var ErrNoBodyHash = Public("no SHA-256 of the body in hexadecimal")

// checkBody compares the body with the claim that has its digest.
func (j *JWT) checkBody(t *parsedToken, body func() ([]byte, error)) error {
	text, _ := t.claims.Text(j.BodyClaim)
	refusal := &Error{Code: BodyHashMismatch, KeyID: shortID(t.kid), Component: j.BodyClaim}
	want, err := hex.DecodeString(text)
	if err != nil || len(want) != sha256.Size {
		refusal.Err = ErrNoBodyHash
		return refusal
	}
	b, err := body()
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); subtle.ConstantTimeCompare(sum[:], want) == 0 {
		return refusal
	}
	return nil
}

func (j *JWT) find(r *http.Request, body func() ([]byte, error)) ([]byte, error) {
	if j.Body {
		b, err := body()
		if err != nil {
			return nil, err
		}
		if b = bytes.Trim(b, " \t\r\n"); bytes.IndexByte(b, '.') < 0 || strings.IndexByte("{[", b[0]) >= 0 {
			return nil, &Error{Code: TokenMissing, Component: "@body"} // JSON, or anything but a token
		}
		if len(b) > maxBodyToken {
			return nil, &Error{Code: TokenMalformed}
		}
		return b, nil
	}
	name := cmp.Or(strings.ToLower(j.Field), "authorization")
	token, err := authorization(r, "Bearer")
	if j.Field != "" {
		token, _, err = field(r, http.CanonicalHeaderKey(j.Field))
	}
	if err != nil {
		return nil, &Error{Code: AmbiguousField, Component: name}
	}
	if token == "" {
		return nil, &Error{Code: TokenMissing, Component: name}
	}
	if len(token) > maxBearer {
		return nil, &Error{Code: TokenMalformed, Component: name}
	}
	return []byte(token), nil
}

type parsedToken struct {
	signed         []byte // header and payload as received
	signature      []byte
	alg, kid       string
	header, claims strictjson.Object
	payload        []byte
}

var errToken = errors.New("not a token in compact form (RFC 7515 section 7.1)")

// parseToken parses a compact token. The base64 is strict, so a token can be written in only
// one way.
func parseToken(compact []byte) (*parsedToken, error) {
	parts := bytes.SplitN(compact, []byte("."), 4)
	if len(parts) != 3 {
		return nil, errToken
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		decoded[i], err = base64.RawURLEncoding.Strict().AppendDecode(nil, part)
		if err != nil || bytes.ContainsAny(part, "\r\n") {
			return nil, errToken
		}
	}
	t := &parsedToken{signed: compact[:len(parts[0])+1+len(parts[1])], payload: decoded[1], signature: decoded[2]}
	var err error
	if t.header, err = strictjson.ParseObject(decoded[0]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if t.claims, err = strictjson.ParseObject(decoded[1]); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	if _, critical := t.header["crit"]; critical {
		return nil, errors.New("header: critical extensions are not supported (RFC 7515 section 4.1.11)")
	}
	if _, unencoded := t.header["b64"]; unencoded {
		return nil, errors.New("header: unencoded payloads are not supported (RFC 7797)")
	}
	t.kid, _ = t.header.Text("kid")
	var named bool
	if t.alg, named = t.header.Text("alg"); !named {
		return nil, errors.New("header: no algorithm")
	}
	return t, nil
}

func (j *JWT) checkSignature(ctx context.Context, as string, t *parsedToken) error {
	name := cmp.Or(as, t.alg)
	alg, ok := publicAlgorithm(name)
	if !ok || as == "" && !slices.Contains(j.Algorithms, name) {
		return &Error{Code: AlgorithmNotAllowed, KeyID: shortID(t.kid)}
	}
	keys, err := j.Keys.PublicKeys(ctx, t.kid)
	if err != nil {
		return err
	}
	verifier, err := jws.VerifierFor(alg)
	if err != nil {
		return &Error{Code: AlgorithmNotAllowed, KeyID: shortID(t.kid), Err: err}
	}
	tried := 0
	for _, key := range keys {
		if as == "" && key.Alg != "" && key.Alg != name || !fitsJOSE(name, key.Public) {
			continue
		}
		if tried++; tried > maxSignatures {
			break
		}
		// parseToken has read the header; the library only verifies the octets.
		if verifier.Verify(key.Public, t.signed, t.signature) == nil {
			return nil
		}
	}
	return &Error{Code: SignatureMismatch, KeyID: shortID(t.kid)}
}

// joseCurves are the curves of the ECDSA algorithms (RFC 7518 section 3.4).
var joseCurves = map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}

func fitsJOSE(alg string, public crypto.PublicKey) bool {
	if ec, ok := public.(*ecdsa.PublicKey); ok {
		return ec != nil && ec.Curve != nil && joseCurves[alg] == ec.Curve
	}
	if _, err := algsOf(public); err != nil {
		return false
	}
	_, ed := public.(ed25519.PublicKey)
	return ed == (alg == "EdDSA") && joseCurves[alg] == nil
}

func (j *JWT) checkClaims(t *parsedToken) *Error {
	if !intersects(j.Issuers, claimValues(t.claims, "iss")) {
		return &Error{Code: IssuerMismatch, Component: "iss"}
	}
	if !intersects(j.Audiences, claimValues(t.claims, "aud")) {
		return &Error{Code: AudienceMismatch, Component: "aud"}
	}
	for _, rule := range j.Claims {
		var got []string
		for _, name := range rule.Names {
			if got = claimValues(t.claims, name); len(got) > 0 {
				break
			}
		}
		if !intersects(rule.Values, got) {
			return &Error{Code: SubjectMismatch, Component: strings.Join(rule.Names, "/")}
		}
	}
	return nil
}

// intersects reports whether got has a wanted value; an empty list accepts all.
func intersects(wanted, got []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(got, func(v string) bool { return slices.Contains(wanted, v) })
}

// identity checks the times and returns what the token binds.
func (j *JWT) identity(t *parsedToken) (Identity, error) {
	times := t.claims
	if j.HeaderTimes {
		times = t.header
	}
	expires, err1 := numericDate(times, "exp")
	issued, err2 := numericDate(times, "iat")
	notBefore, err3 := numericDate(times, "nbf")
	err := errors.Join(err1, err2, err3)
	if err == nil && expires.IsZero() && !j.NoExpiry && j.BodyClaim == "" {
		err = errors.New("no exp: the token would never expire")
	}
	if err == nil && j.bindsBody() && issued.IsZero() {
		err = errors.New("no iat: the time of signing is unknown")
	}
	if err != nil {
		return Identity{}, &Error{Code: TokenMalformed, KeyID: shortID(t.kid), Err: err}
	}
	if issued.After(notBefore) {
		notBefore = issued
	}
	if !expires.IsZero() { // a token is refused "on or after" exp (RFC 7519 section 4.1.4)
		expires = expires.Add(-time.Nanosecond)
	}
	id := Identity{KeyID: shortID(t.kid), NotBefore: notBefore, Expires: expires, Claims: t.payload}
	if j.bindsBody() {
		sum := sha256.Sum256(t.signed)
		id.SignedAt, id.Signed, id.Covered = issued, sum[:], []string{"@body"}
		id.Malleable = j.Body // white space around the token is not signed
	}
	return id, nil
}

func (j *JWT) bindsBody() bool { return j.Body || j.BodyClaim != "" }

// claimValues returns the value of a claim that is a string or boolean, or the values of a
// claim that may be a list of strings.
func claimValues(claims strictjson.Object, name string) []string {
	if one, ok := claims.Text(name); ok {
		return []string{one}
	}
	if raw := string(claims[name]); raw == "true" || raw == "false" {
		return []string{raw}
	}
	if name != "aud" && name != "roles" {
		return nil
	}
	var list []string
	if json.Unmarshal(claims[name], &list) != nil {
		return nil
	}
	return list
}

// numericDate returns a time in seconds since 1970 (RFC 7519 section 2), zero if absent.
func numericDate(o strictjson.Object, name string) (time.Time, error) {
	raw, ok := o[name]
	if !ok {
		return time.Time{}, nil
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || raw[0] == 'n' || seconds < 1 || seconds > 1<<40 {
		return time.Time{}, fmt.Errorf("%s is not a time", name)
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), nil
}

// shortID bounds an unverified key id, for errors and logs.
func shortID(id string) string { return id[:min(len(id), 64)] }

// Binds implements [Binder]. A token that is not the body and has no digest of it does not bind it.
func (j *JWT) Binds() Binding {
	if !j.bindsBody() {
		return Binding{}
	}
	b := Binding{Content: true, Time: true, Malleable: j.Body, Covered: []string{"@body"}}
	if j.Body {
		b.Form = signedToken
	}
	return b
}

// signedToken returns what is signed of a body that is a token, and any other body as it is.
func signedToken(body []byte) []byte {
	if t, err := parseToken(bytes.Trim(body, " \t\r\n")); err == nil {
		return t.signed
	}
	return body
}
