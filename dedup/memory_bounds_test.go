package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// manualClock only moves when a test moves it.
type manualClock struct{ now time.Time }

func (c *manualClock) Now() time.Time                            { return c.now }
func (c *manualClock) Alarm(time.Time) (<-chan struct{}, func()) { return nil, func() {} }

func event(id string) Claim {
	return Claim{
		Key: Key{ID: id}, Aliases: []Key{{Space: SpaceNonce, ID: id}}, Window: time.Hour,
		Payload: Payload{Body: make([]byte, 1000)},
	}
}

func mustClaim(t *testing.T, m *Memory, v Verdict, c Claim) Decision {
	t.Helper()
	ds, err := m.Claim(t.Context(), c)
	if err != nil || ds[0].Verdict != v {
		t.Fatalf("claim of %q: %v, %v; want %v", c.Key.ID, ds, err, v)
	}
	return ds[0]
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if full := (*ErrUnavailable)(nil); !errors.As(err, &full) || full.Reason == "" {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
}

func TestAFullMemoryRefusesNewRecordsAndAnswersKnownOnes(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]MemoryOptions{
		"records": {MaxRecords: 3},
		"bytes":   {MaxBytes: 3*1640 + 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &manualClock{now: time.Now()}
			options.Clock = clock
			m := NewMemory(options)
			mustClaim(t, m, New, event("a"))
			mustClaim(t, m, New, event("b"))
			if _, err := m.Claim(t.Context(), event("c"), event("d")); err == nil {
				t.Fatal("two records fit where one does")
			} else {
				wantFull(t, err)
			}
			if s, err := m.Stats(t.Context()); err != nil || s.Records != 2 || s.Accepted != 2 {
				t.Fatalf("a refused call left %+v, %v", s, err)
			}
			mustClaim(t, m, New, event("c"))
			if _, err := m.Claim(t.Context(), event("d")); err == nil {
				t.Fatal("a fourth record")
			} else {
				wantFull(t, err)
			}
			if name == "records" {
				wantFull(t, m.Health(t.Context()))
			}
			mustClaim(t, m, Known, event("a"))
			clock.now = clock.now.Add(time.Hour)
			mustClaim(t, m, New, event("d"))
			if err := m.Health(t.Context()); err != nil {
				t.Errorf("after a record was forgotten: %v", err)
			}
		})
	}
}

func TestAFullMemorySweepsBeyondDeadLetters(t *testing.T) {
	t.Parallel()
	clock := &manualClock{now: time.Now()}
	m := NewMemory(MemoryOptions{Clock: clock, MaxRecords: 4 * sweepBound})
	for i := range 4*sweepBound - 1 {
		c := event(fmt.Sprint(i))
		c.Tasks, c.Quarantine = []NewTask{{Handler: "h"}}, &Quarantine{Reason: "conflict"}
		mustClaim(t, m, New, c)
	}
	clock.now = clock.now.Add(time.Second)
	mustClaim(t, m, New, event("expires"))
	clock.now = clock.now.Add(time.Hour)
	mustClaim(t, m, New, event("fits")) // although more dead letters are queued first than one sweep handles
	if _, err := m.Claim(t.Context(), event("more")); err == nil {
		t.Fatal("a dead letter was forgotten")
	}
}

func TestAGrowingClaimIsBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{MaxBytes: 3000})
	c := event("a")
	c.Hold, c.Lease, c.Tasks = true, time.Minute, []NewTask{{Handler: "h"}}
	d := mustClaim(t, m, New, c)
	if err := m.Finish(t.Context(), d.Lease, Result{Kind: ResultRelease}); err != nil {
		t.Fatal(err)
	}
	c.Aliases = []Key{{Space: SpaceNonce, ID: strings.Repeat("n", 2500)}}
	_, err := m.Claim(t.Context(), c)
	wantFull(t, err)
	c.Aliases[0].ID = "n"
	mustClaim(t, m, New, c)
}

// checkEmpty fails if the store still has anything of deleted events.
func checkEmpty(t *testing.T, m *Memory) {
	t.Helper()
	open, running := m.queue.Len()
	if len(m.events)+len(m.names.keys)+len(m.names.aliases)+len(m.order)+open+running != 0 {
		t.Errorf("left: %d events, %d keys, %d aliases, %d in order, %d open, %d running",
			len(m.events), len(m.names.keys), len(m.names.aliases), len(m.order), open, running)
	}
	if m.bytes != 0 || m.backlog != 0 || m.dead != 0 || m.held != 0 || m.freed != 0 || m.stale != 0 {
		t.Errorf("left: %d bytes, backlog %d, %d dead, %d held, %d freed, %d stale",
			m.bytes, m.backlog, m.dead, m.held, m.freed, m.stale)
	}
}

