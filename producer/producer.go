// Package producer describes the senders of events: how each one signs, names and batches
// events, how it checks an endpoint, and which response it wants.
//
// Everything about a sender is data in a [Producer]. [Signed] describes a producer of your own
// that signs with RFC 9421. Package preset has a function for each vendor, such as
// preset.GitHub, whose result can be changed by setting fields.
package producer

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// Producer is one sender of events and the endpoint that receives from it. A field with the tag
// conf is a setting of that name in eyelet.yaml.
type Producer struct {
	// Identity.

	// Name is the stable name of the producer. It names the endpoint (/webhooks/NAME) and is
	// the principal of keys that have none: 1 to 63 letters, digits, "-", "_" and "."; not "."
	// first. Required.
	Name string
	// Preset is the name of the preset that made this value, or empty.
	Preset string
	// Docs is the address of the vendor's documentation.
	Docs string
	// URL is the public URL of the endpoint. Defaults to Config.URL + "/webhooks/" + Name. That of
	// a tenant follows it after a slash.
	URL string `conf:"url"`
	// Err is a mistake found while the value was built, such as a missing secret. Check reports it.
	Err error

	// Authentication.

	// Scheme verifies deliveries. Required, unless AllowedIPs is set.
	Scheme verify.Scheme
	// Tolerance bounds signed times. Defaults to 5 minutes back and 60 seconds ahead.
	Tolerance verify.Tolerance `conf:"tolerance"`
	// Nonce is the policy for signed nonces. Defaults to NonceOff.
	Nonce NoncePolicy
	// NonceRate limits the new nonces of each key, counted after verification: more get 429.
	// Defaults to no limit.
	NonceRate Rate
	// AllowedIPs, when not empty, are the only client addresses accepted (403 for others).
	AllowedIPs []netip.Prefix `conf:"allowed_ips,nonempty"`
	// EarlyData accepts requests marked Early-Data: 1 (RFC 8470) while their signed time is fresh.
	EarlyData bool `conf:"early_data"`
	// SignsURL means that the scheme signs the URL, so Open requires the public one. Set by default
	// where the scheme has a method SignsURL that returns true, as those of package verify have.
	SignsURL bool
	// Audience, if set, refuses deliveries for another receiver, and stands for host and path in
	// signatures by RFC 9421: see [PinURLs].
	Audience *Audience
	// SecretQuery are query parameters that hold credentials. They are redacted and not part of
	// the scope.
	SecretQuery []string
	// SecretHeaders are header fields that hold credentials. They are not stored; Authorization
	// and Cookie never are.
	SecretHeaders []string

	// Handshakes.

	// Challenge answers unsigned requests of a subscription handshake (GET and OPTIONS) before
	// verification. It returns nil for any other request, and an error for a challenge that it
	// refuses; a response beside the error is the refusal that the vendor expects. May be nil.
	Challenge func(*http.Request) (*dedup.Response, error)
	// ChallengeMethods are the methods that Challenge answers, for the Allow field.
	ChallengeMethods []string
	// UnsignedChallenge answers a delivery without any credential that is a challenge, under the
	// limits of unverified deliveries. It gets a body of at most [MaxChallengeBody] bytes, and
	// returns nil for any other request. May be nil.
	UnsignedChallenge func(r *http.Request, body []byte) *dedup.Response
	// Echo describes a handshake as data. It cannot go with the functions of this section, which
	// it sets. May be nil.
	Echo *Echo `conf:"challenge"`
	// Pings are requests that check the URL and bring no event. They get an empty 200, with a
	// credential or without, and are neither stored nor handled: "GET" is any request of that
	// method without a challenge, an extractor in the syntax of [ParseExtractor] any delivery in
	// which it finds a value, or the one value after "=", as in
	// "header:X-Event-Key=diagnostics:ping". Without a credential the body has at most
	// [MaxChallengeBody] bytes. "HEAD", also where it is one of Methods, is answered so without a
	// preset, and by presets of vendors that send it. Defaults to what WooCommerce and Bitbucket
	// send, for a scheme without a preset that reads their signature field.
	Pings []string `conf:"pings"`
	// Handshake answers signed requests of a subscription handshake. It returns nil for a
	// delivery of events. May be nil.
	Handshake func(context.Context, *Delivery) (*dedup.Response, error)

	// Requests and limits.

	// Methods are the methods of deliveries. HEAD, which only checks the URL, may be listed and has
	// no effect. Defaults to POST.
	Methods []string `conf:"methods,nonempty"`
	// MediaTypes, when not empty, are the only media types accepted (415 for others);
	// "application/*" works.
	MediaTypes []string
	// SignedContent is what signatures of a body with a content coding are over. Defaults to
	// SignedEither.
	SignedContent SignedContent `conf:"signed"`
	// EmptyBody accepts deliveries that have neither a body nor a Content-Type, such as pings.
	// By default they are refused (400) where the method has a body and Split does not read
	// events from header fields.
	EmptyBody bool `conf:"empty_body"`
	// MaxBody limits the body, in bytes. Defaults to 1 MiB.
	MaxBody int64 `conf:"max_body"`
	// Rate limits accepted events (429 beyond it). It applies after verification, so
	// unauthenticated requests use none of it, and not to deliveries that get a stored
	// response. Defaults to no limit.
	Rate Rate `conf:"rate"`
	// Concurrency limits verified deliveries in flight (503 beyond it). A delivery whose
	// handler outlives its timeout counts until the handler returns. Defaults to no limit.
	Concurrency int `conf:"concurrency,zero"`

	// Events.

	// Admit refuses, with a *verify.Error, a verified delivery that the sender's protocol does not
	// allow, such as one whose body names another sender than the one that signed it. It reads
	// nothing but the body and the identity. May be nil.
	Admit func(*Delivery) error
	// Split returns the events of a batch. An error refuses them all; that of one event belongs in
	// [Item.Err]. Nil means that a delivery is one event.
	Split func(*Delivery) ([]Item, error)
	// Payload returns the bytes that handlers and the store get in place of an enveloping body.
	// Defaults to the body as received.
	Payload func(*Delivery) ([]byte, error)
	// FormMember is the member of a form that holds the event as JSON, such as "payload": the only
	// one of an application/x-www-form-urlencoded body, or one of a multipart/form-data body.
	// Extractors of JSON and the Data of handlers then come from this JSON; the form is stored,
	// files included, and digests of the body are those of the form. Other bodies are read as they
	// are. Defaults to none.
	FormMember string `conf:"form_member"`
	// Key extracts the idempotency identifier. Required, unless Split is set.
	Key Extractor `conf:"key"`
	// KeyRequired refuses deliveries without an identifier (400), and quarantines such items of a
	// batch. Otherwise a digest identifies them.
	KeyRequired bool `conf:"key_required"`
	// KeyFormat refuses identifiers of another form (400) and is published in the policy.
	// Defaults to any text of 1 to 1,024 characters.
	KeyFormat KeyFormat `conf:"key_format,opaque"`
	// Type extracts the event type. A type of more than MaxType characters or with a control
	// character is refused under API (400) and dropped under Webhook. Defaults to an empty type.
	Type Extractor `conf:"type"`
	// Attributes reads facts about the event for handlers (source, subject, time, ...). May be nil.
	Attributes func(*Delivery) (map[string]string, error)
	// Summary are templates of the line that [Summarize] makes for operators, such as
	// "{json:ref} by {json:pusher.name}". In braces is an [Extractor], or two for an amount in
	// minor units: "{json:amount in json:currency}". The first template counts of which the event
	// has all values. Defaults to none.
	Summary []string `conf:"summary"`
	// Reads lists what handlers read besides, in the form of [Extractor.Consumes]. RFC 9421
	// signatures must cover it, like everything that Key and Type read. The lanes of handlers
	// are added.
	Reads []string
	// Fields are the sender's own header fields, names or prefixes that end with a star
	// ("X-GitHub-*"). An intermediary forwards them, see [Producer.OwnFields]. Listing a field
	// does not authenticate it.
	Fields []string
	// LooseBinary accepts CloudEvents in binary mode when the signature covers the body but not
	// the attributes (ce-*). An attacker who captured a signed body can then send it with another
	// source, type and identifier, and only the digest of the body reveals that, while the
	// original is remembered. Defaults to refusing (401).
	LooseBinary bool `conf:"loose_binary"`

	// Deduplication.

	// Fingerprint selects what must be equal when an identifier repeats. Defaults to
	// FingerprintBody.
	Fingerprint FingerprintFunc
	// QueryScope makes the signed query, less ScopeIgnores, part of the scope of identifiers:
	// two deliveries share a scope if and only if endpoint and effective URL are equal. Where a
	// malleable signature covers neither identifier nor time, the digest of the signed content,
	// which has the query, identifies the event at the endpoint.
	QueryScope bool `conf:"query_scope"`
	// ScopeIgnores are query parameters outside the scope: credentials and attempt counters.
	ScopeIgnores []string
	// ScopeQuery returns the query in the scope, for a signature that fits several encodings of
	// one query: all of them must have one result. Defaults to the query octet for octet.
	ScopeQuery func(query string) string
	// StaleKnown answers an authentic but stale delivery of a known event with the stored
	// response, for senders that resend the same bytes hours later. Set in presets.
	StaleKnown bool `conf:"stale_known"`
	// SameSigned is the policy for the same signed bytes under another identifier, where the
	// signature covers the body but not the identifier. Defaults to SameSignedDefault.
	SameSigned SameSigned `conf:"same_signed"`
	// SameSignedTypes overrides SameSigned for event types: SameSignedQuarantine, SameSignedRun or
	// SameSignedRefuse.
	SameSignedTypes map[string]SameSigned `conf:"same_signed_types"`
	// SameSignedMax limits the accepted occurrences of signed content in a window, the first
	// included. Defaults to 16 with SameSignedRun and to the result of Repeatable otherwise.
	SameSignedMax int `conf:"same_signed_max"`
	// Repeatable returns how often the content of a delivery may be accepted, where the
	// signature covers neither an identifier nor a time: more than once where two events can
	// have the same signed content. It must read only what is signed. Defaults to once.
	Repeatable func(*Delivery) Repeats
	// KeyedByType makes signed content a separate event for each type that matches, for senders
	// that send equal bytes for several types. Each type that a handler names exactly counts once,
	// all others together at most 9 times. A type that does not match, or is missing, makes an
	// event only of content that is new. It matters only where the signature covers neither an
	// identifier nor a time.
	KeyedByType *regexp.Regexp
	// Series returns the state that a delivery updates, such as the topic of a feed, or ""
	// where a delivery is an event of its own. Equal content is a duplicate while it is the
	// newest of its series. Replaced content that returns is quarantined within Window and
	// accepted after it. Scoped to the principal. May be nil.
	Series func(*Delivery) string

	// Replies.

	// Contract selects the column of the table of responses. Defaults to API.
	Contract Contract `conf:"contract"`
	// Accepted is the response to an accepted event. Defaults to 202 under API, 200 under Webhook.
	// A nil Body is JSON that names the event; an empty one that is not nil is none.
	Accepted dedup.Response
	// AcceptedTypes are the responses to accepted events of some types, in place of Accepted.
	AcceptedTypes map[string]dedup.Response
	// InFlight is the status for a duplicate while the first delivery is in flight: 409, 429 or
	// 503. Defaults to 409 under API, 503 under Webhook.
	InFlight int
	// Authenticate is the field WWW-Authenticate of a 401 (RFC 9110 section 11.6.1). Defaults
	// to one challenge per scheme: Basic (RFC 7617), Bearer (RFC 6750), or Signature, which is
	// not registered. The realm is Name.
	Authenticate string

	// Lifetime.

	// Window is how long identifiers are remembered after the outcome. Defaults to 24 hours.
	Window time.Duration `conf:"window"`
	// DropBody deletes bodies once every handler is done. By default they are kept for the window.
	DropBody bool `conf:"drop_body"`
	// Forgets remembers nothing beyond the window. By default the store is asked to remember events
	// whose signature covers the content but no time, for 90 days unless configured otherwise.
	Forgets bool
	// EventTime reads when the event happened from the signed content: RFC 3339, or seconds or
	// milliseconds since 1970. It decides how long an event is remembered beyond the window.
	// Defaults to none.
	EventTime Extractor `conf:"event_time"`
	// ExpectEvery is how long the producer may send no new event before the metrics report it as
	// silent. Nothing else depends on it. Defaults to no expectation.
	ExpectEvery time.Duration `conf:"expect_every"`
	// Retire is when the endpoint ends. Until then every response announces it in the field
	// Sunset (RFC 8594). From then on every request gets 410 without verification, duplicates
	// included; nothing else answers 410.
	Retire time.Time `conf:"retire"`
	// Deprecated is the date of the field Deprecation (RFC 9745): producers should move away.
	// It must not be after Retire. Defaults to Retire; the field is absent when both are zero.
	Deprecated time.Time `conf:"deprecated"`
	// MonitorUntil is the end of the time in which deliveries that do not verify are accepted as
	// unverified events (receiver.Event.Unverified), for a producer that begins to sign. It is at
	// most 30 days after the first start with it, which the store keeps for a year. Handshakes,
	// Answer handlers, addresses and malformed requests are refused as ever. A time that has passed
	// enforces verification. Defaults to none.
	MonitorUntil time.Time
	// Source lists what the producer sent, for package reconcile. Defaults to none.
	Source Source `conf:"reconcile"`

	// Tenants gives each tenant an endpoint and secrets of its own. Defaults to none.
	Tenants Tenants

	solely bool // see [PinURLs]
}

