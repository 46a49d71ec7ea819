// Package producer describes the senders of events: how each one signs, names, batches and greets, and what
// it wants to hear back.
//
// Package preset has a function for each vendor, such as preset.GitHub. For producers of your own there is [Signed]: RFC 9421
// signatures and the Idempotency-Key field. Everything about a sender is data in a [Producer], so what a preset returns can be
// changed by setting its fields.
package producer

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// Producer is one sender of events and the endpoint that receives from it.
type Producer struct {
	// Name is the producer's stable name. It names the endpoint (served at /webhooks/NAME), and it is the
	// principal of keys that carry none. Letters, digits, "-", "_" and "."; required.
	Name string
	// Preset is the name of the preset that made this value; empty for producers described by hand.
	Preset string
	// Scheme verifies deliveries. Required, unless AllowedIPs is set.
	Scheme verify.Scheme
	// Tolerance bounds signed times. Defaults to 5 minutes back and 60 seconds ahead.
	Tolerance verify.Tolerance
	// Nonce says what a signed nonce is for. Defaults to NonceOff.
	Nonce NoncePolicy
	// Key extracts the idempotency identifier. Required, unless Split names the items.
	Key Extractor
	// KeyRequired refuses deliveries without an identifier (400). When false, a digest of the body stands in.
	KeyRequired bool
	// KeyFormat refuses identifiers of another form (400), and is published in the policy. Defaults to accepting any of 1
	// to 1,024 characters.
	KeyFormat KeyFormat
	// Type extracts the event type. Defaults to none: the type is then empty. One of more than MaxType characters, or
	// with a control character, is refused under API (400) and left out under Webhook.
	Type Extractor
	// Attributes reads facts about the event that handlers see (source, subject, time, ...). May be nil.
	Attributes func(*Delivery) (map[string]string, error)
	// Reads is what handlers read besides, as [Extractor.Consumes] lists it: header fields in lower case, "@query",
	// "@body". RFC 9421 signatures must cover these, like what Key and Type read. The lanes of handlers add theirs.
	Reads []string
	// Fields are the header fields that are the sender's own: names, or what several begin with, followed by a star
	// ("X-GitHub-*"). An intermediary sends them on; see [Producer.OwnFields]. They are not therefore authentic.
	Fields []string
	// Fingerprint selects what is compared when an identifier comes again. Defaults to FingerprintBody.
	Fingerprint FingerprintFunc
	// Split takes a batch apart; nil means that a delivery is one event.
	Split func(*Delivery) ([]Item, error)
	// Payload is what handlers and the store see as the body, where the body is only an envelope of it.
	// Defaults to the body as it arrived.
	Payload func(*Delivery) ([]byte, error)
	// LooseBinary takes CloudEvents in binary mode also where the signature binds the body and leaves the attributes
	// (ce-*) out. Anybody who captured a signed body can then give it another source, type and identifier; the first
	// such delivery is recognised by its bytes only while the original is remembered. Defaults to refusing them (401).
	LooseBinary bool
	// Challenge answers unsigned requests of a subscription handshake (GET and OPTIONS), before anything is
	// verified. It returns nil for a request that is no challenge. A challenge that is refused is an error;
	// a reply beside the error is how the vendor wants to be refused. May be nil.
	Challenge func(*http.Request) (*dedup.Response, error)
	// ChallengeMethods lists the methods that Challenge answers, for the Allow field.
	ChallengeMethods []string
	// Handshake answers signed requests of a subscription handshake. It returns nil for a delivery of events.
	// May be nil.
	Handshake func(context.Context, *Delivery) (*dedup.Response, error)
	// Contract chooses the column of the table of answers. Defaults to API.
	Contract Contract
	// Accepted is the answer to an event that is kept. Defaults to 202 under API, 200 under Webhook.
	Accepted dedup.Response
	// InFlight is the status for a duplicate whose first delivery is still being answered: 409 or 503.
	// Defaults to 409 under API, 503 under Webhook.
	InFlight int
	// StaleKnown answers a stale but authentic repetition of a known event with its stored answer, for senders
	// that resend the same bytes hours later. On in presets.
	StaleKnown bool
	// SameSigned says what to do with the same signed bytes under another identifier, where the signature
	// covers the body but not the identifier. Defaults to SameSignedDefault.
	SameSigned SameSigned
	// SameSignedMax bounds how many occurrences of signed content are accepted in a window, the first one included.
	// Defaults to 16 with SameSignedRun, and to what Repeatable says otherwise.
	SameSignedMax int
	// SameSignedTypes is SameSigned for events of some types: SameSignedAside, SameSignedRun or SameSignedRefuse.
	SameSignedTypes map[string]SameSigned
	// Repeatable says how often the content of a delivery may be accepted where its signature covers neither an
	// identifier nor a time: more than once where two events can be equal in everything that is signed. It reads only
	// what is signed. Defaults to once.
	Repeatable func(*Delivery) Repeats
	// Sending reads the identifier of one sending, which its retries share, where Key reads one that different events
	// share. It counts where neither is signed. Defaults to Key.
	Sending Extractor
	// KeyedByType makes signed content an event of its own under each type, for senders that send equal bytes for
	// several types. Each type that a handler names exactly counts once; of all others there are at most 9. It counts
	// where the signature covers neither an identifier nor a time.
	KeyedByType bool
	// Series names the state whose newest content a delivery is, such as the topic of a feed; empty for a delivery that is
	// an event of its own. Equal content is known while it is the newest of its series; content that was replaced and comes
	// again within Window is quarantined, and after it accepted again. The series is scoped to the principal. May be nil.
	Series func(*Delivery) string
	// EventTime reads when the event happened from the signed content: RFC 3339, or seconds or milliseconds since 1970. It
	// says how far what is remembered beyond the window must reach, and refuses nothing else. Defaults to none.
	EventTime Extractor
	// Forgets says that nothing is remembered of events beyond their window. By default the store is asked to remember those
	// whose signature binds the content and says no time, for 90 days unless it is told otherwise.
	Forgets bool
	// Window is how long identifiers are remembered after the outcome. Defaults to 24 hours.
	Window time.Duration
	// DropBody drops bodies once every handler is done. By default they stay for the window.
	DropBody bool
	// MaxBody bounds the body in bytes. Defaults to 1 MiB.
	MaxBody int64
	// Rate bounds the events that are accepted (429 beyond it). It is asked only after verification, so that no
	// stranger uses it up; a delivery that repeats a stored answer does not count. Defaults to no limit.
	Rate Rate
	// Concurrency bounds the verified deliveries that are worked on at once (503 beyond it); one whose handler
	// still answers after its time was up counts until the handler returned. Defaults to no limit.
	Concurrency int
	// EmptyBody accepts deliveries that have neither a body nor a Content-Type, such as pings. Otherwise they
	// are no deliveries (400), where the method has a body and Split does not read events from header fields.
	EmptyBody bool
	// Methods are those of deliveries. Defaults to POST.
	Methods []string
	// MediaTypes, when not empty, are the only media types accepted (415 for others); "application/*" works.
	MediaTypes []string
	// URL is the public URL of the endpoint, when it is not Config.URL + "/webhooks/" + Name.
	URL string
	// SignsURL says that the scheme signs the URL, so that Open demands to know the public one. It is set where
	// the scheme has a method SignsURL that says so, as those of package verify have.
	SignsURL bool
	// QueryScope makes the signed query a part of the scope of identifiers, except the names in ScopeIgnores:
	// two attempts share a scope if and only if endpoint and effective URL are the same.
	QueryScope bool
	// ScopeIgnores are query parameters that are no part of the scope: credentials and attempt counters.
	ScopeIgnores []string
	// SecretQuery are query parameters that hold credentials, for redaction.
	SecretQuery []string
	// SecretHeaders are header fields that hold credentials, which are not kept. Authorization and Cookie
	// never are.
	SecretHeaders []string
	// EarlyData accepts requests marked Early-Data: 1 (RFC 8470) when their signed time is fresh.
	EarlyData bool
	// Retire, when set, is when the endpoint ends. Before it every answer announces it in the field Sunset (RFC
	// 8594); from it on every request is answered 410, and nothing is verified or stored, known duplicates
	// included. No endpoint answers 410 for another reason.
	Retire time.Time
	// Deprecated is the date of the field Deprecation (RFC 9745), which says that producers should move away;
	// it is not after Retire. Defaults to Retire; without either, no such field is sent.
	Deprecated time.Time
	// AllowedIPs, when not empty, are the only addresses accepted (403 for others).
	AllowedIPs []netip.Prefix
	// Authenticate is the field WWW-Authenticate of a 401 (RFC 9110 section 11.6.1). Defaults to a challenge for each scheme
	// that is demanded: Basic and Bearer (RFC 7617, RFC 6750) for credentials of theirs, and Signature for what has no
	// registered name; the realm is the producer's name.
	Authenticate string
	// Docs is the address of the vendor's documentation.
	Docs string
	// Err is a mistake made while the value was built, such as a missing secret; Open reports it.
	Err error
}

