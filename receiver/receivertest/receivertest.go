// Package receivertest tests handlers: it delivers signed events to a receiver in process, waits
// for the handlers, and steps the clock instead of sleeping.
//
//	rx := receivertest.New(t, receiver.Config{Producers: ..., Handlers: ...})
//	rx.Deliver("github", "push", Push{Ref: "refs/heads/main"})
//	rx.Wait()
//
// A delivery runs through everything that a real one does: verification, identity, storage,
// dispatch and retries.
package receivertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// Receiver is a receiver under test. It is closed when the test ends.
type Receiver struct {
	*receiver.Receiver
	// Store holds the events.
	Store dedup.Store

	t         testing.TB
	clock     *deduptest.Clock // nil with a store of the test
	url       string
	producers []producer.Producer // with schemes that can sign
	ids       atomic.Int64
	accepted  sync.Map // the events that were accepted here
	observed  sync.Map // the number of the last observed attempt, by its task
}

// taskOf identifies a task.
type taskOf struct{ event, handler string }

// New opens a receiver. It fails the test if the configuration has a mistake.
//
// Store defaults to one in memory, with a clock that only [Receiver.Step] moves; it starts at
// Config.Clock, by default at the present. With a store of the test, time is that store's. URL
// defaults to https://hooks.example, and Logger to the output of the test. Producers that sign
// with RFC 9421 also get a key of the test, so that no private key is needed.
func New(t testing.TB, c receiver.Config) *Receiver {
	t.Helper()
	rx := &Receiver{t: t}
	if c.Logger == nil {
		c.Logger = newLogger(t)
	}
	if c.Store == nil {
		rx.clock = deduptest.NewClock()
		if c.Clock != nil {
			rx.clock.Advance(c.Clock().Sub(rx.clock.Now()))
		}
		c.Clock = rx.clock.Now
		store := memstore.New(memstore.Options{Clock: rx.clock})
		t.Cleanup(func() { _ = store.Close() }) // it never fails
		c.Store = store
	}
	rx.Store, rx.url = c.Store, cmp.Or(c.URL, "https://hooks.example")
	c.URL = rx.url
	c.Producers = slices.Clone(c.Producers)
	for i, p := range c.Producers {
		opened, signing, err := withTestKey(p)
		if err != nil {
			t.Fatal(err)
		}
		c.Producers[i], rx.producers = opened, append(rx.producers, signing)
	}
	c.Observe = rx.observe(c.Observe)
	var err error
	if rx.Receiver, err = receiver.Open(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
	})
	return rx
}

// Delivery is a delivery with its response.
type Delivery struct {
	Status int
	Header http.Header
	Body   []byte
	// Code is the result: "accepted", "replayed", "quarantined", or the reason of a refusal, which
	// the response may not reveal.
	Code verify.Code
	// Event is the receiver's own id of the event; empty if there is none.
	Event string

	rx       *Receiver
	producer string
	request  *http.Request
	body     []byte
}

// Deliver sends an event of a type, signed as the producer signs, and returns its response. It
// fails the test if the receiver refuses the delivery before a handler could see it.
//
// The payload is the body of the event as the vendor sends it: text, bytes, url.Values for a form,
// nil for a sample of the preset, and anything else as JSON. If the producer reads the type or an
// identifier from a top member of the JSON, and the payload lacks it, it is added. Each call has an
// identifier of its own. Producers that do not sign their identifiers, such as GitHub, identify an
// event by its content: two deliveries of one payload are then the same event, or the second is
// quarantined.
func (rx *Receiver) Deliver(producer, kind string, payload any) *Delivery {
	rx.t.Helper()
	d := rx.Send(producer, rx.Request(producer, kind, payload))
	switch d.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest:
		if d.Event == "" {
			rx.t.Fatalf("receivertest: the delivery was refused: %d %s %s", d.Status, d.Code, d.Body)
		}
	}
	return d
}

// Request returns the delivery that [Receiver.Deliver] sends, to change it before
// [Receiver.Send].
func (rx *Receiver) Request(producer, kind string, payload any) *http.Request {
	rx.t.Helper()
	p := rx.named(producer)
	media, body, err := encode(payload)
	if err != nil {
		rx.t.Fatalf("receivertest: the payload cannot be encoded: %v", err)
	}
	unsigned := preset.Unsigned{URL: cmp.Or(p.URL, rx.url+"/webhooks/"+p.Name), Type: kind, ID: rx.newID(),
		Body: body, MediaType: media}
	r, body, err := unsigned.SignedBy(*p, rx.now())
	if err != nil {
		rx.t.Fatalf("receivertest: %v; make the request yourself and Send it", err)
	}
	if got, ok := typeOf(p, r, body); ok && kind != "" && got != kind {
		rx.t.Fatalf("receivertest: the type of the payload is %q, want %q: producer %q reads it from %s",
			got, kind, p.Name, p.Type)
	}
	return r
}