// Signed describes a producer of your own. It signs requests with RFC 9421, identifies each
// event in the field Idempotency-Key, and gets the responses of the Idempotency-Key draft (the
// API contract). The event type is the member "type" of a JSON body; other bodies have none.
//
// The signature must cover what [verify.Coverage] lists and every header field that Key and
// Type read, even if they are changed later. Identifiers are scoped to the signed URL,
// including its query without ScopeIgnores. With the keys of [verify.NewDirectories] each agent has
// identifiers of its own.
func Signed(name string, keys verify.KeySet) Producer {
	return Producer{
		Name: name, Scheme: &verify.RFC9421{Keys: keys}, Contract: API, QueryScope: true,
		Key: IdempotencyKey{}, KeyRequired: true, Type: JSON("type"),
	}
}

// Contract is a column of the table of responses.
type Contract int

// The contracts.
const (
	// API is for producers of your own that follow the Idempotency-Key draft: 202, 409, 422, 400.
	API Contract = iota
	// Webhook is for vendors that drop an event on a 4xx: 200, and 503 while the first delivery
	// is in flight.
	Webhook
)

// NoncePolicy is the policy for signed nonces.
type NoncePolicy int

// The nonce policies.
const (
	// NonceOff ignores nonces: the covered identifier protects against replay.
	NonceOff NoncePolicy = iota
	// NonceRequired refuses signatures without a nonce.
	NonceRequired
	// NonceUnique refuses a nonce that was used with another event. The same nonce with the
	// same event is a duplicate.
	NonceUnique
)

