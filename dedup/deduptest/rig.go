package deduptest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// rig is one check's store with the calls that checks make most.
type rig struct {
	*testing.T
	harness Harness
	clock   *Clock
	store   dedup.Store
	ctx     context.Context
}

func newRig(t *testing.T, h Harness) *rig {
	t.Helper()
	clock := NewClock()
	ctx, cancel := context.WithTimeout(t.Context(), 4*Patience)
	x := &rig{T: t, harness: h, clock: clock, store: h.Open(t, clock), ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if err := x.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return x
}

// advance moves the clock, or ends the check where the store has its own.
func (x *rig) advance(d time.Duration) {
	x.Helper()
	if x.harness.OwnClock {
		x.Skip("the store lives by a clock of its own")
	}
	x.clock.Advance(d)
}

// reopen closes the store and opens it again, or ends the check where it forgets.
func (x *rig) reopen() {
	x.Helper()
	if x.harness.Reopen == nil {
		x.Skip("the store forgets when it is closed")
	}
	x.store = x.harness.Reopen(x.T, x.store, x.clock)
}

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// key is an ordinary key.
func key(id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", ID: id}
}

// fingerprint is a fingerprint that is not zero.
func fingerprint(b byte) dedup.Fingerprint { return dedup.Fingerprint{0: 1, 31: b} }

// delivery is an ordinary event with one task.
func delivery(id string) dedup.Claim {
	return dedup.Claim{
		Key:         key(id),
		Fingerprint: fingerprint(1),
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid", KeyField: `"` + id + `"`,
			Method: http.MethodPost, Target: "/webhooks/orders?x=%41",
			Header:     http.Header{"Content-Type": {"application/json"}},
			Attributes: map[string]string{"source": "till 7"},
			Body:       []byte("body of " + id),
		},
		Response: dedup.Response{Status: 202, Body: []byte("accepted")},
		Tasks:    []dedup.NewTask{{Handler: "ship"}},
	}
}

// held is an ordinary event whose handler answers the request itself, for a minute.
func held(id string) dedup.Claim {
	c := delivery(id)
	c.Response, c.Hold, c.Lease = dedup.Response{}, true, minute
	return c
}

// claim makes one claim.
func (x *rig) claim(c dedup.Claim) dedup.Decision {
	x.Helper()
	return x.claims(c)[0]
}

func (x *rig) claims(cs ...dedup.Claim) []dedup.Decision {
	x.Helper()
	ds, err := x.store.Claim(x.ctx, cs...)
	if err != nil {
		x.Fatalf("Claim: %v", err)
	}
	if len(ds) != len(cs) {
		x.Fatalf("Claim of %d: %d decisions", len(cs), len(ds))
	}
	return ds
}

// want makes one claim, whose verdict must be v.
func (x *rig) want(v dedup.Verdict, c dedup.Claim) dedup.Decision {
	x.Helper()
	d := x.claim(c)
	if d.Verdict != v {
		x.Fatalf("claim of %q: verdict %v, want %v (record %s)", c.Key.ID, d.Verdict, v, text(d.Record))
	}
	return d
}

// accept claims an event that must be new, and returns its id.
func (x *rig) accept(c dedup.Claim) string {
	x.Helper()
	d := x.want(dedup.New, c)
	if d.Record.Event == "" {
		x.Fatalf("new record of %q has no event id", c.Key.ID)
	}
	return d.Record.Event
}

// oneOfEach accepts an event with four tasks, whose handlers are called as they stand: done, dead, runs and waits
// (for an hour). runs is the lease of the running one.
func (x *rig) oneOfEach() (event string, runs dedup.Lease) {
	x.Helper()
	c := delivery("a")
	c.Tasks = []dedup.NewTask{{Handler: "done"}, {Handler: "dead"}, {Handler: "runs"}, {Handler: "waits"}}
	event = x.accept(c)
	for range c.Tasks {
		switch w := x.take(); w.Task().Handler {
		case "done":
			x.finish(w.Lease, done())
		case "dead":
			x.finish(w.Lease, dead())
		case "waits":
			x.finish(w.Lease, retry(hour))
		default:
			runs = w.Lease
		}
	}
	return event, runs
}

// take takes one task for a minute; one must be due.
func (x *rig) take() dedup.Work {
	x.Helper()
	return x.takeUpTo(1, 1<<30, minute)[0]
}

// takeUpTo takes tasks, of which at least one must be due.
func (x *rig) takeUpTo(n int, bytes int64, lease time.Duration) []dedup.Work {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, Patience)
	defer cancel()
	ws, err := x.store.Take(ctx, n, bytes, lease)
	if err != nil {
		x.Fatalf("Take, with work due: %v", err)
	}
	if len(ws) == 0 || len(ws) > n {
		x.Fatalf("Take of up to %d: %d tasks", n, len(ws))
	}
	return ws
}

// takeOf takes one task, which must be of the event.
func (x *rig) takeOf(event string) dedup.Work {
	x.Helper()
	w := x.take()
	if w.Record.Event != event {
		x.Fatalf("Take gave %s, want event %s", text(w.Record), event)
	}
	return w
}

