package memstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// manualClock only moves when a test moves it.
type manualClock struct{ now time.Time }

func (c *manualClock) Now() time.Time                            { return c.now }
func (c *manualClock) Alarm(time.Time) (<-chan struct{}, func()) { return nil, func() {} }

func event(id string) dedup.Claim {
	return dedup.Claim{
		Key: dedup.Key{ID: id}, Aliases: []dedup.Key{{Space: dedup.SpaceNonce, ID: id}}, Window: time.Hour,
		Payload: dedup.Payload{Body: make([]byte, 1000)},
	}
}

func mustClaim(t *testing.T, m *Store, v dedup.Verdict, c dedup.Claim) dedup.Decision {
	t.Helper()
	ds, err := m.Claim(t.Context(), c)
	if err != nil || ds[0].Verdict != v {
		t.Fatalf("claim of %q: %v, %v; want %v", c.Key.ID, ds, err, v)
	}
	return ds[0]
}

// checkEmpty fails if the store still has anything of deleted events.
func checkEmpty(t *testing.T, m *Store) {
	t.Helper()
	for range len(m.order) { // each call looks at some
		if _, err := m.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	open, running := m.queue.Len()
	if len(m.events)+len(m.keys)+len(m.aliases)+len(m.order)+open+running != 0 {
		t.Errorf("left: %d events, %d keys, %d aliases, %d in order, %d open, %d running",
			len(m.events), len(m.keys), len(m.aliases), len(m.order), open, running)
	}
}

func TestNothingIsLeftOfExpiredRecords(t *testing.T) {
	t.Parallel()
	clock := &manualClock{now: time.Now()}
	m := New(Options{Clock: clock})
	const n = 10 * sweepBound
	for i := range n {
		c := event(fmt.Sprint(i))
		switch i % 4 {
		case 0:
			c.Tasks = []dedup.NewTask{{Handler: "h", Lane: "l"}}
		case 1, 2:
			c.Hold, c.Lease, c.Tasks = true, time.Minute, []dedup.NewTask{{Handler: "h"}}
		}
		d := mustClaim(t, m, dedup.New, c)
		var err error
		switch i % 4 {
		case 0:
			var ws []dedup.Work
			if ws, err = m.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute}); err == nil {
				err = m.Finish(t.Context(), ws[0].Lease, dedup.Result{Kind: dedup.ResultDone})
			}
		case 1: // its claimer disappears
			err = m.Extend(t.Context(), d.Lease, time.Hour)
		case 2:
			err = m.Finish(t.Context(), d.Lease, dedup.Result{Kind: dedup.ResultRelease})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	clock.now = clock.now.Add(3 * time.Hour)
	calls := 0
	for ; len(m.events) > 0 && calls < n; calls++ {
		before := len(m.events)
		if _, err := m.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if before-len(m.events) > sweepBound {
			t.Fatalf("one call dropped %d records", before-len(m.events))
		}
	}
	checkEmpty(t, m)
}

func TestNothingIsLeftOfPurgedRecords(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	for i := range 20 {
		c := event(fmt.Sprint(i))
		c.Tasks, c.Quarantine = []dedup.NewTask{{Handler: "h", Lane: "l"}}, &dedup.Quarantine{Reason: "conflict"}
		d := mustClaim(t, m, dedup.New, c)
		if i%2 == 0 {
			if err := m.Purge(t.Context(), d.Record.Event); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := m.Reopen(t.Context(), d.Record.Event); err != nil {
			t.Fatal(err)
		}
		ws, err := m.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Finish(t.Context(), ws[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
			t.Fatal(err)
		}
		if err := m.Purge(t.Context(), d.Record.Event); err != nil {
			t.Fatal(err)
		}
	}
	checkEmpty(t, m)
}

// TestAWindowThatEndsEarlierIsSweptEarlier finishes a held claim, whose window would otherwise
// start with the end of its lease.
func TestAWindowThatEndsEarlierIsSweptEarlier(t *testing.T) {
	t.Parallel()
	clock := &manualClock{now: time.Now()}
	m := New(Options{Clock: clock})
	c := event("a")
	c.Hold, c.Lease, c.Tasks = true, 1000*time.Hour, []dedup.NewTask{{Handler: "h"}}
	d := mustClaim(t, m, dedup.New, c)
	if err := m.Finish(t.Context(), d.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(time.Hour)
	mustClaim(t, m, dedup.New, event("b"))
	if len(m.events) != 1 {
		t.Errorf("%d events are left", len(m.events))
	}
}

func TestMemoryUsesTheSystemClockByDefault(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	c := event("a")
	c.Tasks = []dedup.NewTask{{Handler: "h"}}
	mustClaim(t, m, dedup.New, c)
	for attempt := 1; attempt <= 3; attempt++ {
		ctx := context.WithoutCancel(t.Context())
		ws, err := m.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Millisecond}) // the lease expires
		if err != nil || ws[0].Task().Attempt != attempt {
			t.Fatalf("attempt %d: %v, %v", attempt, ws, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