// SignedContent is the form of a coded body (RFC 9110 section 8.4) that is signed.
type SignedContent int

// The forms of a signed body. Content that was signed before it was coded is identified, stored and
// handled as if it had arrived without the coding.
const (
	// SignedEither tries the coded body, then the decoded one.
	SignedEither SignedContent = iota
	// SignedCoded is the body as received.
	SignedCoded
	// SignedDecoded is the decoded body. Not for RFC 9421: Content-Digest is of the coded one.
	SignedDecoded
)

// SameSigned is the policy for the same signed bytes under another identifier.
type SameSigned int

// The policies for SameSigned.
const (
	// SameSignedDefault is SameSignedRefuse under API and SameSignedQuarantine under Webhook.
	SameSignedDefault SameSigned = iota
	// SameSignedOff trusts the identifier: each identifier is an event, without a limit.
	SameSignedOff
	// SameSignedQuarantine answers 200 and quarantines the delivery, at most 16 per original.
	// Not under API.
	SameSignedQuarantine
	// SameSignedRefuse answers 401.
	SameSignedRefuse
	// SameSignedRun accepts another occurrence, up to SameSignedMax in a window, where the
	// signature covers neither the identifier nor a time. Beyond that it is quarantined, under
	// API refused.
	SameSignedRun
)

