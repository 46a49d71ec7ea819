package deduptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var raceChecks = []check{
	{"OfConcurrentClaimsOfOneKeyOneIsNew", func(x *rig) {
		for i := range 10 {
			oneNew(x, 16, func(int) dedup.Claim { return delivery(fmt.Sprint("k", i)) })
		}
		x.count(10)
	}},
	{"OverlappingBatchesInAnyOrderAcceptEachKeyOnce", func(x *rig) {
		const callers, keys = 8, 40
		random := x.random()
		order := make([][]int, callers)
		for i := range order {
			order[i] = append(random.Perm(keys), random.Perm(keys)[:10]...) // some keys twice in one call
		}
		ds := make([][]dedup.Decision, callers)
		stores := x.stores()
		for i, err := range together(callers, func(i int) (err error) {
			var cs []dedup.Claim
			for _, k := range order[i] {
				cs = append(cs, delivery(fmt.Sprint("k", k)))
			}
			ds[i], err = stores[i%len(stores)].Claim(x.ctx, cs...)
			return err
		}) {
			if err != nil {
				x.Fatalf("caller %d: %v", i, err)
			}
		}
		fresh, events := map[string]int{}, map[string]string{}
		for _, d := range slices.Concat(ds...) {
			id := d.Record.Key.ID
			if d.Verdict == dedup.New {
				fresh[id]++
			}
			if events[id] == "" {
				events[id] = d.Record.Event
			}
			equal(x, "event of "+id, d.Record.Event, events[id])
		}
		for id, n := range fresh {
			equal(x, "new claims of "+id, n, 1)
		}
		equal(x, "new keys", len(fresh), keys)
	}},
	{"OfConcurrentKeysWithOneAliasOneIsNew", func(x *rig) {
		ds := x.claimTogether(16, func(i int) dedup.Claim {
			return aliased(fmt.Sprint("k", i), nonce(fmt.Sprint("own", i)), nonce("shared"))
		})
		count := map[dedup.Verdict]int{}
		events := map[string]bool{}
		for _, d := range ds {
			count[d.Verdict]++
			events[d.Record.Event] = true
		}
		if count[dedup.New] != 1 || count[dedup.Aliased] != 15 || len(events) != 1 {
			x.Errorf("verdicts %v about %d events", count, len(events))
		}
	}},
	{"OfConcurrentDeliveriesMaxAreQuarantined", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		fresh := 0
		for _, d := range x.claimTogether(20, func(i int) dedup.Claim { return quarantineOf(original, 2+i, 7) }) {
			if d.Verdict == dedup.New {
				fresh++
			}
		}
		if n := x.get(original.Event).QuarantineCount; fresh != 7 || n != 20 {
			x.Errorf("%d are kept of %d, want 7 of 20", fresh, n)
		}
	}},
	{"LanesStayInOrderWithManyWorkers", func(x *rig) {
		const lanes, each = 5, 12
		var cs []dedup.Claim
		for i := range lanes * each {
			cs = append(cs, laned(fmt.Sprint("k", i), fmt.Sprint("lane", i%lanes)))
		}
		x.claims(cs...)
		var mu sync.Mutex
		running, last := map[string]bool{}, map[string]uint64{}
		x.work(6, len(cs), func(w dedup.Work) dedup.Result {
			lane := w.Task().Lane
			mu.Lock()
			if running[lane] {
				x.Errorf("two tasks of %s run at once", lane)
			}
			if w.Record.Seq < last[lane] {
				x.Errorf("%s: %d runs after %d", lane, w.Record.Seq, last[lane])
			}
			running[lane], last[lane] = true, w.Record.Seq
			mu.Unlock()
			time.Sleep(100 * time.Microsecond) // time for another worker to go wrong
			mu.Lock()
			running[lane] = false
			mu.Unlock()
			if w.Task().Attempt == 1 && w.Record.Seq%3 == 0 {
				return retry(0)
			}
			return done()
		})
	}},
	{"ADuplicateIsNotOfAnEventThatIsGone", func(x *rig) {
		c := handled("a")
		var gone atomic.Value // the event that was purged last
		gone.Store("")
		var stop atomic.Bool
		stores := x.stores()
		for i, err := range together(5, func(i int) error {
			for n := 0; i == 0 && n < 60; n++ {
				event := x.claim(c).Record.Event
				if err := x.store.Purge(x.ctx, event); err != nil {
					return err
				}
				gone.Store(event)
			}
			stop.CompareAndSwap(false, i == 0)
			for !stop.Load() {
				before := gone.Load()
				ds, err := stores[i%len(stores)].Claim(x.ctx, c)
				if err != nil {
					return err
				}
				if ds[0].Record.Event == before {
					return fmt.Errorf("%v of %s, which was purged before the claim", ds[0].Verdict, before)
				}
			}
			return nil
		}) {
			if err != nil {
				x.Errorf("caller %d: %v", i, err)
			}
		}
	}},
	{"ACancelledClaimIsAcceptedOnceOrNotAtAll", func(x *rig) {
		random := x.random()
		delays := make([]time.Duration, 30)
		for i := range delays {
			delays[i] = time.Duration(random.IntN(300)) * time.Microsecond
		}
		accepted := make([]bool, len(delays))
		together(len(delays), func(i int) error {
			ctx, cancel := context.WithTimeout(x.ctx, delays[i])
			defer cancel()
			ds, err := x.store.Claim(ctx, delivery(fmt.Sprint("k", i)))
			accepted[i] = err == nil && ds[0].Verdict == dedup.New
			return err
		})
		for i := range delays {
			d := x.claim(delivery(fmt.Sprint("k", i)))
			if accepted[i] && d.Verdict != dedup.Known {
				x.Errorf("claim %d was new and is now %v", i, d.Verdict)
			}
			x.want(dedup.Known, delivery(fmt.Sprint("k", i)))
		}
		x.count(len(delays))
	}},
}