// Delivery is one verified HTTP attempt, as extractors see it.
type Delivery struct {
	// Request is the request; its URL is absolute, as the producer called it. Its Body is not to be read.
	Request *http.Request
	// Body is the body as it arrived.
	Body []byte
	// Identity is what verification proved.
	Identity verify.Identity

	doc *document // the body, once an extractor has read it as JSON
	// looseBinary is the producer's LooseBinary.
	looseBinary bool
	parsed      *parsedEvents // the CloudEvents in it, once somebody has read them
}

// Item is one event of a batch.
type Item struct {
	// ID is the idempotency identifier; empty where KeyRequired is false stands for a digest.
	ID string
	// Unnamed says that the sender gave no identifier, so that ID is a digest. [Producer.Items] sets it.
	Unnamed bool
	// Type is the event type.
	Type string
	// Body is the event's own bytes.
	Body []byte
	// Attributes are facts about the event. Who reads a delivery again may get the same map, so nobody changes it.
	Attributes map[string]string
	// Note says what the event says of itself that could not be kept; empty for nothing. [Producer.Items] sets it.
	Note string
}

// FingerprintFunc digests what must be the same when an identifier comes again. The zero value of the result
// means that nothing is compared.
type FingerprintFunc func(d *Delivery, it Item) [32]byte

