package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, "", Options{})
	for i, size := range []int{0, 25 << 20} {
		c := event(fmt.Sprint("size ", size), "ship")
		c.Payload.Body = bytes.Repeat([]byte{0xfe}, size)
		claim(t, s, c, dedup.New)
		w := takeOne(t, s)
		if !bytes.Equal(w.Record.Payload.Body, c.Payload.Body) {
			t.Errorf("a body of %d bytes is %d", size, len(w.Record.Payload.Body))
		}
		result := done
		result.Err = strings.Repeat("x", maxResult+i)
		if err := s.Finish(t.Context(), w.Lease, result); errors.Is(err, dedup.ErrTooLarge) != (i > 0) {
			t.Errorf("a result of %d bytes: %v", len(result.Err), err)
		}
	}
	batch := make([]dedup.Claim, maxClaims+1)
	for i := range batch {
		batch[i] = event(fmt.Sprint("k", i), "ship")
	}
	if _, err := s.Claim(t.Context(), batch...); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("%d claims: %v", len(batch), err)
	}
	for _, want := range []dedup.Verdict{dedup.New, dedup.Known} {
		ds, err := s.Claim(t.Context(), batch[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range ds {
			if d.Verdict != want || i > 0 && d.Record.Seq <= ds[i-1].Record.Seq {
				t.Fatalf("claim %d: %v after %d", i, d.Verdict, d.Record.Seq)
			}
		}
	}
	large := event("large")
	large.Payload.Body = make([]byte, maxBytes+1)
	if _, err := s.Claim(t.Context(), large); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("%d bytes: %v", maxBytes+1, err)
	}
}

// TestForeignLeasesAndEventsAreUnknown uses those of another store, and what no store ever made.
func TestForeignLeasesAndEventsAreUnknown(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, "", Options{})
	other, _ := newStore(t, "", Options{})
	for i := range 9 {
		claim(t, other, event(fmt.Sprint("other ", i), "ship"), dedup.New)
		claim(t, s, event(fmt.Sprint("own ", i), "ship"), dedup.New)
	}
	own, foreign := takeOne(t, s), takeOne(t, other)
	names := []string{
		foreign.Record.Event, own.Record.Event[:17] + "zzzzzz", own.Record.Event[:17] + "-1", own.Record.Event + "\x00",
		foreign.Record.Event[:16] + own.Record.Event[16:], // the number of an event of this store
		strings.ToUpper(own.Record.Event), "", "-",
		strings.Repeat("0", 16) + "-zzzzzzzzzzzzzzzzzzzz", strings.Repeat("\xff", 1024),
	}
	for _, name := range names {
		l := own.Lease
		l.Event = name
		for call, err := range map[string]error{
			"finish": s.Finish(t.Context(), l, done),
			"retry":  s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry}),
			"extend": s.Extend(t.Context(), l, time.Hour),
			"transaction": s.InTx(t.Context(), l, txTypes["pgx"], func(context.Context, any) (dedup.Result, error) {
				return done, nil
			}),
		} {
			if !errors.Is(err, dedup.ErrLeaseLost) {
				t.Errorf("%s of %q: %v", call, name, err)
			}
		}
		_, get := s.Get(t.Context(), name)
		_, reopen := s.Reopen(t.Context(), name)
		_, run := s.RunNow(t.Context(), name)
		purge := s.Purge(t.Context(), name)
		for call, err := range map[string]error{"get": get, "reopen": reopen, "run": run, "purge": purge} {
			if !errors.Is(err, dedup.ErrNotFound) {
				t.Errorf("%s of %q: %v", call, name, err)
			}
		}
		for r := range s.List(t.Context(), dedup.Filter{Event: name}) {
			if name != "" {
				t.Errorf("%q lists %s", name, r.Event)
			}
		}
	}
	for _, task := range []int{-1, 1, 1 << 15, 1 << 31} {
		l := own.Lease
		l.Task = task
		if err := s.Finish(t.Context(), l, done); !errors.Is(err, dedup.ErrLeaseLost) {
			t.Errorf("task %d: %v", task, err)
		}
	}
	if err := s.Finish(t.Context(), own.Lease, done); err != nil {
		t.Error(err)
	}
}

// TestAnEventThatIsGoneIsReadOnce has a claim that refers to an event that was purged, beside one
// that needs more than was read at first.
func TestAnEventThatIsGoneIsReadOnce(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, "", Options{})
	original := claim(t, s, event("a"), dedup.New).Record.Event
	if err := s.Purge(t.Context(), original); err != nil {
		t.Fatal(err)
	}
	replayed, occurring := event("replayed"), occurs(event("b"), "first", 2)
	replayed.Key.Space = dedup.SpaceQuarantine
	replayed.Quarantine = &dedup.Quarantine{Reason: "replayed", Of: original, Max: 9}
	occurring.Occurrence.Slots = []dedup.Key{{Space: dedup.SpaceSlot, ID: "1"}, {Space: dedup.SpaceSlot, ID: "2"}}
	ds, err := s.Claim(t.Context(), replayed, occurring)
	if err != nil || ds[0].Verdict != dedup.New || ds[1].Verdict != dedup.New {
		t.Errorf("%+v, %v", ds, err)
	}
}
