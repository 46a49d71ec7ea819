package deduptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// must requires that a call succeeded.
func (x *rig) must(err error, call string) {
	x.Helper()
	x.fails(err, nil, call)
}

// fails requires that err is want.
func (x *rig) fails(err, want error, what string) {
	x.Helper()
	if !errors.Is(err, want) {
		x.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// equal requires that two values are equal.
func equal[T comparable](x *rig, what string, got, want T) {
	x.Helper()
	if got != want {
		x.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// same requires that two records are equal in everything that a store keeps.
func (x *rig) same(got, want dedup.Record, what string) {
	x.Helper()
	equal(x, what, text(got), text(want))
}

// count requires that the store holds n records.
func (x *rig) count(n int) {
	x.Helper()
	equal(x, "records", len(x.list(dedup.Filter{})), n)
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

// responds makes a claim that must be known, with the stored response.
func (x *rig) responds(status int, body string, c dedup.Claim) {
	x.Helper()
	got := x.want(dedup.Known, c).Record.Response
	equal(x, "response", fmt.Sprint(got.Status, string(got.Body)), fmt.Sprint(status, body))
}

// stats waits until the counts of the store, which may be a second old, are as wanted.
func (x *rig) stats(what string, wanted func(dedup.Stats) bool) {
	x.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		s, err := x.store.Stats(x.ctx)
		x.must(err, "Stats")
		if wanted(s) {
			return
		}
		if time.Now().After(end) {
			x.Fatalf("%s: %+v", what, s)
		}
	}
}

// idle fails if a task is due, of these handlers if there are any. It waits a moment only.
func (x *rig) idle(why string, handlers ...string) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	ws, err := x.store.Take(ctx, wanting(handlers...))
	if !errors.Is(err, context.DeadlineExceeded) {
		x.Fatalf("Take although %s: %d tasks, %v, want the error of its context", why, len(ws), err)
	}
}

// lost requires that Extend and every kind of Finish refuse the lease and leave the record
// unchanged.
func (x *rig) lost(l dedup.Lease, why string) {
	x.Helper()
	before, _ := x.store.Get(x.ctx, l.Event)
	x.fails(x.store.Extend(x.ctx, l, hour), dedup.ErrLeaseLost, "Extend although "+why)
	for kind := dedup.ResultDone; kind <= dedup.ResultRelease; kind++ {
		r := answer(299, "stale")
		r.Kind, r.After, r.Reason, r.Err = kind, hour, "stale", "stale"
		x.fails(x.store.Finish(x.ctx, l, r), dedup.ErrLeaseLost, fmt.Sprint("Finish of kind ", kind, " although ", why))
	}
	after, _ := x.store.Get(x.ctx, l.Event)
	x.same(after, before, "record after stale calls")
}

// finishMany calls FinishMany, which must return the wanted errors.
func (x *rig) finishMany(all []dedup.LeaseResult, want ...error) {
	x.Helper()
	errs := x.store.FinishMany(x.ctx, all...)
	equal(x, "number of errors", len(errs), len(want))
	for i, err := range errs {
		x.fails(err, want[i], fmt.Sprintf("result %d of %d", i, len(all)))
	}
}

// lasts makes a check, and makes it again after a durable store was opened again.
func (x *rig) lasts(check func()) {
	x.Helper()
	check()
	if x.harness.Reopen != nil {
		x.reopen()
		check()
	}
}

// owns requires that the record of the event stays as it is when the caller changes all that the
// values lead to.
func (x *rig) owns(event string, values ...any) {
	x.Helper()
	kept := text(x.get(event))
	for _, v := range values {
		each(reflect.ValueOf(v).Elem(), spoil)
		equal(x, fmt.Sprintf("record after the caller changed a %T", v), text(x.get(event)), kept)
	}
}

// spoils checks the work of an ordinary event, changes all that it leads to, and returns its lease.
func (x *rig) spoils(w dedup.Work) dedup.Lease {
	x.Helper()
	l, stored, c := w.Lease, x.get(w.Lease.Event), delivery(w.Record.Key.ID)
	if w.Record.Response.Status == 0 { // a store may leave it out
		w.Record.Response = stored.Response
	}
	x.same(w.Record, stored, "work")
	content := dedup.Record{Payload: stored.Payload, Response: stored.Response}
	x.same(content, dedup.Record{Payload: c.Payload, Response: c.Response}, "content")
	each(reflect.ValueOf(&w).Elem(), spoil)
	return l
}

// each calls f for each value that a value leads to.
func each(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				each(v.Field(i), f)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			each(v.Index(i), f)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(v.MapIndex(k))
			each(element, f)
			v.SetMapIndex(k, element)
		}
	}
	f(v)
}

// spoil changes a string or a byte.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("spoilt")
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 1)
	}
}

// text formats a record so that equal records have equal texts: times in UTC, nil and empty alike.
func text(r dedup.Record) string {
	r = r.Clone()
	each(reflect.ValueOf(&r).Elem(), func(v reflect.Value) {
		switch k := v.Kind(); {
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC().Round(0)))
		case (k == reflect.Slice || k == reflect.Map) && v.Len() == 0:
			v.SetZero()
		}
	})
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // every part of a Record has a JSON form
	}
	return string(b)
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