// secondChecks are skipped for stores without [Harness.Second].
var secondChecks = []check{
	{"ALeaseIsLostWhenTheOtherStoreTookTheTask", func(x *rig) {
		y := x.other()
		event, first := x.started(delivery("a"))
		x.advance(minute)
		second := y.takeOf(event)
		y.attempt(second, 2)
		y.newer(second.Lease, first.Lease)
		x.lost(first.Lease, "the other store took the task")
		y.finish(second.Lease, done())
		x.lost(first.Lease, "the other store finished the task")
	}},
	{"WhatOneStoreAcceptsTheOtherKnowsAndRuns", func(x *rig) {
		y := x.other()
		event := x.accept(delivery("a"))
		y.about(dedup.Known, event, delivery("a"))
		w := y.takeOf(event)
		x.idle("the other store runs it")
		x.finish(w.Lease, answer(201, "made"))
		y.lost(w.Lease, "the task is done")
		y.responds(y.want(dedup.Known, delivery("a")), 201, "made")
	}},
	{"AnExtensionHoldsTheOtherStoreBack", func(x *rig) {
		y := x.other()
		event, w := x.started(delivery("a"))
		x.advance(minute / 2)
		x.extend(w.Lease, minute)
		x.advance(minute - time.Millisecond)
		y.idle("the lease is extended")
		x.advance(time.Millisecond)
		y.takeOf(event)
		x.lost(w.Lease, "the other store took the task")
	}},
	{"EachProcessRunsOneInterruptedTask", func(x *rig) {
		y := x.other()
		x.interrupted("a", "b", "c")
		first := x.suspect()
		second := y.suspect()
		x.idle("it runs an interrupted task")
		y.idle("it runs an interrupted task")
		x.finish(second.Lease, done())
		y.finish(first.Lease, done())
		x.attempt(x.suspect(), 2)
	}},
	{"ATaskIsLeftForTheStoreThatHasItsHandler", func(x *rig) {
		y := x.other()
		x.accept(handled("first", "bill"))
		y.runsFor("bill", "bill")
		x.accept(handled("a", "bill"))
		x.accept(handled("b", "ship"))
		want := wanting("ship")
		want.Tasks, want.OrphanAfter = 10, 0 // handlers that no store has are missing at once
		ws, err := x.store.Take(x.ctx, want)
		if x.must(err, "Take"); len(ws) != 1 || ws[0].Task().Handler != "ship" {
			x.Fatalf("%d tasks, the first %s; want that of ship alone", len(ws), text(ws[0].Record))
		}
		x.finish(ws[0].Lease, done())
		x.advance(hour - minute)
		x.idleFor("its handler is missing for less than an hour", "ship")
		y.runsFor("bill", "bill")
	}},
	{"ATaskOfAStoreThatEndedIsForTheOtherAfterAWhile", func(x *rig) {
		y := x.other()
		x.accept(handled("first", "bill"))
		y.runsFor("bill", "bill")
		x.accept(handled("a", "bill"))
		y.close()
		x.advance(hour - time.Millisecond)
		x.idleFor("its handler is missing for less than an hour", "ship")
		x.advance(time.Millisecond)
		x.runsFor("bill", "ship")
	}},
}

