package deduptest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// notes is the part of the contract about notes and the fences in them.
var notes = []check{
	{"ANoteIsReplacedInOneStepAndAnErrorLeavesItAlone", func(x *rig) {
		k := named("checks", "a\x00☃")
		for _, err := range together(32, func(int) error {
			return x.store.ChangeNote(x.ctx, k, func(text string) (string, error) {
				n, _ := strconv.Atoi(text)
				return strconv.Itoa(n + 1), nil
			})
		}) {
			x.must(err, "ChangeNote")
		}
		at := x.clock.Now()
		x.advance(minute)
		wrong := errors.New("wrong")
		for want, change := range map[error]func(string) (string, error){
			wrong:            func(string) (string, error) { return "other", wrong },
			nil:              func(text string) (string, error) { return text, nil },
			dedup.ErrInvalid: func(string) (string, error) { return strings.Repeat("x", dedup.MaxNote+1), nil },
		} {
			x.fails(x.store.ChangeNote(x.ctx, k, change), want, "ChangeNote")
		}
		x.lasts(func() {
			n, err := x.store.Note(x.ctx, k)
			x.must(err, "Note")
			equal(x, "note", text32(n), text32(dedup.Note{Key: k, Text: "32", At: at}))
		})
	}},
	{"NotesAreListedBySpaceAndAnEmptyTextRemovesOne", func(x *rig) {
		for i := range 3 {
			x.setNote(named("s", strconv.Itoa(i)), "text")
			x.setNote(named("other", strconv.Itoa(i)), "text")
		}
		x.setNote(named("s", "1"), "")
		x.accept(delivery("s"))
		x.lasts(func() {
			found := map[string]bool{}
			for n, err := range x.store.Notes(x.ctx, "s") {
				x.must(err, "Notes")
				found[n.Key.ID] = true
			}
			equal(x, "notes", fmt.Sprint(found), fmt.Sprint(map[string]bool{"0": true, "2": true}))
			n, err := x.store.Note(x.ctx, named("s", "1"))
			x.must(err, "Note")
			equal(x, "removed note", text32(n), text32(dedup.Note{Key: named("s", "1")}))
		})
	}},
	{"AnOlderVersionIsStaleOnceANewerOneIsDone", func(x *rig) {
		second := x.versioned("b", "10", "l")
		x.finish(second.Lease, done())
		first := x.versioned("a", "9", "l")
		x.finish(first.Lease, done())
		tie := x.versioned("t", "10.0", "l")
		x.finish(tie.Lease, done())
		other := x.versioned("c", "1", "m")
		x.finish(other.Lease, done())
		elsewhere := laned("d", dedup.LaneYields+"l")
		elsewhere.Key.Principal, elsewhere.Tasks[0].Version = "another", "1"
		principal := x.takeOf(x.accept(elsewhere))
		x.finish(principal.Lease, done())
		strict := laned("e", "l") // its handler does not yield any more
		strict.Tasks[0].Version = "9"
		waits := x.takeOf(x.accept(strict))
		x.finish(waits.Lease, done())
		x.lasts(func() {
			equal(x, "older", x.get(first.Record.Event).Tasks[0].Stale(), true)
			equal(x, "newer", x.get(second.Record.Event).Tasks[0].Stale(), false)
			equal(x, "equal", x.get(tie.Record.Event).Tasks[0].Stale(), false)
			equal(x, "of another lane", x.get(other.Record.Event).Tasks[0].Stale(), false)
			equal(x, "of another principal", x.get(principal.Record.Event).Tasks[0].Stale(), false)
			equal(x, "of a lane that waits", x.get(waits.Record.Event).Tasks[0].Stale(), true)
			f := x.fence(first.Record)
			equal(x, "fence", f.Version+" "+f.Event, "10 "+second.Record.Event)
		})
	}},
	{"ADeadLetterARetryAndAnUnfencedTaskMoveNoFence", func(x *rig) {
		ahead := done()
		ahead.Unfenced = true
		for id, r := range map[string]dedup.Result{"a": dead(), "b": retry(hour), "c": ahead} {
			x.finish(x.versioned(id, "10", "l").Lease, r)
		}
		free := laned("d", dedup.LaneYields+"l")
		free.Tasks[0].Version, free.Tasks[0].Unfenced = "10", true
		event := x.accept(free)
		x.finish(x.takeOf(event).Lease, done())
		w := x.versioned("e", "9", "l")
		x.finish(w.Lease, done())
		equal(x, "older", x.get(w.Record.Event).Tasks[0].Stale(), false)
		equal(x, "fence", x.fence(w.Record).Version, "9")
	}},
	{"AFenceIsForgottenWhenItHasNotMovedForItsTime", func(x *rig) {
		w := x.versioned("a", "10", "l")
		x.finish(w.Lease, done())
		x.advance(dedup.FenceFor - time.Second)
		equal(x, "fence before its end", x.fence(w.Record).Version, "10")
		x.advance(time.Second)
		equal(x, "fence after it", x.fence(w.Record).Version, "")
		next := x.versioned("b", "9", "l")
		x.finish(next.Lease, done())
		equal(x, "the next fence", x.fence(next.Record).Version, "9")
	}},
	{"AForcedRerunOfAStaleTaskRunsAndDoesNotMoveTheFenceBack", func(x *rig) {
		x.finish(x.versioned("b", "10", "l").Lease, done())
		first := x.versioned("a", "9", "l")
		x.finish(first.Lease, dedup.Stale())
		_, err := x.store.Rerun(x.ctx, first.Record.Event, dedup.Rerun{Force: true})
		x.must(err, "Rerun")
		x.finish(x.takeOf(first.Record.Event).Lease, done())
		equal(x, "forced", x.get(first.Record.Event).Tasks[0].Reason, "")
		equal(x, "fence", x.fence(first.Record).Version, "10")
	}},
	{"AStaleResultWithoutItsFenceIsNotStored", func(x *rig) {
		w := x.versioned("a", "9", "l")
		x.finish(w.Lease, dedup.Stale())
		again := x.takeOf(w.Record.Event)
		x.finish(again.Lease, done())
		equal(x, "task", x.get(w.Record.Event).Tasks[0].Reason, "")
	}},
}

// text32 is a note as text that can be compared.
func text32(n dedup.Note) string { return fmt.Sprintf("%+v %q %d", n.Key, n.Text, n.At.UnixMilli()) }

// setNote replaces a note.
func (x *rig) setNote(k dedup.Key, text string) {
	x.Helper()
	x.must(x.store.ChangeNote(x.ctx, k, func(string) (string, error) { return text, nil }), "ChangeNote")
}

// versioned accepts an event with a version in a lane that yields, and takes its task.
func (x *rig) versioned(id, version, lane string) dedup.Work {
	x.Helper()
	c := laned(id, dedup.LaneYields+lane)
	c.Tasks[0].Version = version
	return x.takeOf(x.accept(c))
}

// fence returns the fence of the first task of a record.
func (x *rig) fence(r dedup.Record) dedup.Fence {
	x.Helper()
	k, _ := r.FenceOf(0)
	n, err := x.store.Note(x.ctx, k)
	x.must(err, "Note")
	f, _ := dedup.FenceIn(n)
	return f
}
