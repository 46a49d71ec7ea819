package pgstore

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// TestACopyAnswersAsItsSource copies a store with events in every state, is interrupted once, and
// compares what both stores do from then on.
func TestACopyAnswersAsItsSource(t *testing.T) {
	t.Parallel()
	n := 1400
	if os.Getenv("EYELET_LARGE") != "" {
		n = 110_000
	}
	dir, other, clock := t.TempDir(), t.TempDir(), deduptest.NewClock()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.fill(n)
	f.close()
	f.must(os.CopyFS(other, os.DirFS(dir)))
	dsn, schema := copyTarget(t)
	began := time.Now()
	var out Copied
	err := exported(t, dir, clock, func(from *dedup.Source) error {
		f.copied = from.Seq
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Copy(ctx, dsn, schema, from, func(events int64) {
			if events > from.Events/2 {
				cancel()
			}
		})
		if err == nil {
			t.Error("the copy was not interrupted")
		}
		out, err = Copy(t.Context(), dsn, schema, from, nil)
		return err
	})
	f.must(err)
	if out.Events < int64(n)*3/4 || out.Tasks == 0 || out.Aliases == 0 || out.Remembered == 0 {
		t.Errorf("%+v", out)
	}
	t.Logf("%+v in %v", out, time.Since(began).Round(time.Millisecond))
	if r, err := Check(t.Context(), dsn, schema); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r.Broken, err)
	}
	was, now := openBadger(t, other, clock), openAt(t, dsn, schema, clock)
	defer was.Close()
	defer now.Close()
	f.agree(was, now)
}

// agree requires that a copy does what its source does.
func (f *filler) agree(was, now dedup.Store) {
	f.Helper()
	f.verdicts = map[dedup.Verdict]int{}
	same := func(*dedup.Claim) {}
	f.agreeOnRecords(was, now)
	f.agreeOnStats(was, now)
	f.agreeOnNotes(was, now)
	for _, change := range []func(*dedup.Claim){
		same, func(c *dedup.Claim) { c.Fingerprint[1] = 0xff },
		func(c *dedup.Claim) { c.Key.ID += "other" }, // its aliases are those of the first
	} {
		f.agreeOnClaims(was, now, func(c *dedup.Claim) { change(c); c.OnlyKnown = true })
	}
	f.agreeOnWork(was, now)
	f.agreeOnClaims(was, now, same)
	f.agreeOnRecords(was, now)
	f.clock.Advance(25 * time.Hour)
	f.claims = slices.DeleteFunc(f.claims, func(c dedup.Claim) bool { return c.Quarantine != nil })
	f.agreeOnRecords(was, now)
	f.agreeOnClaims(was, now, same)
	f.agreeOnRecords(was, now)
	for v := dedup.New; v <= dedup.Seen; v++ {
		if f.verdicts[v] == 0 {
			f.Errorf("no claim was %v: %v", v, f.verdicts)
		}
	}
}

// eventIDs matches ids of events.
var eventIDs = regexp.MustCompile(`[0-9a-z]+-[0-9a-v]{32}`)

// shown returns a record as a copy has it. Events that were accepted after the copy have other
// numbers in each store, and leases other tokens.
func (f *filler) shown(r dedup.Record) dedup.Record {
	r = bare(rowOf(&dedup.Item{Record: r.Clone()}).rec)
	rename := func(text string) string {
		return eventIDs.ReplaceAllStringFunc(text, func(id string) string {
			if seqOf(id) > int64(f.copied) {
				return "new"
			}
			return id
		})
	}
	if r.Event = rename(r.Event); r.Event == "new" {
		r.Seq, r.Generation = 0, 0 // of a forgotten one nothing need be left
	}
	r.Original, r.Note = rename(r.Original), rename(r.Note)
	for i := range r.Tasks {
		if r.Tasks[i].Token = 0; r.Hold && r.Tasks[i].State == dedup.Running {
			r.Tasks[i].Ended = time.Time{} // that of the attempt before is the end of its lease
		}
	}
	return r
}

// bare returns a record in which what is empty is nil.
func bare(r dedup.Record) dedup.Record {
	r = r.Clone()
	r.Aliases, r.Tasks = unempty(r.Aliases), unempty(r.Tasks)
	r.Response.Body, r.Payload.Body = unempty(r.Response.Body), unempty(r.Payload.Body)
	for i := range r.Tasks {
		r.Tasks[i].History = unempty(r.Tasks[i].History)
	}
	if len(r.Payload.Attributes) == 0 {
		r.Payload.Attributes = nil
	}
	return r
}

