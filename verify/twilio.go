package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// bodyHashParam is the query parameter in which Twilio puts the SHA-256 of a body that is no form.
const bodyHashParam = "bodySHA256"

// Twilio verifies X-Twilio-Signature: base64 of an HMAC-SHA1 over the URL as it was configured and, for forms,
// every name and value in the order of the names. The URL is tried with and without its port, because proxies
// change it. A body that is no form is bound by bodySHA256 in the signed URL; another body than that, or one that
// nothing binds, is body_hash_mismatch.
//
// Names and values are joined without a separator: "ab=c" and "a=bc" have one signature. That is the vendor's
// design, and no receiver can tell them apart.
type Twilio struct{ hmac *HMAC } // a pointer: fmt prints what is in a private field without asking Secret

// NewTwilio returns the scheme with the given auth tokens, of which any may match.
func NewTwilio(tokens ...string) *Twilio {
	return &Twilio{hmac: &HMAC{
		Headers: []string{"X-Twilio-Signature"}, Hash: SHA1, Encoding: Base64, Secrets: Secrets(tokens...),
		Contents: twilioContents, pieces: twilioPieces, Covers: []string{"@target-uri", "@authority", "@path", "@query", "@body"},
	}}
}

// Check reports every mistake of the description.
func (t *Twilio) Check() error { return t.hmac.Check() }

// SignsURL reports that the URL is signed.
func (t *Twilio) SignsURL() bool { return t.hmac.SignsURL() }

// Verify implements [Scheme].
func (t *Twilio) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	id, err := t.hmac.Verify(r, body)
	if err != nil {
		return Identity{}, err
	}
	b, err := body()
	if err != nil {
		return Identity{}, err
	}
	want, err := queryValue(r, bodyHashParam)
	switch {
	case err != nil:
		return Identity{}, err
	case want != "":
		sum := sha256.Sum256(b)
		if !strings.EqualFold(want, hex.EncodeToString(sum[:])) {
			return Identity{}, &Error{Code: BodyHashMismatch, Component: bodyHashParam}
		}
	case len(b) > 0 && !isForm(r):
		return Identity{}, &Error{Code: BodyHashMismatch, Component: bodyHashParam}
	}
	return id, nil
}

// Sign signs r and body as Twilio would. A body that is no form gets its bodySHA256 in the URL.
func (t *Twilio) Sign(r *http.Request, body []byte, now time.Time) error {
	if len(body) > 0 && !isForm(r) {
		sum := sha256.Sum256(body)
		q := r.URL.Query()
		q.Set(bodyHashParam, hex.EncodeToString(sum[:]))
		r.URL.RawQuery = q.Encode()
	}
	return t.hmac.Sign(r, body, now)
}

// String says what is demanded, for the policy.
func (t *Twilio) String() string {
	return "HMAC-SHA1 (base64) of the URL and the sorted form in X-Twilio-Signature, other bodies by bodySHA256 in the URL"
}

func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded"
}

// twilioContents returns what may have been signed: each spelling of the URL with the form behind it.
func twilioContents(r *http.Request, body []byte) ([][]byte, error) {
	pieces, err := twilioPieces(r, body)
	var out [][]byte
	for _, p := range pieces {
		out = append(out, p.join())
	}
	return out, err
}

// twilioPieces is twilioContents without a copy of the form for each spelling.
func twilioPieces(r *http.Request, body []byte) ([]segments, error) {
	hash, err := queryValue(r, bodyHashParam)
	if err != nil {
		return nil, err
	}
	var form []byte
	if hash == "" && isForm(r) {
		var ok bool
		if form, ok = sortedForm(body); !ok {
			return nil, &Error{Code: EventMalformed, Component: "@body"}
		}
	}
	var out []segments
	for _, u := range portVariants(r.URL) {
		out = append(out, segments{[]byte(u), form})
	}
	return out, nil
}

// portVariants spells the URL as it is, and without its port or with the default one.
func portVariants(u *url.URL) []string {
	other := *u
	switch {
	case u.Port() != "":
		other.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	case u.Scheme == "http":
		other.Host = net.JoinHostPort(u.Hostname(), "80")
	default:
		other.Host = net.JoinHostPort(u.Hostname(), "443")
	}
	return []string{u.String(), other.String()}
}
