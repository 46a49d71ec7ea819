package preset

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// swt receives from senders of Secure Webhook Tokens, a draft: a bearer token of type SWT that
// names the event and the digest of the body. A secret is for HS256, the algorithm of the draft's
// examples; with jwks_url in the settings the token must be signed with RS256 or ES256 (algs).
// issuer is the required "iss".
//
// The claim jti identifies the event, and webhook.event is its type. Whether an attempt after the
// first has the jti of the first is not specified. The body may have any form.
//
// Sources, read in November 2026: draft-knauer-secure-webhook-token-02 of May 2026, as the pages
// of its author describe it. It may change. Of its digests, SHA-3 is not supported.
//
// https://securewebhooktoken.github.io/docs/swt/specification/
var swt = Preset{
	Name: "swt", Docs: "https://securewebhooktoken.github.io/docs/swt/specification/",
	Auth: "token with the digest of the body", ID: "jti", Wants: "2xx; the sender's matter",
	Uses:  []string{"secret", "issuers", "jwks_url", "alg"},
	needs: map[string]any{"issuers": []string{"https://shop.example"}},
	like: producer.Producer{
		Key: producer.JWT("jti"), KeyRequired: true, Type: producer.JWT("webhook.event"),
		Fingerprint: producer.FingerprintNone, Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		p.EmptyBody = true
		scheme := &swtScheme{Issuers: s.Issuers, Secrets: verify.Secrets(s.Secrets...)}
		if len(s.Secrets) == 0 || s.JWKSURL != "" || s.TokenKeys != nil {
			keys, err := tokenKeys(s, "")
			if err != nil {
				p.Err = errors.New("set secrets, or jwks_url: the issuer publishes its keys there")
				return
			}
			scheme.jwt = &verify.JWT{
				Keys: keys, Algorithms: s.Algs, Issuers: s.Issuers,
				Claims: []verify.ClaimRule{{Names: []string{"iss"}, Values: s.Issuers}},
			}
			if len(s.Algs) == 0 {
				scheme.jwt.Algorithms = []string{"RS256", "ES256"}
			}
		}
		signedBy(p, scheme)
	},
}

// swtScheme verifies a token and the digest of the body in it.
type swtScheme struct {
	Issuers []string
	Secrets []verify.Secret // for HS256
	jwt     *verify.JWT     // in place of secrets
}

// Check reports all errors of the description.
func (s *swtScheme) Check() error {
	var errs []error
	if len(s.Issuers) == 0 || slices.Contains(s.Issuers, "") {
		errs = append(errs, errors.New("no issuer is set"))
	}
	if s.jwt != nil {
		if len(s.Secrets) > 0 {
			errs = append(errs, errors.New("set secrets or jwks_url, not both"))
		}
		return errors.Join(append(errs, s.jwt.Check())...)
	}
	for _, secret := range s.Secrets {
		if _, err := secret.Decode(verify.Raw); err != nil {
			errs = append(errs, errors.New("a secret is empty or has white space around it"))
		}
	}
	return errors.Join(errs...)
}

// Verify implements [verify.Scheme].
func (s *swtScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := s.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	return s.verify(s.jwt, r, body)
}

// verify verifies a request by an inner scheme for the token if there is one, else by the secrets.
func (s *swtScheme) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (
	verify.Identity, error,
) {
	signed, mac, head, err := swtToken(r)
	if err != nil {
		return verify.Identity{}, err
	}
	id, err := s.authentic(inner, r, body, signed, mac, head)
	if err != nil {
		return verify.Identity{}, err
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	if err := checkSWT(&id, raw); err != nil {
		return verify.Identity{}, err
	}
	sum := sha256.Sum256([]byte(signed))
	id.Signed, id.Covered = sum[:], []string{"@body"}
	return id, nil
}

var errSWT = verify.Public("not a token of type SWT")

// swtToken returns the signed text of the token, its signature and its header.
func swtToken(r *http.Request) (signed string, signature []byte, head strictjson.Object, err error) {
	text, err := producer.Header("Authorization").Extract(&producer.Delivery{Request: r})
	if err != nil {
		return "", nil, nil, err
	}
	kind, token, _ := strings.Cut(text, " ")
	if !strings.EqualFold(kind, "Bearer") || verify.TrimOWS(token) == "" {
		return "", nil, nil, &verify.Error{Code: verify.TokenMissing, Component: "authorization"}
	}
	refused := &verify.Error{Code: verify.TokenMalformed, Component: "authorization", Err: errSWT}
	parts := strings.Split(verify.TrimOWS(token), ".")
	if len(parts) != 3 || len(token) > 16<<10 {
		return "", nil, nil, refused
	}
	enc := base64.RawURLEncoding.Strict()
	first, err1 := enc.DecodeString(parts[0])
	signature, err2 := enc.DecodeString(parts[2])
	head, err3 := strictjson.ParseObject(first)
	if kind, _ := head.Text("typ"); errors.Join(err1, err2, err3) != nil || kind != "SWT" {
		return "", nil, nil, refused
	}
	return parts[0] + "." + parts[1], signature, head, nil
}

// authentic returns the identity with the claims of an authentic token.
func (s *swtScheme) authentic(inner verify.Scheme, r *http.Request, body func() ([]byte, error), signed string,
	mac []byte, head strictjson.Object,
) (verify.Identity, error) {
	if s.jwt != nil {
		return inner.Verify(r, body)
	}
	if alg, _ := head.Text("alg"); alg != "HS256" || head["crit"] != nil {
		return verify.Identity{}, &verify.Error{Code: verify.AlgorithmNotAllowed}
	}
	position := 0
	for i, secret := range s.Secrets {
		sum := hmac.New(sha256.New, []byte(secret))
		sum.Write([]byte(signed))
		if hmac.Equal(sum.Sum(nil), mac) {
			position = i + 1
		}
	}
	if position == 0 {
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch}
	}
	_, payload, _ := strings.Cut(signed, ".")
	claims, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.TokenMalformed, Err: errSWT}
	}
	issuer, err := producer.JWT("iss").Extract(&producer.Delivery{Identity: verify.Identity{Claims: claims}})
	if err != nil || !slices.Contains(s.Issuers, issuer) {
		return verify.Identity{}, &verify.Error{Code: verify.IssuerMismatch, Component: "iss"}
	}
	return verify.Identity{Claims: claims, Secret: position}, nil
}