// AcceptedMediaTypes lists the media types for a 415: MediaTypes, those of which a signature in
// the body is read, or those of CloudEvents.
func (p *Producer) AcceptedMediaTypes() []string {
	var read []string
	eachScheme(p.Scheme, func(s interface {
		verify.Scheme
		MediaTypes() []string
	}) {
		read = append(read, s.MediaTypes()...)
	})
	switch {
	case len(p.MediaTypes) > 0:
		return p.MediaTypes
	case len(read) > 0:
		return read
	case p.Split != nil:
		return []string{MediaCloudEvent, MediaCloudEventBatch}
	}
	return []string{MediaCloudEvent}
}

// OwnFields lists the header fields that an intermediary forwards with an event, besides
// covered fields and those that describe the content: Fields, the fields of an HMAC signature,
// and the fields that Key, Type and Reads name. A name that ends with a star is a prefix.
func (p *Producer) OwnFields() []string {
	fields := slices.Concat(p.Fields, p.consumed())
	if slices.Contains(fields, "ce-type") { // it reads CloudEvents, also in binary mode
		fields = append(fields, "ce-*")
	}
	eachScheme(p.Scheme, func(h *verify.HMAC) {
		fields = slices.Concat(fields, h.Headers, h.TimestampHeaders, h.IDHeaders)
	})
	return slices.DeleteFunc(fields, func(name string) bool { return strings.HasPrefix(name, "@") })
}

// consumed lists the parts of the request that decide how an event is identified and handled.
func (p *Producer) consumed() []string {
	return slices.Sorted(maps.Keys(p.readers()))
}