func TestNothingIsLeftOfExpiredRecords(t *testing.T) {
	t.Parallel()
	clock := &manualClock{now: time.Now()}
	m := NewMemory(MemoryOptions{Clock: clock})
	const n = 10 * sweepBound
	for i := range n {
		c := event(fmt.Sprint(i))
		switch i % 4 {
		case 0:
			c.Tasks = []NewTask{{Handler: "h", Lane: "l"}}
		case 1, 2:
			c.Hold, c.Lease, c.Tasks = true, time.Minute, []NewTask{{Handler: "h"}}
		}
		d := mustClaim(t, m, New, c)
		var err error
		switch i % 4 {
		case 0:
			var ws []Work
			if ws, err = m.Take(t.Context(), Want{Tasks: 1, Bytes: 1, Lease: time.Minute}); err == nil {
				err = m.Finish(t.Context(), ws[0].Lease, Result{Kind: ResultDone})
			}
		case 1: // its claimer disappears
			err = m.Extend(t.Context(), d.Lease, time.Hour)
		case 2:
			err = m.Finish(t.Context(), d.Lease, Result{Kind: ResultRelease})
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
	if m.windows.Len() != 0 {
		t.Errorf("%d windows are left", m.windows.Len())
	}
	checkEmpty(t, m)
}

func TestNothingIsLeftOfPurgedRecords(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	for i := range 20 {
		c := event(fmt.Sprint(i))
		c.Tasks, c.Quarantine = []NewTask{{Handler: "h", Lane: "l"}}, &Quarantine{Reason: "conflict"}
		d := mustClaim(t, m, New, c)
		if i%2 == 0 {
			if err := m.Purge(t.Context(), d.Record.Event); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := m.Reopen(t.Context(), d.Record.Event); err != nil {
			t.Fatal(err)
		}
		ws, err := m.Take(t.Context(), Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Finish(t.Context(), ws[0].Lease, Result{Kind: ResultDone}); err != nil {
			t.Fatal(err)
		}
		if err := m.Purge(t.Context(), d.Record.Event); err != nil {
			t.Fatal(err)
		}
	}
	checkEmpty(t, m)
	if m.windows.Len() != 0 {
		t.Errorf("%d windows of purged records are left", m.windows.Len())
	}
}

// TestAClaimThatNeverFitsIsTooLarge checks that a claim larger than the whole store is not
// retried.
func TestAClaimThatNeverFitsIsTooLarge(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]MemoryOptions{"records": {MaxRecords: 1}, "bytes": {MaxBytes: 2000}} {
		m := NewMemory(o)
		if _, err := m.Claim(t.Context(), event("a"), event("b")); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
		mustClaim(t, m, New, event("a"))
		_, err := m.Claim(t.Context(), event("b"))
		wantFull(t, err)
	}
}

func TestNamesCountAsBytes(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{MaxBytes: 1 << 20})
	long := strings.Repeat("x", 1<<10)
	for i := 0; ; i++ {
		c := Claim{Key: Key{ID: fmt.Sprint(i, long), Principal: long, Endpoint: long}}
		for a := range 8 {
			c.Aliases = append(c.Aliases, Key{Space: SpaceNonce, ID: fmt.Sprint(i, a, long)})
		}
		if _, err := m.Claim(t.Context(), c); err != nil {
			wantFull(t, err)
			return
		}
		if i > 1<<20/(8<<10) {
			t.Fatalf("%d names of 8 KiB fit 1 MiB", i)
		}
	}
}

// TestAWindowThatEndsEarlierIsSweptEarlier finishes a held claim, whose window would otherwise
// start with the end of its lease.
func TestAWindowThatEndsEarlierIsSweptEarlier(t *testing.T) {
	t.Parallel()
	clock := &manualClock{now: time.Now()}
	m := NewMemory(MemoryOptions{Clock: clock, MaxRecords: 1})
	c := event("a")
	c.Hold, c.Lease, c.Tasks = true, 1000*time.Hour, []NewTask{{Handler: "h"}}
	d := mustClaim(t, m, New, c)
	if err := m.Finish(t.Context(), d.Lease, Result{Kind: ResultDone}); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(time.Hour)
	mustClaim(t, m, New, event("b"))
}

func TestMemoryUsesTheSystemClockByDefault(t *testing.T) {
	t.Parallel()
	m := NewMemory(MemoryOptions{})
	c := event("a")
	c.Tasks = []NewTask{{Handler: "h"}}
	mustClaim(t, m, New, c)
	for attempt := 1; attempt <= 3; attempt++ {
		ctx := context.WithoutCancel(t.Context())
		ws, err := m.Take(ctx, Want{Tasks: 1, Bytes: 1, Lease: time.Millisecond}) // the lease expires
		if err != nil || ws[0].Task().Attempt != attempt {
			t.Fatalf("attempt %d: %v, %v", attempt, ws, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
