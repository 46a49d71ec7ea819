package preset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// twilio receives webhooks of Twilio. A secret is the account's auth token. Signed are the URL,
// so the receiver must know its public one, and the names and values of a form. A body that is
// not a form is bound by the SHA-256 in bodySHA256, a parameter of the URL; one that nothing
// binds is refused (body_hash_mismatch). The URL, names and values are joined without a separator:
// "ab=c" and "a=bc" have one signature, as have a query and a form that share their bytes in
// another way. No receiver can distinguish these, so they are one event. Twilio may sign a
// query in another encoding than it sends: the query is verified as it is, then with its names
// and values encoded anew, and with %27 for an apostrophe, as the vendor's Node.js library does.
//
// The identifier I-Twilio-Idempotency-Token is not signed, so a digest of URL and parameters
// identifies the event. Requests of a running call may be equal in both: up to 256 with
// different tokens are accepted within 24 hours of the first. Anything else that repeats under
// another token is quarantined. The body of the response is TwiML, which does nothing by
// default: an Answer handler has its own, which duplicates get again. Twilio waits 15 seconds and
// retries once, unless the URL's fragment configures otherwise. For Event Streams, whose bodies are
// batches, use twilio-event-streams.
//
// https://www.twilio.com/docs/usage/webhooks/webhooks-security
var twilio = Preset{
	Name: "twilio", Docs: "https://www.twilio.com/docs/usage/webhooks/webhooks-security",
	Auth: "HMAC-SHA1 of URL and form", ID: "I-Twilio-Idempotency-Token", Deadline: "15s",
	Wants: "2xx, the body counts; 1 retry", Uses: []string{"secret"},
	like: producer.Producer{
		Fields:  []string{"X-Twilio-*", "I-Twilio-*"},
		Summary: []string{"{form:Body} from {form:From}", "{form:From} to {form:To}"},
	}, build: buildTwilio,
}

var twilioEventStreams = Preset{Name: "twilio-event-streams", build: signedByTwilio}

func signedByTwilio(p *producer.Producer, s Settings) {
	p.Err = checkText(s.Secrets)
	signedBy(p, newTwilioScheme(s.Secrets...))
	p.SignsURL, p.QueryScope, p.ScopeIgnores = true, true, []string{bodyHashParam}
	p.ScopeQuery = twilioScope
}

func buildTwilio(p *producer.Producer, s Settings) {
	signedByTwilio(p, s)
	p.Key = producer.Header("I-Twilio-Idempotency-Token")
	p.Repeatable = repeatsInCall
	var types []producer.Extractor
	for _, name := range []string{
		"EventType", "MessageStatus", "SmsStatus", "CallStatus", "RecordingStatus", "TranscriptionStatus",
		"ConferenceStatus", "StatusCallbackEvent",
	} {
		types = append(types, producer.Form(name))
	}
	p.Type = producer.First(append(types, producer.JSON("type"))...)
	p.Methods = []string{http.MethodPost, http.MethodGet}
	p.Window = day + time.Hour
	p.Accepted = dedup.Response{Header: http.Header{"Content-Type": {"text/xml"}}, Body: []byte("<Response/>")}
}

// repeatsInCall allows equal requests of a running call: the same key may be pressed twice in a
// menu. Messages and status callbacks do not repeat, because an identifier, number or time in
// them is signed.
func repeatsInCall(d *producer.Delivery) producer.Repeats {
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

// bodyHashParam is the query parameter with the SHA-256 of a body that is not a form.
const bodyHashParam = "bodySHA256"

// twilioScheme verifies X-Twilio-Signature: base64 of an HMAC-SHA1 over the URL as configured
// at Twilio and, for forms, the names and values in the order of the names. It tries the URL
// with and without its port, because proxies change it, and the variants of its query. See
// [twilio].
type twilioScheme struct{ *verify.HMAC }

// newTwilioScheme returns the scheme for auth tokens, of which any may match.
func newTwilioScheme(tokens ...string) *twilioScheme {
	return &twilioScheme{&verify.HMAC{
		Headers: []string{"X-Twilio-Signature"}, Hash: verify.SHA1, Encoding: verify.Base64,
		Secrets: verify.Secrets(tokens...), Contents: twilioContents,
		Covers: []string{"@target-uri", "@authority", "@path", "@query", "@body"},
	}}
}

// Verify implements [verify.Scheme].
func (t *twilioScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	return t.verify(t.HMAC, r, body)
}

func (t *twilioScheme) verify(inner verify.Scheme, r *http.Request, body func() ([]byte, error)) (
	verify.Identity, error,
) {
	id, err := inner.Verify(r, body)
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
		return verify.Identity{}, &verify.Error{Code: verify.BodyHashMismatch, Component: bodyHashParam,
			Err: verify.ErrNoBodyHash}
	}
	return id, nil
}

// Sign signs r and body. A body that is not a form gets its bodySHA256 in the URL.
func (t *twilioScheme) Sign(r *http.Request, body []byte, now time.Time) error {
	if len(body) > 0 && !isForm(r) {
		sum := sha256.Sum256(body)
		q := r.URL.Query()
		q.Set(bodyHashParam, hex.EncodeToString(sum[:]))
		r.URL.RawQuery = q.Encode()
	}
	return t.HMAC.Sign(r, body, now)
}

// String describes the scheme for the policy.
func (t *twilioScheme) String() string {
	return "HMAC-SHA1 (base64) of the URL and the sorted form in X-Twilio-Signature, " +
		"other bodies by bodySHA256 in the URL"
}

func isForm(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded"
}

// twilioContents returns what may have been signed: each form of the URL, followed by the
// parameters.
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
	addresses := portVariants(r.URL)
	_, query, _ := strings.Cut(addresses[0], "?")
	var out [][][]byte
	for _, q := range queryVariants(query) {
		for _, u := range addresses {
			before := strings.TrimSuffix(u, query) // ends with the question mark, if there is one
			out = append(out, [][]byte{[]byte(before), q, form})
		}
	}
	return out, nil
}

// portVariants returns the URL as it is, and without its port or with the default one.
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

// maxFormParams limits the parameters of a form, which is parsed before it is verified.
const maxFormParams = 500

// formParam is a parameter of a form, decoded.
type formParam struct{ name, value []byte }

func compareParams(a, b formParam) int {
	return cmp.Or(bytes.Compare(a.name, b.name), bytes.Compare(a.value, b.value))
}

// sortedForm joins names and values in the order of the names. A name with several values precedes
// each distinct one, in their order, as in the vendor's Node.js library (its Go library takes the
// first only). It reports false for a body that is not a form or has more than 500 parameters.
func sortedForm(body []byte) ([]byte, bool) {
	params := make([]formParam, 0, min(maxFormParams, bytes.Count(body, []byte("&"))+1))
	decoded := make([]byte, 0, len(body)) // large enough that parameters are never moved
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

// appendUnescaped appends a name or value, decoded like [url.QueryUnescape], and also returns it
// alone. ok is false for a semicolon, which url.ParseQuery refuses, and for an invalid escape.
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
func hexDigit(c byte) int { return strings.IndexByte("0123456789abcdef0123456789ABCDEF", c) % 16 }
