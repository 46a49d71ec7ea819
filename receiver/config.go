package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// Defaults of [Config].
const (
	DefaultAttempts       = 16
	DefaultBackoffBase    = time.Second
	DefaultBackoffCap     = 10 * time.Minute
	DefaultPostponeMax    = 7 * 24 * time.Hour
	DefaultHandlerTimeout = 30 * time.Second
	DefaultAnswerTimeout  = 10 * time.Second
	DefaultInFlightWait   = 2 * time.Second
	DefaultLease          = 30 * time.Second
	// DefaultOrphanAfter is for stores that several processes share, and DefaultOrphanAfterAlone
	// for stores of one process.
	DefaultOrphanAfter      = time.Hour
	DefaultOrphanAfterAlone = time.Minute
	DefaultRetryAfter       = 5 * time.Second
	DefaultBodyTimeout      = 30 * time.Second
	DefaultStoreTimeout     = 30 * time.Second
	DefaultMaxBody          = 1 << 20
	DefaultBodyBudget       = 256 << 20
)

// Config configures a receiver. [Open] checks all of it and reports every error at once.
type Config struct {
	// Store keeps the events. Required. The receiver does not close it.
	Store dedup.Store
	// Producers are the senders, one endpoint each. At least one is required.
	Producers []producer.Producer
	// Handlers handle the events. Events without a handler are stored as done, with a note, and
	// can be reopened.
	Handlers []Handler

	// URL is the public base, as producers call it ("https://hooks.example"). Required if a
	// producer's scheme signs the URL and the producer has no URL of its own.
	URL string
	// PolicyURL is where the policy is served, for the links in responses. Defaults to URL +
	// "/policy".
	PolicyURL string
	// Hosts, if not empty, are the only Host values accepted; others get 421.
	Hosts []string
	// Via names this receiver in the field Via (RFC 9110 section 7.6.3), for handlers that
	// forward deliveries under that name. A delivery that already names it is in a loop and is
	// refused (400). A token of at most 64 characters. Defaults to none, which refuses nothing.
	Via string
	// TrustedProxies are peers whose X-Forwarded-For and X-Forwarded-Proto count. Defaults to none.
	TrustedProxies []netip.Prefix

	// Decode decodes a payload into the handler's type. Defaults to encoding/json, and plain
	// text for strings; []byte, json.RawMessage and url.Values do not use it.
	Decode func(contentType string, body []byte, v any) error

	// Attempts is how often a task starts before it becomes a dead letter. Defaults to 16.
	Attempts int
	// BackoffBase and BackoffCap bound the full jitter between attempts: uniform in [0,
	// min(cap, base*2^n)]. They default to 1 second and 10 minutes.
	BackoffBase, BackoffCap time.Duration
	// PostponeMax bounds Postpone. Defaults to 7 days.
	PostponeMax time.Duration
	// HandlerTimeout ends the context of an On handler. Defaults to 30 seconds.
	HandlerTimeout time.Duration
	// AnswerTimeout is how long the producer waits for an Answer handler. Defaults to 10 seconds.
	AnswerTimeout time.Duration
	// InFlightWait is how long a duplicate waits for the response to the first delivery.
	// Defaults to 2 seconds; negative does not wait.
	InFlightWait time.Duration
	// Lease is how long a worker owns a task between extensions. The receivers of a shared store
	// may differ. Defaults to 30 seconds.
	Lease time.Duration
	// OrphanAfter is how long tasks wait for a receiver that has their handler before they become
	// dead letters (handler_gone): during a rolling change, not every receiver has every handler.
	// Receivers leave each other's tasks alone. Defaults to an hour if processes share the store.
	// Else no other process can have the handler, and it defaults to a minute after the store was
	// opened, in which the receivers of the process open. Negative does not wait.
	OrphanAfter time.Duration
	// Workers is how many handlers of tasks run at once. Defaults to 4 per CPU, which suits
	// handlers that compute. Handlers that wait for others (with calls of 50 ms a worker runs 20
	// a second) need more. A worker is free once its handler has returned; recording the outcome
	// does not occupy it. Up to 512 tasks are prefetched, as many as start within 50 ms.
	Workers int
	// RetryAfter is the mean Retry-After of transient responses, jittered by ±50 %. Defaults to
	// 5 seconds.
	RetryAfter time.Duration
	// BodyTimeout is how long a body may take to arrive (408). Defaults to 30 seconds.
	BodyTimeout time.Duration
	// StoreTimeout bounds one durable step of a delivery: a stalled store means 503. The outcome
	// is unknown then, and the sender's retry gets it. Defaults to 30 seconds.
	StoreTimeout time.Duration
	// MaxBody bounds the bodies of producers without a bound, in bytes. Defaults to 1 MiB.
	MaxBody int64
	// BodyBudget bounds the bytes of all bodies held before verification. Defaults to 256 MiB.
	BodyBudget int64

	// PeersFile is the path of a file of the networks that recently sent new events, so that a
	// receiver that starts under load knows its senders. It holds endpoint, network, credit and
	// its end, for an hour at most. It is written every hour and by Shutdown, readable for its
	// owner only. After a start these peers have half of their credit. Defaults to none: after a
	// start every peer is unknown.
	PeersFile string

	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// OmitErrors leaves the texts of handlers' errors out of the log, which then has their types.
	// Set it if handlers may quote payloads in their errors, which must not be logged
	// (draft-mayankpanke-event-delivery-semantics-01 section 11.6). The store has the texts in any
	// case. Defaults to false.
	OmitErrors bool
	// Clock is used to check the freshness of signatures. Defaults to time.Now. Leases and
	// windows use the store's clock.
	Clock func() time.Time
	// Observe, if set, is called for every delivery and every attempt. It must not block.
	Observe func(context.Context, Observation)
	// Opening, if set, is called by [Open] and [Receiver.Replace] with the checked configuration,
	// its defaults and its store, before anything runs. It may set Observe, and nothing else. Its
	// error is that of Open.
	Opening func(*Config) error
	// Tracer, if set, makes spans of deliveries, of their durable steps and of attempts; see
	// docs/tracing.md. Spans hold no payload and no credential. The traceparent of a sender is
	// linked, and never decides what is sampled. Defaults to none, which costs nothing.
	Tracer trace.Tracer
	// Refused, if set, gets each request that is answered with a status of 400 or more, also those
	// to unknown paths. It is called on the request's goroutine once the response is written and
	// flushed, so a slow function occupies a connection, but delays no response. A panic in it is
	// recovered, and the first one is logged. Defaults to none, which costs nothing.
	Refused func(context.Context, Refused)
}
