package preset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Twilio receives webhooks of Twilio. A secret is the account's auth token. Twilio signs the URL, so the
// receiver must know its public one; [verify.Twilio] says what else is signed.
//
// The identifier I-Twilio-Idempotency-Token is not signed: events are named by a digest of the signed content (URL and
// parameters). Requests of a running call may be equal in it; up to 256 of them with different tokens are accepted, within
// 24 hours of the first. Everything else that comes again under another token is quarantined. The body of the answer matters here: it may be TwiML, so use
// an Answer handler, whose response duplicates get again. Twilio waits 15 seconds and tries once more unless the
// URL's fragment says otherwise.
//
// https://www.twilio.com/docs/usage/webhooks/webhooks-security
func Twilio(tokens ...string) producer.Producer {
	p := webhook("twilio", "https://www.twilio.com/docs/usage/webhooks/webhooks-security")
	_, err := plainSecrets(tokens)
	p = signedBy(p, newTwilioScheme(tokens...))
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.Header("I-Twilio-Idempotency-Token")
	p.Repeatable = ofRunningCall
	p.Type = producer.First(
		producer.Form("EventType"), producer.Form("MessageStatus"), producer.Form("SmsStatus"), producer.Form("CallStatus"), producer.Form("RecordingStatus"),
		producer.Form("TranscriptionStatus"), producer.Form("ConferenceStatus"), producer.Form("StatusCallbackEvent"), producer.JSON("type"),
	)
	p.Methods = []string{http.MethodPost, http.MethodGet}
	p.SignsURL, p.QueryScope, p.ScopeIgnores = true, true, []string{"bodySHA256"}
	p.Window = 25 * time.Hour
	return p
}

// ofRunningCall lets requests of a running call occur again: the same key pressed at the same menu is another request.
// Messages and status callbacks do not: they have an identifier of their own, a number or a time in what is signed.
func ofRunningCall(d *producer.Delivery) producer.Repeats {
	value := func(name string) string {
		v, err := producer.First(producer.Form(name), producer.Query(name)).Extract(d)
		if err != nil {
			return "ambiguous"
		}
		return v
	}
	for _, name := range []string{"SequenceNumber", "Timestamp", "EventType", "MessageStatus", "SmsStatus"} {
		if value(name) != "" {
			return producer.Repeats{}
		}
	}
	if value("CallSid") == "" || value("CallStatus") == "completed" {
		return producer.Repeats{}
	}
	return producer.Repeats{Max: 256, Within: 24 * time.Hour}
}

// bodyHashParam is the query parameter in which Twilio puts the SHA-256 of a body that is no form.
const bodyHashParam = "bodySHA256"

// twilioScheme verifies X-Twilio-Signature: base64 of an HMAC-SHA1 over the URL as it was configured and, for forms,
// every name and value in the order of the names. The URL is tried with and without its port, because proxies
// change it. A body that is no form is bound by bodySHA256 in the signed URL; another body than that, or one that
// nothing binds, is body_hash_mismatch.
//
// Names and values are joined without a separator: "ab=c" and "a=bc" have one signature. That is the vendor's
// design, and no receiver can tell them apart.
type twilioScheme struct{ hmac *verify.HMAC } // a pointer: fmt prints what is in a private field without asking Secret

// newTwilioScheme returns the scheme with the given auth tokens, of which any may match.
func newTwilioScheme(tokens ...string) *twilioScheme {
	return &twilioScheme{hmac: &verify.HMAC{
		Headers: []string{"X-Twilio-Signature"}, Hash: verify.SHA1, Encoding: verify.Base64, Secrets: verify.Secrets(tokens...),
		Contents: twilioContents, Covers: []string{"@target-uri", "@authority", "@path", "@query", "@body"},
	}}
}

// Check reports every mistake of the description.
func (t *twilioScheme) Check() error { return t.hmac.Check() }

// SignsURL reports that the URL is signed.
func (t *twilioScheme) SignsURL() bool { return t.hmac.SignsURL() }

// Binds implements [verify.Binder].
func (t *twilioScheme) Binds() verify.Binding { return t.hmac.Binds() }

