package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// wantOf is a Want of one task of a handler. Others are missing after an hour.
func wantOf(handler string) dedup.Want {
	return dedup.Want{
		Tasks: 1, Bytes: 1 << 20, Lease: time.Minute, Handlers: []string{handler}, OrphanAfter: time.Hour,
	}
}

// wantNothingFor looks for tasks of a handler and of those that are missing.
func wantNothingFor(t *testing.T, s *Store, handler, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if works, err := s.Take(ctx, wantOf(handler)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %d tasks, %v", why, len(works), err)
	}
}

// wantTaskOf looks for tasks of a handler and of those that are missing, and gets one.
func wantTaskOf(t *testing.T, s *Store, handler, of string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	works, err := s.Take(ctx, wantOf(handler))
	if err != nil || works[0].Task().Handler != of {
		t.Errorf("a task of %s for %s: %+v, %v", of, handler, works, err)
	}
}

// TestNoHandlerIsMissingAfterAnOutage lets two stores lose their database for two hours. The first
// that has it again leaves the tasks of the other one.
func TestNoHandlerIsMissingAfterAnOutage(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	ships, mails := stores[0], stores[1]
	sees := func(s *Store) {
		t.Helper()
		if err := s.handlers.see(t.Context(), s.db); err != nil {
			t.Fatal(err)
		}
	}
	wantNothingFor(t, ships, "ship", "no tasks")
	wantNothingFor(t, mails, "mail", "no tasks")
	claim(t, mails, event("one", "ship"), dedup.New)
	clock.Advance(2 * time.Hour)
	seen := &mails.handlers.seen
	seen.mu.Lock()
	seen.last = seen.last.Add(-2 * time.Hour)
	seen.mu.Unlock()
	wantNothingFor(t, mails, "mail", "before it reported its handler again")
	sees(mails)
	clock.Advance(59 * time.Minute)
	wantNothingFor(t, mails, "mail", "the other store has an hour to report its handler")
	sees(ships)
	clock.Advance(59 * time.Minute)
	wantNothingFor(t, mails, "mail", "the other store has reported its handler")
	if err := ships.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	wantTaskOf(t, mails, "mail", "ship")
}

// TestNoHandlerIsMissingAtTheStart opens a store two hours after the others were closed. A handler
// that no store has named may be missing at once.
func TestNoHandlerIsMissingAtTheStart(t *testing.T) {
	t.Parallel()
	dsn, schema := newSchema(t)
	clock := deduptest.NewClock()
	s := openAt(t, dsn, schema, clock)
	wantNothingFor(t, s, "ship", "no tasks")
	claim(t, s, event("one", "ship"), dedup.New)
	claim(t, s, event("two", "bill"), dedup.New)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	s = openAt(t, dsn, schema, clock)
	defer s.Close()
	wantNothingFor(t, s, "mail", "it was just opened")
	now := wantOf("mail")
	now.Tasks, now.OrphanAfter = 2, 0
	works, err := s.Take(t.Context(), now)
	if err != nil || len(works) != 1 || works[0].Task().Handler != "bill" {
		t.Errorf("%+v, %v", works, err)
	}
	clock.Advance(time.Hour - time.Millisecond)
	wantNothingFor(t, s, "mail", "it was opened less than an hour ago")
	clock.Advance(time.Millisecond)
	wantTaskOf(t, s, "mail", "ship")
}

// TestSightingsHaveGaps adds sightings at times of the store and of the server.
func TestSightingsHaveGaps(t *testing.T) {
	t.Parallel()
	var s sightings
	began := time.Now()
	for _, row := range []struct{ at, first time.Duration }{
		{0, 0}, {5 * time.Second, 0}, {20 * time.Second, 0}, {36 * time.Second, 36 * time.Second},
		{40 * time.Second, 36 * time.Second}, {10 * time.Second, 10 * time.Second}, // of a server whose clock is slow
		{9 * time.Second, 10 * time.Second},
	} {
		s.add(began.Add(row.at), began.Add(row.at))
		if first, last := s.unbroken(); !first.Equal(began.Add(row.first)) || !last.Equal(began.Add(row.at)) {
			t.Errorf("%v: from %v to %v", row.at, first.Sub(began), last.Sub(began))
		}
	}
}
