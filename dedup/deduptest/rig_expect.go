package deduptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// want makes a claim whose verdict must be v.
func (x *rig) want(v dedup.Verdict, c dedup.Claim) dedup.Decision {
	x.Helper()
	d := x.claim(c)
	if d.Verdict != v {
		x.Fatalf("claim of %q: verdict %v, want %v (record %s)", c.Key.ID, d.Verdict, v, text(d.Record))
	}
	return d
}

// accept makes a claim that must be new, and returns the id of its event.
func (x *rig) accept(c dedup.Claim) string {
	x.Helper()
	d := x.want(dedup.New, c)
	if d.Record.Event == "" {
		x.Fatalf("new record of %q has no event id", c.Key.ID)
	}
	return d.Record.Event
}

// about makes a claim whose verdict must be v, with the record of the event.
func (x *rig) about(v dedup.Verdict, event string, c dedup.Claim) {
	x.Helper()
	if d := x.want(v, c); d.Record.Event != event {
		x.Fatalf("%v of %q: about %q, want %q", v, c.Key.ID, d.Record.Event, event)
	}
}

// verdicts requires the verdicts of decisions.
func (x *rig) verdicts(ds []dedup.Decision, want ...dedup.Verdict) {
	x.Helper()
	for i, d := range ds {
		if d.Verdict != want[i] {
			x.Errorf("decision %d: %v, want %v", i, d.Verdict, want[i])
		}
	}
}

// equal requires that two values are equal.
func equal[T comparable](x *rig, what string, got, want T) {
	x.Helper()
	if got != want {
		x.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// count requires that the store holds n records.
func (x *rig) count(n int) {
	x.Helper()
	equal(x, "records", len(x.list(dedup.Filter{})), n)
}

// attempt requires the attempt of a task.
func (x *rig) attempt(w dedup.Work, want int) {
	x.Helper()
	equal(x, "attempt", w.Task().Attempt, want)
}

// lists requires the ids of the keys of the records that a filter selects, newest first.
func (x *rig) lists(f dedup.Filter, want string) {
	x.Helper()
	if got := ids(x.list(f)); got != want {
		x.Errorf("List(%+v) returned %q, want %q", f, got, want)
	}
}

// runsWith takes a task of the event, which must have the body, and finishes it.
func (x *rig) runsWith(body []byte, event string) {
	x.Helper()
	w := x.takeOf(event)
	if !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("%s runs with %d bytes, want %d", event, len(w.Record.Payload.Body), len(body))
	}
	x.finish(w.Lease, done())
}

// idle fails if a task is due. It waits a moment only, so it may miss one.
func (x *rig) idle(why string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	ws, err := x.store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 30, Lease: minute})
	if err == nil {
		x.Fatalf("Take returned work although %s: %d tasks, %v", why, len(ws), ws)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		x.Fatalf("Take until the context ended: %v, want the context's error", err)
	}
}

// lost checks that Extend and every kind of Finish refuse the lease and leave the record unchanged.
func (x *rig) lost(l dedup.Lease, why string) {
	x.Helper()
	before, getErr := x.store.Get(x.ctx, l.Event)
	if err := x.store.Extend(x.ctx, l, hour); !errors.Is(err, dedup.ErrLeaseLost) {
		x.Errorf("Extend although %s: %v, want ErrLeaseLost", why, err)
	}
	for kind := dedup.ResultDone; kind <= dedup.ResultRelease; kind++ {
		r := answer(299, "stale")
		r.Kind, r.After, r.Reason, r.Err = kind, hour, "stale", "stale"
		if err := x.store.Finish(x.ctx, l, r); !errors.Is(err, dedup.ErrLeaseLost) {
			x.Errorf("Finish with kind %d although %s: %v, want ErrLeaseLost", kind, why, err)
		}
	}
	after, err := x.store.Get(x.ctx, l.Event)
	if getErr == nil && err == nil {
		x.same(after, before, "record after stale calls")
	}
}