// checkSWT checks the required claims and the digest of the body, and sets the times.
func checkSWT(id *verify.Identity, body []byte) error {
	claim := func(name string) string {
		text, err := producer.JWT(name).Extract(&producer.Delivery{Identity: *id})
		if err != nil {
			return ""
		}
		return text
	}
	var times [3]time.Time
	for i, name := range []string{"iat", "nbf", "exp"} {
		n, err := strconv.ParseUint(claim(name), 10, 40)
		if err != nil {
			return &verify.Error{Code: verify.TokenMalformed, Component: name, Err: errSWT}
		}
		times[i] = time.Unix(int64(n), 0) //nolint:gosec // 40 bits
	}
	id.SignedAt, id.Expires = times[0], times[2].Add(-time.Nanosecond)
	if times[1].After(times[0]) {
		id.NotBefore = times[1]
	}
	if claim("webhook.event") == "" || claim("jti") == "" {
		return &verify.Error{Code: verify.TokenMalformed, Component: "webhook", Err: errSWT}
	}
	digest := claim("webhook.hash")
	if len(body) == 0 && digest == "" || bodyHas(digest, body) {
		return nil
	}
	refusal := &verify.Error{Code: verify.BodyHashMismatch, Component: "webhook.hash"}
	if digest == "" {
		refusal.Err = verify.ErrNoBodyHash
	}
	return refusal
}

// bodyHas reports whether the body has a digest of the form "sha-256:" and hexadecimal.
func bodyHas(digest string, body []byte) bool {
	kind, text, _ := strings.Cut(digest, ":")
	want, err := hex.DecodeString(text)
	var sum []byte
	switch kind {
	case "sha-256":
		s := sha256.Sum256(body)
		sum = s[:]
	case "sha-384":
		s := sha512.Sum384(body)
		sum = s[:]
	case "sha-512":
		s := sha512.Sum512(body)
		sum = s[:]
	}
	return err == nil && len(body) > 0 && sum != nil && hmac.Equal(sum, want)
}

// Sign sets a token of HS256, valid for an hour, for the members "type" and "id" of the body.
func (s *swtScheme) Sign(r *http.Request, body []byte, now time.Time) error {
	if len(s.Secrets) == 0 || len(s.Issuers) == 0 {
		return errors.New("only the issuer can sign tokens with its private key")
	}
	of := func(name string) string { return strictjson.String(valueAt(body, name)) }
	sum := sha256.Sum256(body)
	claims, err := json.Marshal(map[string]any{
		"webhook": map[string]string{"event": of("type"), "hash": "sha-256:" + hex.EncodeToString(sum[:])},
		"iss":     s.Issuers[0], "jti": of("id"), "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Unix() + 3600,
	})
	if err != nil {
		return err
	}
	enc := base64.RawURLEncoding.EncodeToString
	signed := enc([]byte(`{"alg":"HS256","typ":"SWT"}`)) + "." + enc(claims)
	mac := hmac.New(sha256.New, []byte(s.Secrets[0]))
	mac.Write([]byte(signed))
	r.Header.Set("Authorization", "Bearer "+signed+"."+enc(mac.Sum(nil)))
	return nil
}

// Binds implements [verify.Binder].
func (s *swtScheme) Binds() verify.Binding {
	return verify.Binding{Content: true, Time: true, Covered: []string{"@body"}}
}

// String describes the scheme for the policy.
func (s *swtScheme) String() string {
	return "a Secure Webhook Token (draft-knauer-secure-webhook-token-02) with the digest of the body"
}
