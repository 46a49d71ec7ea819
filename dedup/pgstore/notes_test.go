package pgstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// versioned is a claim whose task is held, so that several of one lane run at once.
func versioned(id, version string) dedup.Claim {
	c := event(id, "ship")
	c.Hold, c.Lease, c.Window = true, time.Minute, 2*dedup.FenceFor
	c.Tasks[0].Lane, c.Tasks[0].Version = "l", version
	return c
}

// held claims events of one lane, which are named after their versions.
func held(t *testing.T, s *Store, versions ...string) (leases []dedup.Lease) {
	t.Helper()
	for _, version := range versions {
		leases = append(leases, claim(t, s, versioned("v"+version, version), dedup.New).Lease)
	}
	return leases
}

// fenceKey names the fence of the lane.
func fenceKey() dedup.Key {
	c := versioned("any", "1")
	r := dedup.Accept(dedup.Record{}, c, "", 0, 0, time.Now())
	k, _ := r.FenceOf(0)
	return k
}

// wantFence fails unless the fence of the lane is at a version, "" for none.
func wantFence(t *testing.T, s *Store, version string) {
	t.Helper()
	n, err := s.Note(t.Context(), fenceKey())
	f, _ := dedup.FenceIn(n)
	if err != nil || f.Version != version || n.Key != fenceKey() {
		t.Errorf("the fence is %+v, %v; want version %q", n, err, version)
	}
}

// wantStale fails unless the task of a lease is done, and stale or not.
func wantStale(t *testing.T, s *Store, l dedup.Lease, stale bool) {
	t.Helper()
	if r := wantState(t, s, l, dedup.Done); r.Tasks[0].Stale() != stale || r.Tasks[0].Version == "" {
		t.Errorf("%s: %+v; want stale %v", r.Key.ID, r.Tasks[0], stale)
	}
}

// run is a handler that is done after its effect.
func (e *effects) run(s *Store, l dedup.Lease, as string) error {
	return s.InTx(e.t.Context(), l, txTypes[as], func(ctx context.Context, tx any) (dedup.Result, error) {
		return done, e.insert(ctx, tx, l.Event, 1)
	})
}

