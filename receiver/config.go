package receiver

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

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
	DefaultRetryAfter     = 5 * time.Second
	DefaultBodyTimeout    = 30 * time.Second
	DefaultStoreTimeout   = 30 * time.Second
	DefaultMaxBody        = 1 << 20
	DefaultBodyBudget     = 256 << 20
)

// Config describes a receiver whole; [Open] checks all of it and reports every mistake at once.
type Config struct {
	// Store keeps the events. Required. The receiver does not close it.
	Store dedup.Store
	// Producers are the senders, one endpoint each. At least one is required.
	Producers []producer.Producer
	// Handlers do the work. An event for which there is none is kept, done with a note, and can be reopened.
	Handlers []Handler

	// URL is the public base, as producers call it ("https://hooks.example"). Required when a producer's
	// scheme signs the URL and the producer has no URL of its own.
	URL string
	// PolicyURL is where the policy is served, for the links in answers. Defaults to URL + "/policy".
	PolicyURL string
	// Hosts, when not empty, are the only Host values accepted; others are answered 421.
	Hosts []string
	// Via is the name of this receiver in the field Via (RFC 9110 section 7.6.3), for receivers whose handlers send
	// deliveries on and put the name there. A delivery that names it already came back to where it was, and is refused (400):
	// a loop ends. A token of at most 64 characters. Defaults to none, which refuses nothing.
	Via string
	// TrustedProxies are peers whose X-Forwarded-For and X-Forwarded-Proto count. Defaults to none.
	TrustedProxies []netip.Prefix

	// Decode turns a payload into the handler's type. Defaults to JSON by encoding/json, and text/* for strings; []byte,
	// json.RawMessage and url.Values never pass through it.
	Decode func(contentType string, body []byte, v any) error

	// Attempts is how often a task is started before it is a dead letter. Defaults to 16.
	Attempts int
	// BackoffBase and BackoffCap bound the full jitter between attempts: uniform in [0, min(cap, base*2^n)].
	// They default to 1 second and 10 minutes.
	BackoffBase, BackoffCap time.Duration
	// PostponeMax bounds Postpone. Defaults to 7 days.
	PostponeMax time.Duration
	// HandlerTimeout ends the context of an On handler. Defaults to 30 seconds.
	HandlerTimeout time.Duration
	// AnswerTimeout is how long the producer waits for an Answer handler. Defaults to 10 seconds.
	AnswerTimeout time.Duration
	// InFlightWait is how long a duplicate waits for the Answer of the first delivery. Defaults to 2 seconds;
	// negative does not wait.
	InFlightWait time.Duration
	// Lease is how long a task is its worker's between extensions. Defaults to 30 seconds.
	Lease time.Duration
	// Workers is how many handlers of tasks run at once. Defaults to 4 per CPU, which is right for handlers that
	// compute; those that wait for others (a call of 50 ms lets a worker run 20 a second) want more. A worker is
	// free again when its handler has returned; recording the outcome does not keep it. Where handlers are fast,
	// up to 256 tasks are taken ahead of the workers, as many as start within 50 ms.
	Workers int
	// RetryAfter is what a transient answer asks for, give or take half. Defaults to 5 seconds.
	RetryAfter time.Duration
	// BodyTimeout is how long a body may take to arrive (408). Defaults to 30 seconds.
	BodyTimeout time.Duration
	// StoreTimeout bounds one durable step of a delivery, so that a store which stalls is answered with 503.
	// Nothing is known about the event then; the sender's retry finds the truth. Defaults to 30 seconds.
	StoreTimeout time.Duration
	// MaxBody bounds bodies of producers that set no bound, in bytes. Defaults to 1 MiB.
	MaxBody int64
	// BodyBudget bounds the bytes of all bodies that are held before verification. Defaults to 256 MiB.
	BodyBudget int64

	// PeersFile is the path of a file that keeps which networks lately sent new events, so that a start under load knows its
	// senders: endpoint, network, credit and its end, for an hour at most. It is written every hour and at Shutdown, readable
	// for its owner only; a receiver that opens with it gives the peers half of their credit. Defaults to none: after a start
	// every peer is unknown.
	PeersFile string

	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Clock judges the freshness of signatures. Defaults to time.Now. Leases and windows are judged by the
	// store's clock.
	Clock func() time.Time
	// Observe, when set, is called with what happened to every delivery and every attempt. It must not block.
	Observe func(context.Context, Observation)
}