// idle fails when a task is due. It asks for a moment only, so it may miss one but never invents one.
func (x *rig) idle(why string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	ws, err := x.store.Take(ctx, 1, 1<<30, minute)
	if err == nil {
		x.Fatalf("Take gave work although %s: %d tasks, %v", why, len(ws), ws)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		x.Fatalf("Take until the context ended: %v, want the context's error", err)
	}
}

// finish finishes leased work, which must succeed.
func (x *rig) finish(l dedup.Lease, r dedup.Result) {
	x.Helper()
	if err := x.store.Finish(x.ctx, l, r); err != nil {
		x.Fatalf("Finish %+v: %v", l, err)
	}
}

// lost checks that the lease is refused by Extend and by every kind of Finish, and that the record is then as
// before.
func (x *rig) lost(l dedup.Lease, why string) {
	x.Helper()
	before, getErr := x.store.Get(x.ctx, l.Event)
	if err := x.store.Extend(x.ctx, l, hour); !errors.Is(err, dedup.ErrLeaseLost) {
		x.Errorf("Extend although %s: %v, want ErrLeaseLost", why, err)
	}
	for kind := dedup.ResultDone; kind <= dedup.ResultRelease; kind++ {
		r := dedup.Result{Kind: kind, After: hour, Reason: "stale", Err: "stale", Response: dedup.Response{Status: 299, Body: []byte("stale")}}
		if err := x.store.Finish(x.ctx, l, r); !errors.Is(err, dedup.ErrLeaseLost) {
			x.Errorf("Finish with kind %d although %s: %v, want ErrLeaseLost", kind, why, err)
		}
	}
	after, err := x.store.Get(x.ctx, l.Event)
	if getErr == nil && err == nil {
		x.same(after, before, "record after stale calls")
	}
}

func done() dedup.Result { return dedup.Result{Kind: dedup.ResultDone} }
func dead() dedup.Result {
	return dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted", Err: "no more attempts"}
}
func release() dedup.Result { return dedup.Result{Kind: dedup.ResultRelease} }
func retry(after time.Duration) dedup.Result {
	return dedup.Result{Kind: dedup.ResultRetry, After: after, Reason: "failed", Err: "connection refused"}
}
func answer(status int, body string) dedup.Result {
	return dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{
		Status: status, Header: http.Header{"Content-Type": {"text/plain"}, "Location": {"/orders/1"}}, Body: []byte(body),
	}}
}

// get returns the record of an event that must be there.
func (x *rig) get(event string) dedup.Record {
	x.Helper()
	r, err := x.store.Get(x.ctx, event)
	if err != nil {
		x.Fatalf("Get %s: %v", event, err)
	}
	return r
}

func (x *rig) list(f dedup.Filter) []dedup.Record {
	x.Helper()
	var out []dedup.Record
	for r, err := range x.store.List(x.ctx, f) {
		if err != nil {
			x.Fatalf("List: %v", err)
		}
		out = append(out, r)
	}
	return out
}

// fails checks that an error is the expected one.
func (x *rig) fails(err, want error, what string) {
	x.Helper()
	if !errors.Is(err, want) {
		x.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// same compares records in everything that a store keeps.
func (x *rig) same(got, want dedup.Record, what string) {
	x.Helper()
	if g, w := text(got), text(want); g != w {
		x.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// state checks the state of a task.
func (x *rig) state(event string, task int, want dedup.State) {
	x.Helper()
	if got := x.get(event).Tasks[task].State; got != want {
		x.Fatalf("task %d is %v, want %v", task, got, want)
	}
}

// text writes a record so that equal ones read the same: times in UTC, nothing and empty alike.
func text(r dedup.Record) string {
	c := r.Clone()
	for _, t := range []*time.Time{&c.Accepted, &c.Finished, &c.Expires} {
		*t = plain(*t)
	}
	for i := range c.Tasks {
		for _, t := range []*time.Time{&c.Tasks[i].Due, &c.Tasks[i].Started, &c.Tasks[i].Ended, &c.Tasks[i].Until} {
			*t = plain(*t)
		}
	}
	c.Payload.Header, c.Response.Header = plainHeader(c.Payload.Header), plainHeader(c.Response.Header)
	c.Payload.Body, c.Response.Body = append([]byte{}, c.Payload.Body...), append([]byte{}, c.Response.Body...)
	if len(c.Payload.Attributes) == 0 {
		c.Payload.Attributes = nil
	}
	c.Aliases, c.Tasks = append([]dedup.Key{}, c.Aliases...), append([]dedup.Task{}, c.Tasks...)
	c.Sharers = append([]string{}, c.Sharers...)
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // a Record is made of values that have a JSON form
	}
	return string(b)
}

func plain(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}

func plainHeader(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	return h
}

// bare returns the record as it is shown without its body.
func bare(r dedup.Record) dedup.Record {
	r.Payload.Body = nil
	return r
}