// Send sends a request to the endpoint of a producer as it is, without a network.
func (rx *Receiver) Send(producer string, r *http.Request) *Delivery {
	rx.t.Helper()
	p := rx.named(producer)
	d := &Delivery{rx: rx, producer: producer, request: r}
	if r.Body != nil {
		var err error
		if d.body, err = io.ReadAll(r.Body); err != nil {
			rx.t.Fatal(err)
		}
	}
	sent := r.Clone(context.WithValue(r.Context(), deliveryKey{}, d))
	sent.Body = io.NopCloser(bytes.NewReader(d.body))
	if sent.RemoteAddr == "" {
		sent.RemoteAddr = "192.0.2.1:1234" // TEST-NET-1 (RFC 5737)
		if len(p.AllowedIPs) > 0 {
			sent.RemoteAddr = "[" + p.AllowedIPs[0].Addr().String() + "]:1234"
		}
	}
	w := httptest.NewRecorder()
	rx.HTTP(producer).ServeHTTP(w, sent)
	d.Status, d.Header, d.Body = w.Code, w.Result().Header, w.Body.Bytes() //nolint:bodyclose // a recorder's
	return d
}

// Again sends the same bytes again, as a producer does that did not get the response.
func (d *Delivery) Again() *Delivery {
	d.rx.t.Helper()
	r := d.request.Clone(d.request.Context())
	r.Body = io.NopCloser(bytes.NewReader(d.body))
	return d.rx.Send(d.producer, r)
}

// Wait waits for the handlers, as [Receiver.Wait] does, and returns the delivery.
func (d *Delivery) Wait() *Delivery {
	d.rx.t.Helper()
	d.rx.Wait()
	return d
}

// Replayed reports whether the response is the stored one of an earlier delivery.
func (d *Delivery) Replayed() bool { return d.Header.Get("Idempotency-Replayed") == "true" }

type deliveryKey struct{}

// observe notes the results of deliveries and attempts, and passes every observation to next, which
// may be nil.
func (rx *Receiver) observe(
	next func(context.Context, receiver.Observation),
) func(context.Context, receiver.Observation) {
	return func(ctx context.Context, o receiver.Observation) {
		if d, ok := ctx.Value(deliveryKey{}).(*Delivery); ok && o.Kind == receiver.KindDelivery {
			d.Code, d.Event = o.Code, o.Event
			if o.Code == "accepted" {
				rx.accepted.Store(o.Event, true)
			}
		}
		if next != nil {
			next(ctx, o)
		}
		if o.Kind == receiver.KindAttempt {
			rx.observed.Store(taskOf{o.Event, o.Handler}, o.Attempt)
		}
	}
}

func (rx *Receiver) named(name string) *producer.Producer {
	rx.t.Helper()
	for i := range rx.producers {
		if rx.producers[i].Name == name {
			return &rx.producers[i]
		}
	}
	rx.t.Fatalf("receivertest: there is no producer %q", name)
	return nil
}

// newID returns the next identifier, in the form of a UUID (RFC 9562 section 5.4).
func (rx *Receiver) newID() string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", rx.ids.Add(1))
}

func (rx *Receiver) now() time.Time {
	if rx.clock == nil {
		return time.Now()
	}
	return rx.clock.Now()
}

// encode returns a payload and its media type; "" is the producer's usual one.
func encode(payload any) (media string, body []byte, err error) {
	switch v := payload.(type) {
	case nil:
		return "", nil, nil
	case []byte:
		return "", v, nil
	case json.RawMessage:
		return "", v, nil
	case string:
		return "", []byte(v), nil
	case url.Values:
		return "application/x-www-form-urlencoded", []byte(v.Encode()), nil
	}
	body, err = json.Marshal(payload)
	return "application/json", body, err
}

// typeOf returns the type that the producer reads from a delivery of one event; false where it
// reads none.
func typeOf(p *producer.Producer, r *http.Request, body []byte) (string, bool) {
	if p.Split != nil || p.Type == nil {
		return "", false
	}
	kind, err := p.Type.Extract(&producer.Delivery{Request: r, Body: body})
	return kind, err == nil
}

// newLogger logs to the output of the test, until it ends: a handler that still runs then must
// not write to it.
func newLogger(t testing.TB) *slog.Logger {
	out := &testOutput{w: t.Output()}
	t.Cleanup(out.end)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testOutput struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *testOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(line)
}

func (o *testOutput) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