// Verify implements [verify.Scheme].
func (t *twilioScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	id, err := t.hmac.Verify(r, body)
	if err != nil {
		return verify.Identity{}, err
	}
	b, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	want, err := verify.QueryParam(r, bodyHashParam)
	switch {
	case err != nil:
		return verify.Identity{}, err
	case want != "":
		sum := sha256.Sum256(b)
		if !strings.EqualFold(want, hex.EncodeToString(sum[:])) {
			return verify.Identity{}, &verify.Error{Code: verify.BodyHashMismatch, Component: bodyHashParam}
		}
	case len(b) > 0 && !isForm(r):
		return verify.Identity{}, &verify.Error{Code: verify.BodyHashMismatch, Component: bodyHashParam}
	}
	return id, nil
}

// Sign signs r and body as Twilio would. A body that is no form gets its bodySHA256 in the URL.
func (t *twilioScheme) Sign(r *http.Request, body []byte, now time.Time) error {
	if len(body) > 0 && !isForm(r) {
		sum := sha256.Sum256(body)
		q := r.URL.Query()
		q.Set(bodyHashParam, hex.EncodeToString(sum[:]))
		r.URL.RawQuery = q.Encode()
	}
	return t.hmac.Sign(r, body, now)
}

// String says what is demanded, for the policy.
func (t *twilioScheme) String() string {
	return "HMAC-SHA1 (base64) of the URL and the sorted form in X-Twilio-Signature, other bodies by bodySHA256 in the URL"
}

func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded"
}

// twilioContents returns what may have been signed: each spelling of the URL with the form behind it.
func twilioContents(r *http.Request, body []byte) ([][][]byte, error) {
	hash, err := verify.QueryParam(r, bodyHashParam)
	if err != nil {
		return nil, err
	}
	var form []byte
	if hash == "" && isForm(r) {
		var ok bool
		if form, ok = sortedForm(body); !ok {
			return nil, &verify.Error{Code: verify.EventMalformed, Component: "@body"}
		}
	}
	var out [][][]byte
	for _, u := range portVariants(r.URL) {
		out = append(out, [][]byte{[]byte(u), form})
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

// maxFormParams bounds the parameters of a form that is read before it is verified.
const maxFormParams = 500

// formParam is a parameter of a form, decoded.
type formParam struct {
	prefix      uint64 // of the name: the first bytes, in their order
	name, value []byte
}

func compareParams(a, b formParam) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return cmp.Or(bytes.Compare(a.name, b.name), bytes.Compare(a.value, b.value))
}

// sortedForm joins names and values in the order of the names; a name with several values stands before each
// different one, in their order (as the vendor's Node.js library does; its Go library takes the first only). It reports
// false for a body that is not a form, or one of more than 500 parameters.
func sortedForm(body []byte) ([]byte, bool) {
	params := make([]formParam, 0, min(maxFormParams, bytes.Count(body, []byte("&"))+1))
	decoded := make([]byte, 0, len(body)) // which no parameter outgrows, so that parameters stay where they are
	for rest, more := body, true; more; {
		var pair []byte
		if pair, rest, more = bytes.Cut(rest, []byte("&")); len(pair) == 0 {
			continue
		}
		if len(params) == maxFormParams {
			return nil, false
		}
		name, value, _ := bytes.Cut(pair, []byte("="))
		var p formParam
		var ok1, ok2 bool
		decoded, p.name, ok1 = appendUnescaped(decoded, name)
		decoded, p.value, ok2 = appendUnescaped(decoded, value)
		if !ok1 || !ok2 {
			return nil, false
		}
		var first [8]byte
		copy(first[:], p.name)
		p.prefix = binary.BigEndian.Uint64(first[:])
		params = append(params, p)
	}
	slices.SortFunc(params, compareParams)
	out := make([]byte, 0, len(decoded))
	for i := range params {
		if p := &params[i]; i == 0 || compareParams(params[i-1], *p) != 0 {
			out = append(append(out, p.name...), p.value...)
		}
	}
	return out, true
}

// appendUnescaped appends a name or value of a form, decoded as [url.QueryUnescape] does, and also returns it alone. It
// reports false for a semicolon, which url.ParseQuery refuses, and for what is no escape.
func appendUnescaped(b, text []byte) (all, one []byte, ok bool) {
	start := len(b)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ';':
			return b, nil, false
		case '+':
			b = append(b, ' ')
		case '%':
			if i+2 >= len(text) {
				return b, nil, false
			}
			high, low := hexDigit(text[i+1]), hexDigit(text[i+2])
			if high < 0 || low < 0 {
				return b, nil, false
			}
			b = append(b, byte(high<<4|low))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return b, b[start:len(b):len(b)], true
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