// together runs n calls at once and returns their errors.
func together(n int, call func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// claimTogether makes one claim per caller at once.
func (x *rig) claimTogether(n int, claim func(i int) dedup.Claim) []dedup.Decision {
	x.Helper()
	ds, stores := make([]dedup.Decision, n), x.stores()
	for i, err := range together(n, func(i int) error {
		got, err := stores[i%len(stores)].Claim(x.ctx, claim(i))
		if err == nil {
			ds[i] = got[0]
		}
		return err
	}) {
		if err != nil {
			x.Fatalf("claim %d: %v", i, err)
		}
	}
	return ds
}

// oneNew makes n claims at once. Exactly one must be New and the others Known, all of one event. It
// returns the decision of the new one.
func oneNew(x *rig, n int, claim func(i int) dedup.Claim) dedup.Decision {
	x.Helper()
	ds := x.claimTogether(n, claim)
	winner := ds[x.winner(ds)]
	for i, d := range ds {
		if d.Record.Event != winner.Record.Event || d.Verdict != dedup.New && d.Verdict != dedup.Known {
			x.Fatalf("claim %d: %v of %q, want known of %q", i, d.Verdict, d.Record.Event, winner.Record.Event)
		}
	}
	return winner
}

// winner requires that one decision is New, and returns its index.
func (x *rig) winner(ds []dedup.Decision) int {
	x.Helper()
	isNew := func(d dedup.Decision) bool { return d.Verdict == dedup.New }
	i := slices.IndexFunc(ds, isNew)
	if i < 0 || slices.ContainsFunc(ds[i+1:], isNew) {
		x.Fatalf("the first new claim of %d is %d; want one", len(ds), i)
	}
	return i
}

// work runs workers until so many tasks are done. handle is called between Take and Finish.
func (x *rig) work(workers, tasks int, handle func(dedup.Work) dedup.Result) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	var mu sync.Mutex
	left, stores := tasks, x.stores()
	for _, err := range together(workers, func(i int) error {
		store := stores[i%len(stores)]
		for {
			ws, err := store.Take(ctx, dedup.Want{Tasks: 3, Bytes: 1 << 20, Lease: hour})
			if err != nil {
				return err
			}
			for _, w := range ws {
				r := handle(w)
				if err := store.Finish(ctx, w.Lease, r); err != nil {
					return fmt.Errorf("finish: %w", err)
				}
				mu.Lock()
				if r.Kind == dedup.ResultDone {
					left--
				}
				if left == 0 {
					cancel()
				}
				mu.Unlock()
			}
		}
	}) {
		if !errors.Is(err, context.Canceled) {
			x.Errorf("worker: %v", err)
		}
	}
	equal(x, "tasks left", left, 0)
}
