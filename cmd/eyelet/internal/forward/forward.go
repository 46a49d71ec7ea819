// Package forward delivers events to other receivers over HTTP. It is the producer's side of
// draft-mayankpanke-event-delivery-semantics-01 for an intermediary (section 9.7).
//
// A [Target] is one URL. [Target.Deliver] makes one attempt and returns one of the draft's three
// outcomes, or [Deferred] for a target that accepts nothing at the moment. The caller retries: it
// keeps the event, waits at least [Result.NotBefore], with backoff and jitter of its own, and
// calls Deliver again.
//
// A [State] keeps what is known about a target beyond one event: its new URL, whether it is
// switched off, when it will end. With a file it survives a restart.
//
// # Caveats
//
// If the target closes the connection before the first byte of a response, net/http may send the
// request once more within one attempt, with the same Idempotency-Key. TLS early data is never
// sent, because crypto/tls has none for clients.
package forward

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Event is what is delivered.
type Event struct {
	// ID identifies the event within this process, to apply a Retry-After to it; it is not sent.
	// Without it only the caller waits.
	ID string
	// Key is the value of the field Idempotency-Key, octet for octet (section 9.7); see [Key].
	// Required: an event without one is Terminal and not sent (section 9.4).
	Key string
	// Header holds the fields of the delivery as received. Forwarded are those that describe the
	// content, and those in Signed and in [Config.Fields].
	// Fields of one connection, credentials and what proxies report about the client are never
	// forwarded.
	Header http.Header
	// Signed names the fields of Header whose values the producer signed as a whole.
	Signed []string
	// Label is the label of the producer's verified signature (RFC 9421) in Header; empty without
	// one. This signature, or another by the same key, is forwarded where nothing that it covers
	// has changed.
	Label string
	// Method and Target are the delivery's request line, which a signature may cover; may be empty.
	Method, Target string
	// Body is the payload.
	Body []byte
	// Tenant is the sender's, in the field Eyelet-Tenant; empty for none.
	Tenant string
	// Fetched marks an event that no delivery brought, in the field Eyelet-Fetched.
	Fetched bool
	// Unverified marks an event whose delivery did not verify, by the field Eyelet-Verified: no. It
	// is sent without [Config.Credentials] and those of the URL, and what the target answers is
	// about this event alone: it neither moves the target nor switches it off.
	Unverified bool
	// Traceparent is the value of this field, for the attempt (W3C Trace Context); may be empty. A
	// signed one of the producer is not replaced.
	Traceparent string
	// Accepted is when this receiver accepted the event. The total retry time begins then.
	Accepted time.Time
}

// Outcome is the result of an attempt.
type Outcome int

// The outcomes: the three of section 6.2 of the draft, and Deferred.
const (
	// Transient means that the same delivery may succeed later, or that its outcome is unknown.
	Transient Outcome = iota
	// Accepted means that the target has the event.
	Accepted
	// Terminal means that the target will never accept the event as it is.
	Terminal
	// Deferred means that nothing was sent: the target is switched off, or its Retry-After has not
	// passed. It does not count as a failed attempt.
	Deferred
)

// String returns transient, accepted, terminal or waits.
func (o Outcome) String() string {
	names := [...]string{"transient", "accepted", "terminal", "waits"}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("outcome %d", int(o))
	}
	return names[o]
}

// Result describes an attempt.
type Result struct {
	Outcome Outcome
	// Status is that of the target's response; 0 without a complete one.
	Status int
	// ContentType and Body are the response's content. Body is empty if it is larger than
	// [MaxResponse] or has a content coding.
	ContentType string
	Body        []byte
	// Reply is the beginning of what the target answered, unless the event was accepted: text
	// without our credentials. It may have control characters, and parts of the payload.
	Reply string
	// NotBefore is the minimum wait before the next attempt, as the target asked (Transient), or
	// before the next call (Deferred). Zero means none.
	NotBefore time.Duration
	// Err is why the event was not accepted. It holds no URL, payload or credential.
	Err error
}

// ErrOff is in the error of a Result when the target is switched off.
var ErrOff = errors.New("the target is switched off")

// MaxResponse bounds the part of a target's response that is kept, in bytes.
const MaxResponse = 1 << 20

// placeholder replaces secrets.
const placeholder = "<secret>"

// RedactURL returns the URL of a target with only its scheme and host: many receivers, such as
// chat webhooks, have their secret in the path or the query. What follows the host, except a bare
// "/", becomes "/<secret>", and credentials "<secret>@". A text that is not a URL of http or https
// is "<secret>" as a whole. Every message that names a target uses it.
func RedactURL(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return placeholder
	}
	user, rest := "", u.EscapedPath()
	if u.User != nil {
		user = placeholder + "@"
	}
	if rest != "" && rest != "/" || u.RawQuery != "" || u.Fragment != "" {
		rest = "/" + placeholder
	}
	return u.Scheme + "://" + user + u.Host + rest
}
