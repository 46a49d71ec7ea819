package deduptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
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

// runsWith takes a task of the event, which must have the body, and finishes it.
func (x *rig) runsWith(body []byte, event string) {
	x.Helper()
	w := x.takeOf(event)
	if !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("%s runs with %d bytes, want %d", event, len(w.Record.Payload.Body), len(body))
	}
	x.finish(w.Lease, done())
}

// idle fails if a task is due, of these handlers if there are any. It waits a moment only.
func (x *rig) idle(why string, handlers ...string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	ws, err := x.store.Take(ctx, wanting(handlers...))
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

func (x *rig) wakes(next func() dedup.Work, event string) dedup.Work {
	x.Helper()
	w := next()
	equal(x, "event of the waiting Take", w.Record.Event, event)
	return w
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
	w := x.takeUpTo(1, handlers...)[0]
	equal(x, "handler", w.Task().Handler, want)
	x.finish(w.Lease, done())
}

// lists requires the ids of the keys of the records that a filter selects, newest first.
func (x *rig) lists(f dedup.Filter, want string) {
	x.Helper()
	var ids []string
	for _, r := range x.list(f) {
		ids = append(ids, r.Key.ID)
	}
	equal(x, fmt.Sprintf("List(%+v)", f), strings.Join(ids, " "), want)
}

// attempts requires all attempts of the first task of an event.
func attempts(x *rig, event string, want ...string) {
	x.Helper()
	got := []string{}
	task := x.get(event).Tasks[0]
	for _, a := range task.Attempts() {
		got = append(got, strings.TrimSpace(fmt.Sprint(a.Number, " ", a.State, " ", a.Reason, " ", a.Err)))
	}
	equal(x, "attempts", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// spoil changes all that a value leads to.
func spoil(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(v.MapIndex(k))
			spoil(element)
			v.SetMapIndex(k, element)
		}
	case reflect.String:
		v.SetString("spoilt")
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 1)
	}
}

// owner returns a function that changes all that a value leads to. The record of the event must
// stay as it is.
func (x *rig) owner(event string) func(what string, value any) {
	x.Helper()
	kept := text(x.get(event))
	return func(what string, value any) {
		x.Helper()
		spoil(reflect.ValueOf(value).Elem())
		if got := text(x.get(event)); got != kept {
			x.Fatalf("after the caller changed %s:\n got %s\nwant %s", what, got, kept)
		}
	}
}

// spoils checks the work of a precious event, changes all that it leads to, and returns its lease.
func (x *rig) spoils(w dedup.Work) dedup.Lease {
	x.Helper()
	l, stored, c := w.Lease, x.get(w.Lease.Event), precious(w.Record.Key.ID)
	if w.Record.Response.Status == 0 { // a store may leave it out
		w.Record.Response = stored.Response
	}
	x.same(w.Record, stored, "work")
	content := dedup.Record{Payload: stored.Payload, Response: stored.Response}
	x.same(content, dedup.Record{Payload: c.Payload, Response: c.Response}, "content")
	spoil(reflect.ValueOf(&w).Elem())
	return l
}