func unempty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (f *filler) equal(what string, got, want any) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func (f *filler) agreeOnRecords(was, now dedup.Store) {
	f.Helper()
	var all [2][]dedup.Record
	for i, s := range []dedup.Store{was, now} {
		for r, err := range s.List(f.Context(), dedup.Filter{Body: true}) {
			f.must(err)
			all[i] = append(all[i], f.shown(r))
		}
	}
	f.equal("number of records", len(all[1]), len(all[0]))
	for i, want := range all[0] {
		f.equal(fmt.Sprint("record ", i), all[1][i], want)
	}
}

func (f *filler) agreeOnNotes(was, now dedup.Store) {
	f.Helper()
	all := [2]map[dedup.Key]dedup.Note{{}, {}}
	for i, s := range []dedup.Store{was, now} {
		for n, err := range s.Notes(f.Context(), dedup.SpaceFence) {
			f.must(err)
			cutTimes(&n.At)
			all[i][n.Key] = n
		}
	}
	if f.equal("notes", all[1], all[0]); len(all[0]) == 0 {
		f.Error("there is no fence")
	}
}

func (f *filler) agreeOnStats(was, now dedup.Store) {
	f.Helper()
	var all [2]dedup.Stats
	for i, s := range []dedup.Store{was, now} {
		st, err := s.Stats(f.Context())
		f.must(err)
		all[i] = dedup.Stats{
			Pending: st.Pending, Running: st.Running, Dead: st.Dead, Quarantined: st.Quarantined,
			Oldest: st.Oldest.Truncate(time.Microsecond).UTC(),
		}
	}
	f.equal("statistics", all[1], all[0])
	if len(all[0].Quarantined) == 0 {
		f.Error("nothing is quarantined")
	}
}

// agreeOnClaims repeats every claim with a change.
func (f *filler) agreeOnClaims(was, now dedup.Store, change func(*dedup.Claim)) {
	f.Helper()
	for part := range slices.Chunk(f.claims, 200) {
		changed := slices.Clone(part)
		for i := range changed {
			change(&changed[i])
		}
		want, err := was.Claim(f.Context(), changed...)
		f.must(err)
		got, err := now.Claim(f.Context(), changed...)
		f.must(err)
		for i, w := range want {
			g := got[i]
			f.equal("verdict of "+changed[i].Key.ID, g.Verdict, w.Verdict)
			f.equal("alias", g.Alias, w.Alias)
			f.equal("record of "+changed[i].Key.ID, f.shown(g.Record), f.shown(w.Record))
			f.verdicts[w.Verdict]++
		}
	}
}

// agreeOnWork runs all open tasks.
func (f *filler) agreeOnWork(was, now dedup.Store) {
	f.Helper()
	f.clock.Advance(2 * time.Hour)
	open := 0
	for r, err := range was.List(f.Context(), dedup.Filter{States: []dedup.State{dedup.Pending, dedup.Dead}}) {
		f.must(err)
		for _, t := range r.Tasks {
			if t.State == dedup.Pending && !r.Hold {
				open++
			}
		}
	}
	var all [2]map[string][]string // by lane
	for i, s := range []dedup.Store{was, now} {
		all[i] = map[string][]string{}
		g := *f
		g.store = s
		for left := open; left > 0; {
			work, err := s.Take(f.Context(), dedup.Want{Tasks: 100, Bytes: 1 << 30, Lease: time.Minute})
			f.must(err)
			for _, w := range work {
				lane := w.Record.LaneOf(w.Lease.Task)
				what := fmt.Sprint(w.Record.Event, w.Task().Handler, w.Task().Attempt, len(w.Record.Payload.Body))
				all[i][lane] = append(all[i][lane], what)
			}
			left -= len(work)
			g.finish(work, dedup.Result{Kind: dedup.ResultDone})
		}
		slices.Sort(all[i][""])
	}
	f.equal("work", all[1], all[0])
	if open < 20 || len(all[0]) < 5 {
		f.Errorf("%d open tasks in %d lanes", open, len(all[0]))
	}
}