func TestNotesAreChangedOneAtATime(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	k, each := named(dedup.SpaceTarget, "gh/\x00\xff"), 20
	var wg sync.WaitGroup
	for _, s := range stores {
		for range each {
			wg.Go(func() {
				if err := s.ChangeNote(t.Context(), k, func(text string) (string, error) {
					n, _ := strconv.Atoi(text)
					return strconv.Itoa(n + 1), nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	refused := errors.New("refused")
	err := stores[0].ChangeNote(t.Context(), k, func(string) (string, error) { return "wrong", refused })
	tooLong := stores[0].ChangeNote(t.Context(), k, func(string) (string, error) {
		return string(make([]byte, dedup.MaxNote+1)), nil
	})
	if !errors.Is(err, refused) || !errors.Is(tooLong, dedup.ErrInvalid) {
		t.Error(err, tooLong)
	}
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, pgtest.DSN(t), stores[0].db.schema, clock)
	want := dedup.Note{Key: k, Text: strconv.Itoa(2 * each), At: clock.Now()}
	for n, err := range s.Notes(t.Context(), dedup.SpaceTarget) {
		if err != nil || !reflect.DeepEqual(n, want) {
			t.Errorf("%+v, %v; want %+v", n, err, want)
		}
	}
	if n, err := s.Note(t.Context(), k); err != nil || !reflect.DeepEqual(n, want) {
		t.Errorf("%+v, %v; want %+v", n, err, want)
	}
	if err := s.ChangeNote(t.Context(), k, func(string) (string, error) { return "", nil }); err != nil {
		t.Error(err)
	}
	if n := countRows(t, s, "note"); n != 0 {
		t.Errorf("%d notes are left", n)
	}
}

func countRows(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	scan(t, s, "SELECT count(*) FROM {{schema}}."+table, nil, &n)
	return n
}

func TestNotesAreListedPageAfterPage(t *testing.T) {
	t.Parallel()
	s, _ := two(t)
	var spaces []string
	var hashes, keys [][]byte
	const most = 2500
	for i := range most {
		k := named("space", fmt.Sprint(i))
		h := k.Hash()
		spaces, hashes, keys = append(spaces, k.Space), append(hashes, h[:]), append(keys, packKey(k))
	}
	for _, sql := range []string{makeNotesSQL, "UPDATE {{schema}}.note SET note = 'x'"} {
		args := []any{spaces, hashes, keys}
		if sql != makeNotesSQL {
			args = nil
		}
		if _, err := s[0].db.pool.Exec(t.Context(), s[0].db.sql(sql), args...); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for n, err := range s[0].Notes(t.Context(), "space") {
		if err != nil {
			t.Fatal(err)
		}
		found[n.Key.ID] = true
	}
	if len(found) != most {
		t.Errorf("%d notes of %d", len(found), most)
	}
}

// TestAFenceMovesWithTheResult finishes newer events before older ones, in each way.
func TestAFenceMovesWithTheResult(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	s := stores[0]
	l := held(t, s, "2", "1", "3", "4", "5", "6", "7")
	finish := func(l dedup.Lease, r dedup.Result) {
		t.Helper()
		if err := s.Finish(t.Context(), l, r); err != nil {
			t.Error(err)
		}
	}
	finish(l[2], dedup.Result{Kind: dedup.ResultDead})
	wantFence(t, s, "")
	finish(l[0], done)
	wantFence(t, stores[1], "2")
	finish(l[1], done)
	wantStale(t, s, l[0], false)
	wantStale(t, s, l[1], true)
	plain := claim(t, s, event("plain", "ship"), dedup.New)
	w := takeOne(t, s)
	for i, err := range s.FinishMany(t.Context(), dedup.LeaseResult{Lease: l[4], Result: done},
		dedup.LeaseResult{Lease: w.Lease, Result: done}, dedup.LeaseResult{Lease: l[3], Result: done},
		dedup.LeaseResult{Lease: l[5], Result: dedup.Result{Kind: dedup.ResultDead}},
		dedup.LeaseResult{Lease: l[0], Result: done}) {
		if (i == 4) != errors.Is(err, dedup.ErrLeaseLost) || i < 4 && err != nil {
			t.Errorf("result %d: %v", i, err)
		}
	}
	wantStale(t, s, l[4], false)
	wantStale(t, s, l[3], true)
	if wantState(t, s, w.Lease, dedup.Done); w.Record.Event != plain.Record.Event {
		t.Error(w.Record.Event)
	}
	wantFence(t, s, "5")
	clock.Advance(dedup.FenceFor)
	wantFence(t, s, "")
	for range s.Notes(t.Context(), dedup.SpaceFence) {
		t.Error("an expired fence is listed")
	}
	if _, err := s.Rerun(t.Context(), l[4].Event, dedup.Rerun{}); err != nil {
		t.Fatal(err)
	}
	finish(takeOne(t, s).Lease, done) // its fence was the same
	wantFence(t, s, "5")
	clock.Advance(dedup.FenceFor)
	forced := versioned("forced", "9")
	forced.Tasks[0].Unfenced = true
	finish(claim(t, s, forced, dedup.New).Lease, done)
	wantFence(t, s, "")
	again := held(t, s, "1", "8")
	finish(again[0], done)
	wantStale(t, s, again[0], false)
	wantFence(t, s, "1")
	if n := countRows(t, s, "note"); n != 1 {
		t.Errorf("%d notes", n)
	}
}

// TestATransactionOfAStaleTaskIsUndone finishes an older event in the transaction of its handler.
func TestATransactionOfAStaleTaskIsUndone(t *testing.T) {
	t.Parallel()
	for as := range txTypes {
		stores, _ := two(t)
		s, e := stores[0], newEffects(t, stores[0])
		l := held(t, s, "2", "1")
		if err := e.run(s, l[0], as); err != nil {
			t.Fatal(err)
		}
		wantStale(t, s, l[0], false)
		wantFence(t, s, "2")
		if err := e.run(s, l[1], as); !errors.Is(err, dedup.ErrStale) {
			t.Errorf("%v, want ErrStale", err)
		}
		e.want(1, 1)
		wantState(t, stores[1], l[1], dedup.Running)
		if err := s.Finish(t.Context(), l[1], dedup.Stale()); err != nil {
			t.Error(err)
		}
		wantStale(t, stores[1], l[1], true)
		wantFence(t, s, "2")
	}
}

// TestALateResultMovesNoFenceBack lets a lease expire, and a newer event be handled meanwhile.
func TestALateResultMovesNoFenceBack(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	s, e := stores[0], newEffects(t, stores[0])
	for _, version := range []string{"1", "2"} {
		c := versioned("v"+version, version)
		c.Hold, c.Lease, c.Tasks[0].Lane = false, 0, dedup.LaneYields+"l"
		claim(t, s, c, dedup.New)
	}
	late := takeOne(t, s)
	clock.Advance(time.Hour)
	again := takeOne(t, stores[1])
	retry := dedup.Result{Kind: dedup.ResultRetry, After: time.Second}
	if err := stores[1].Finish(t.Context(), again.Lease, retry); err != nil {
		t.Fatal(err)
	}
	newer := takeOne(t, stores[1])
	if err := stores[1].Finish(t.Context(), newer.Lease, done); err != nil || again.Record.Event != late.Record.Event {
		t.Fatal(again, err)
	}
	wantStale(t, s, newer.Lease, false)
	lost := e.run(s, late.Lease, "pgx")
	for _, err := range []error{lost, s.Finish(t.Context(), late.Lease, done)} {
		if !errors.Is(err, dedup.ErrLeaseLost) {
			t.Errorf("%v, want ErrLeaseLost", err)
		}
	}
	e.want(0, 0)
	clock.Advance(time.Minute)
	third := takeOne(t, s)
	if err := s.Finish(t.Context(), third.Lease, done); err != nil || third.Record.Event != late.Record.Event {
		t.Fatal(third, err)
	}
	wantStale(t, s, third.Lease, true)
}

// TestReceiversMoveAFenceAtOnce finishes events of lanes without fences, each lane in two stores.
func TestReceiversMoveAFenceAtOnce(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	e := newEffects(t, stores[0])
	var leases [10][6]dedup.Lease
	for lane := range leases {
		for version := range leases[lane] {
			c := versioned(fmt.Sprint(lane, "/", version), fmt.Sprint(version))
			c.Tasks[0].Lane = fmt.Sprint(lane)
			leases[lane][version] = claim(t, stores[0], c, dedup.New).Lease
		}
	}
	var wg sync.WaitGroup
	for i, l := range leases {
		for k, l := range l {
			wg.Go(func() {
				s := stores[k%2]
				finish := func() error {
					if k < 3 {
						return s.Finish(t.Context(), l, done)
					}
					return e.run(s, l, "pgx")
				}
				err := finish()
				for errors.As(err, new(*dedup.ErrUnavailable)) { // no connection is free for a moment
					err = finish()
				}
				if err != nil && (k < 3 || k == 5 || !errors.Is(err, dedup.ErrStale)) {
					t.Errorf("lane %d, version %d: %v", i, k, err)
				}
			})
		}
	}
	wg.Wait()
	fences := 0
	for n, err := range stores[0].Notes(t.Context(), dedup.SpaceFence) {
		fences++
		if f, ok := dedup.FenceIn(n); err != nil || !ok || f.Version != "5" {
			t.Errorf("%+v, %v", n, err)
		}
	}
	if fences != len(leases) {
		t.Errorf("%d fences", fences)
	}
}

// TestAResultWaitsForAFenceThatAnotherMakes lets another program make the fence of the lane, whose
// transaction is then undone, or committed.
func TestAResultWaitsForAFenceThatAnotherMakes(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	name := fmt.Sprint("fence-", schemas.Add(1))
	s, dsn := newStore(t, " application_name="+name, Options{})
	exec, e := admin(t, s, dsn), newEffects(t, s)
	k := fenceKey()
	h := k.Hash()
	insert := fmt.Sprintf(`BEGIN; INSERT INTO {{schema}}.note (space, hash, key, note, at)
  VALUES ('fence', '\x%x', '\x%x', E'9\nother', now())`, h, packKey(k))
	ways := map[string]func(dedup.Lease) error{
		"Finish": func(l dedup.Lease) error { return s.Finish(t.Context(), l, done) },
		"InTx":   func(l dedup.Lease) error { return e.run(s, l, "pgx") },
	}
	for way, finish := range ways {
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			exec("DELETE FROM {{schema}}.note")
			c := versioned(way+end, "3")
			l := claim(t, s, c, dedup.New).Lease
			exec(insert)
			ended := make(chan error, 1)
			go func() { ended <- finish(l) }()
			awaitLock(t, s, name)
			claim(t, s, event("beside "+way+end, "ship"), dedup.New)
			beside := dedup.LeaseResult{Lease: takeOne(t, s).Lease, Result: done}
			blocked := claim(t, s, versioned("blocked "+way+end, "1"), dedup.New).Lease
			errs := s.FinishMany(t.Context(), dedup.LeaseResult{Lease: blocked, Result: done}, beside)
			if wantUnavailable(t, "behind the fence", errs[0]); errs[1] != nil {
				t.Errorf("beside the fence: %v", errs[1])
			}
			exec(end)
			err, stale := <-ended, end == "COMMIT"
			if stale && way == "InTx" {
				if !errors.Is(err, dedup.ErrStale) {
					t.Errorf("%s, %s: %v", way, end, err)
				}
				err = s.Finish(t.Context(), l, dedup.Stale())
			}
			if err != nil {
				t.Errorf("%s, %s: %v", way, end, err)
			}
			wantStale(t, s, l, stale)
			if stale {
				wantFence(t, s, "9")
			} else {
				wantFence(t, s, "3")
			}
		}
	}
	e.want(1, 1)
}

func TestFencesAreForgottenOldestFirst(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	s := stores[0]
	set := func(space string) {
		for i := range 5 {
			clock.Advance(time.Hour)
			if err := s.ChangeNote(t.Context(), named(space, fmt.Sprint(i)), func(string) (string, error) {
				return "text", nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(dedup.SpaceFence)
	set(dedup.SpaceTarget)
	want := func(space, ids string) {
		t.Helper()
		got := ""
		scan(t, s, "SELECT coalesce(string_agg(at::text, ' ' ORDER BY at), '') FROM {{schema}}.note WHERE space = $1",
			[]any{space}, &got)
		n := 0
		for range s.Notes(t.Context(), space) {
			n++
		}
		if fmt.Sprint(n) != ids {
			t.Errorf("%d notes of space %s, %s; want %s", n, space, got, ids)
		}
	}
	_, err := s.db.pool.Exec(t.Context(), s.db.sql(forgetFencesSQL), clock.Now().Add(-dedup.FenceFor), 2)
	if err != nil {
		t.Fatal(err)
	}
	want(dedup.SpaceFence, "3")
	want(dedup.SpaceTarget, "5")
	if n, err := s.Note(t.Context(), named(dedup.SpaceFence, "2")); err != nil || n.Text == "" {
		t.Errorf("the third of five: %+v, %v", n, err)
	}
	clock.Advance(dedup.FenceFor)
	if err := s.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, s, "note"); n != 5 {
		t.Errorf("%d notes", n)
	}
	want(dedup.SpaceTarget, "5")
}