// Extractor reads one string from a delivery.
type Extractor interface {
	// Extract returns the value, "" when there is none, or a *verify.Error when there is one that must not be
	// used: malformed, or ambiguous because a field or JSON member occurs twice.
	Extract(*Delivery) (string, error)
	// Consumes lists everything of the request that is read: header fields in lower case, "@query" and "@body". A
	// signature must cover all of it for the value to be the sender's. What the scheme itself vouches for, such as the
	// claims of a verified token, is not listed.
	Consumes() []string
	// String returns the extractor as the configuration spells it, such as "header:X-GitHub-Delivery".
	String() string
}

// RawExtractor is an Extractor that knows the octets from which its value came, for forwarding.
type RawExtractor interface {
	Extractor
	// Raw returns the field value as received, or "".
	Raw(*Delivery) string
}

// Contract is a column of the table of answers.
type Contract int

// The contracts.
const (
	// API is for producers of your own that follow the Idempotency-Key draft: 202, 409, 422, 400.
	API Contract = iota
	// Webhook is for vendors that drop events on a 4xx: 200, and 503 while the first delivery runs.
	Webhook
)

// NoncePolicy says what a signed nonce is for.
type NoncePolicy int

// The nonce policies.
const (
	// NonceOff ignores nonces: the covered identifier is the protection against replay.
	NonceOff NoncePolicy = iota
	// NonceRequired refuses signatures without a nonce.
	NonceRequired
	// NonceUnique refuses a nonce that came with another event. The same nonce with the same event is a
	// duplicate.
	NonceUnique
)

// SameSigned says what to do with the same signed bytes under another identifier.
type SameSigned int

// The policies for SameSigned.
const (
	// SameSignedDefault is SameSignedRefuse under API and SameSignedAside under Webhook.
	SameSignedDefault SameSigned = iota
	// SameSignedOff trusts the identifier: other identifiers are other events, without a bound.
	SameSignedOff
	// SameSignedAside quarantines it, at most 16 per original, and answers 200. It is not for API.
	SameSignedAside
	// SameSignedRefuse answers 401.
	SameSignedRefuse
	// SameSignedRun accepts it as another occurrence, up to SameSignedMax in a window, where the signature covers
	// neither the identifier nor a time; what is beyond that is quarantined, under API refused.
	SameSignedRun
)