// must requires that a call succeeded.
func (x *rig) must(err error, call string) {
	x.Helper()
	if err != nil {
		x.Fatalf("%s: %v", call, err)
	}
}

// fails requires that err is want.
func (x *rig) fails(err, want error, what string) {
	x.Helper()
	if !errors.Is(err, want) {
		x.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// failsReopen requires that Reopen fails with an error.
func (x *rig) failsReopen(want error, event string, tasks ...dedup.NewTask) {
	x.Helper()
	_, err := x.store.Reopen(x.ctx, event, tasks...)
	x.fails(err, want, fmt.Sprintf("Reopen of %q with %v", event, tasks))
}

// continues requires that the second of two held claims continues the event of the first.
func (x *rig) continues(second, first dedup.Decision) {
	x.Helper()
	for _, r := range []dedup.Record{second.Record, x.get(second.Record.Event)} {
		if r.Event != first.Record.Event || r.Tasks[0].Attempt != 2 {
			x.Errorf("second: %s", text(r))
		}
	}
}

// newer requires that a lease has a larger token than an earlier one.
func (x *rig) newer(l, than dedup.Lease) {
	x.Helper()
	if l.Token <= than.Token {
		x.Errorf("token %d after %d", l.Token, than.Token)
	}
}

// responds requires the stored response of a decision.
func (x *rig) responds(d dedup.Decision, status int, body string) {
	x.Helper()
	if got := d.Record.Response; got.Status != status || string(got.Body) != body {
		x.Errorf("response %+v, want %d %q", got, status, body)
	}
}

// same requires that two records are equal in everything that a store keeps.
func (x *rig) same(got, want dedup.Record, what string) {
	x.Helper()
	if g, w := text(got), text(want); g != w {
		x.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// finishMany calls FinishMany, which must return the wanted errors.
func (x *rig) finishMany(all []dedup.LeaseResult, want ...error) {
	x.Helper()
	errs := x.store.FinishMany(x.ctx, all...)
	equal(x, "number of errors", len(errs), len(want))
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			x.Errorf("result %d of %d: %v, want %v", i, len(all), err, want[i])
		}
	}
}

// spoil checks the record of a task of a precious event, and changes all that it holds.
func (x *rig) spoil(event string, w dedup.Work) {
	x.Helper()
	r := &w.Record
	stored := x.get(event)
	if r.Response.Status == 0 { // a store may leave it out
		r.Response = stored.Response
	}
	x.same(stored, *r, "the stored record")
	if p := r.Payload; p.Header.Get("Content-Type") != "text/plain" || p.Attributes["source"] != "here" ||
		string(p.Body) != "body of "+r.Key.ID || p.Type != "order.paid" {
		x.Errorf("payload %+v", p)
	}
	if a := r.Response; a.Header.Get("Location") != "/a" || string(a.Body) != "kept" {
		x.Errorf("response %+v", a)
	}
	r.Payload.Header["Content-Type"][0], r.Payload.Attributes["source"] = "changed", "changed"
	r.Response.Header["Location"][0], r.Response.Body[0] = "changed", 'X'
	r.Payload.Body[0] = 'X'
}

func (x *rig) state(event string, task int, want dedup.State) {
	x.Helper()
	equal(x, "state of the task", x.get(event).Tasks[task].State, want)
}

func (x *rig) body(event string, want []byte) {
	x.Helper()
	if got := x.get(event).Payload.Body; !bytes.Equal(got, want) {
		x.Fatalf("body of %s: %d bytes, want %d", event, len(got), len(want))
	}
}

func (x *rig) wakes(next func() dedup.Work, event string) {
	x.Helper()
	if w := next(); w.Record.Event != event {
		x.Fatalf("the waiting Take returned %s, want event %s", text(w.Record), event)
	}
}

// counts waits until the store counts these tasks and acceptances. Other counts may be estimates.
func (x *rig) counts(what string, want dedup.Stats) dedup.Stats {
	x.Helper()
	return x.stats(what, func(s dedup.Stats) bool {
		return s.Pending == want.Pending && s.Running == want.Running && s.Dead == want.Dead &&
			s.Accepted == want.Accepted && (want.Pending+want.Running > 0 || s.Backlog == 0)
	})
}

// generationsAre requires that the records of a key have exactly these generations, in
// ascending order.
func (x *rig) generationsAre(id string, want ...int) {
	x.Helper()
	var have []int
	for _, r := range x.list(dedup.Filter{ID: id}) { // newest first
		have = append(have, r.Generation)
	}
	slices.Reverse(have)
	if !slices.Equal(have, want) || !slices.IsSorted(have) || len(slices.Compact(slices.Clone(have))) != len(want) {
		x.Errorf("the records of %q have generations %v, want %v, each larger than the one before", id, have, want)
	}
}

// text formats a record so that equal records have equal texts: times in UTC, nil and empty alike.
func text(r dedup.Record) string {
	c := r.Clone()
	for _, t := range []*time.Time{&c.Accepted, &c.Finished, &c.Expires} {
		*t = plain(*t)
	}
	for i := range c.Tasks {
		for _, t := range []*time.Time{&c.Tasks[i].Due, &c.Tasks[i].Started, &c.Tasks[i].Ended, &c.Tasks[i].Until} {
			*t = plain(*t)
		}
		history := c.Tasks[i].History
		for j := range history {
			history[j].Started, history[j].Ended = plain(history[j].Started), plain(history[j].Ended)
		}
		c.Tasks[i].History = append([]dedup.Attempt{}, history...)
	}
	c.Payload.Header, c.Response.Header = plainHeader(c.Payload.Header), plainHeader(c.Response.Header)
	c.Payload.Body, c.Response.Body = append([]byte{}, c.Payload.Body...), append([]byte{}, c.Response.Body...)
	if len(c.Payload.Attributes) == 0 {
		c.Payload.Attributes = nil
	}
	c.Aliases, c.Tasks = append([]dedup.Key{}, c.Aliases...), append([]dedup.Task{}, c.Tasks...)
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // every part of a Record has a JSON form
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

// undescribed returns the record as a Known decision shows it.
func undescribed(r dedup.Record) dedup.Record {
	r.Aliases, r.Payload = nil, dedup.Payload{}
	return r
}

// bare returns the record without its body.
func bare(r dedup.Record) dedup.Record {
	r.Payload.Body = nil
	return r
}

// runsFor takes a task for a caller with handlers, which must be of one of them, and finishes it.
func (x *rig) runsFor(want string, handlers ...string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	ws, err := x.store.Take(ctx, wanting(handlers...))
	x.must(err, "Take with work due")
	if len(ws) != 1 || ws[0].Task().Handler != want {
		x.Fatalf("Take for %q returned %s, want a task of %s", handlers, text(ws[0].Record), want)
	}
	x.finish(ws[0].Lease, done())
}

// idleFor fails if a task is due for a caller with handlers. It may miss one.
func (x *rig) idleFor(why string, handlers ...string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	ws, err := x.store.Take(ctx, wanting(handlers...))
	if err == nil {
		x.Fatalf("Take for %q returned %s although %s", handlers, text(ws[0].Record), why)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		x.Fatalf("Take until the context ended: %v, want the context's error", err)
	}
}

// interrupted accepts events, starts their tasks together, and lets all leases run out.
func (x *rig) interrupted(keys ...string) (events []string) {
	x.Helper()
	for _, id := range keys {
		events = append(events, x.accept(delivery(id)))
	}
	for started := 0; started < len(keys); {
		started += len(x.takeUpTo(len(keys), 1<<30, minute))
	}
	x.advance(minute)
	return events
}

// suspect takes as many tasks as there are, which must be an interrupted one.
func (x *rig) suspect() dedup.Work {
	x.Helper()
	ws := x.takeUpTo(10, 1<<30, minute)
	if len(ws) != 1 || !ws[0].Task().Interrupted() {
		x.Fatalf("%d tasks run together, the first %s; want an interrupted one", len(ws), text(ws[0].Record))
	}
	return ws[0]
}
