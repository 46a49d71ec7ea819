// Package forward delivers events to other receivers over HTTP: it is the producer's side of
// draft-mayankpanke-event-delivery-semantics-01, as an intermediary needs it (section 9.7).
//
// A [Target] is one URL. [Target.Deliver] makes one attempt and says what came of it: the draft's three
// outcomes, and [Deferred] for a target that takes nothing at the moment. Retrying is the caller's: it keeps the
// event, waits (at least [Result.NotBefore], with backoff and jitter of its own) and calls Deliver again.
//
// What a target taught us beyond one event (a new URL, that it is switched off, when it will end) is kept in a
// [State], which survives a restart once it has a file.
//
// # Caveats
//
// A request whose connection is closed by the target before the first byte of an answer may be sent once more
// by net/http within one attempt; it carries the same Idempotency-Key. TLS early data is never sent, because
// crypto/tls has none for clients.
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
	// ID names the event among those of this process, so that a Retry-After holds for it; it is not sent.
	// Empty leaves the waiting to the caller alone.
	ID string
	// Key is the value of the field Idempotency-Key, octet for octet (section 9.7); see [Key]. Required: an
	// event without one is Terminal, and nothing is sent (section 9.4).
	Key string
	// Header holds the fields of the delivery as it came to us. Those that describe the content and the attributes of a
	// CloudEvent (ce-*) go on, and of the others those in Signed and in [Config.Fields]. Fields of one connection,
	// credentials, and what proxies report about the client never do.
	Header http.Header
	// Signed names the fields of Header whose values the producer signed as a whole.
	Signed []string
	// Label is the label of the producer's verified signature (RFC 9421) in Header. It, or another one of the same key, is
	// sent on where everything that it covers is unchanged. Empty is none.
	Label string
	// Method and Target are the request line of the delivery, which a signature may cover. Empty is unknown.
	Method, Target string
	// Body is the payload.
	Body []byte
	// Accepted is when the event was accepted here, which is when the total retry time begins.
	Accepted time.Time
}

// Outcome is what an attempt came to.
type Outcome int

// The outcomes: the three of section 6.2 of the draft, and Deferred, for which nothing was sent.
const (
	// Transient means that the same delivery may succeed later, or that nobody knows whether it did.
	Transient Outcome = iota
	// Accepted means that the target has the event.
	Accepted
	// Terminal means that the target will never take the event as it is.
	Terminal
	// Deferred means that nothing was sent: the target is switched off, or asked for a time that has not come.
	// It is no failed attempt.
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

// Result is what came of an attempt.
type Result struct {
	Outcome Outcome
	// Status is that of the target's response; 0 where none came whole.
	Status int
	// ContentType and Body are the response's content; Body is empty where it is larger than [MaxResponse] or
	// has a content coding.
	ContentType string
	Body        []byte
	// NotBefore is the lower bound of the wait before the next attempt, as the target wants it (Transient), or
	// when to ask again (Deferred). Zero is none.
	NotBefore time.Duration
	// Err says why the event was not accepted; nil with Accepted. It holds no URL, no payload and no
	// credential.
	Err error
}

// ErrOff is in the error of a Result when the target is switched off until a person switches it on.
var ErrOff = errors.New("the target is switched off")

// ErrHeld is in the error of a Result when the target asked not to see the event before a time that has not
// come.
var ErrHeld = errors.New("the target asked for more time")

// MaxResponse bounds what is kept of a target's response, in bytes.
const MaxResponse = 1 << 20

// placeholder stands for what is not shown.
const placeholder = "<secret>"

// RedactURL is the URL of a target as people may see it: scheme and host. Receivers of many services, such as webhooks of
// chats, have their secret in the path or the query, so that everything behind the host but a bare "/" is shown as
// "/<secret>", and credentials before it as "<secret>@". What is no URL of http or https is "<secret>" as a whole.
// Nothing that names a target shows its URL in another way.
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
