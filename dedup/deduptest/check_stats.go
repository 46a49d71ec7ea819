package deduptest

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var statsChecks = []check{
	{"TheyCountTasks", func(x *rig) {
		x.counts("an empty store", dedup.Stats{})
		c := handled("a", "ship", "bill")
		x.claims(c, delivery("b"), held("c"))
		x.want(dedup.Known, c)
		s := x.counts("accepted", dedup.Stats{Pending: 3, Running: 1, Accepted: 3})
		if s.Backlog < int64(len("body of a")*3) {
			x.Errorf("backlog of three events: %d bytes", s.Backlog)
		}
		if !x.harness.OwnClock && !s.Oldest.Equal(x.clock.Now()) {
			x.Errorf("oldest %v, want %v", s.Oldest, x.clock.Now())
		}
		first, second := x.take(), x.take()
		x.finish(first.Lease, dead())
		x.finish(second.Lease, retry(hour))
		x.counts("one dead, one waits", dedup.Stats{Pending: 2, Running: 1, Dead: 1, Accepted: 3})
		x.finish(x.take().Lease, done())
		s = x.counts("one done", dedup.Stats{Pending: 1, Running: 1, Dead: 1, Accepted: 3})
		if s.Commits == 0 {
			x.Errorf("no commits: %+v", s)
		}
	}},
	{"TheOldestIsTheOldestEventWithAnOpenTask", func(x *rig) {
		oldest := func(want time.Time) {
			x.Helper()
			x.stats("oldest of "+want.String(), func(s dedup.Stats) bool { return s.Oldest.Equal(want) })
		}
		oldest(time.Time{})
		x.want(dedup.New, held("held"))
		first := x.get(x.accept(delivery("a")))
		x.advance(minute)
		second := x.get(x.accept(delivery("b")))
		oldest(first.Accepted)
		w := x.takeOf(first.Event)
		oldest(first.Accepted)
		x.finish(w.Lease, dead())
		oldest(second.Accepted)
		x.reopenEvent(first.Event)
		oldest(first.Accepted)
		x.finish(x.take().Lease, done())
		x.finish(x.take().Lease, done())
		oldest(time.Time{})
	}},
	{"AHealthyStoreReportsNoError", func(x *rig) {
		if err := x.store.Health(x.ctx); err != nil {
			x.Errorf("Health: %v", err)
		}
	}},
	{"GuaranteesHaveAName", func(x *rig) {
		g := x.store.Guarantees()
		if g.Durability < dedup.DurableNone || g.Durability > dedup.DurableReplicated {
			x.Errorf("guarantees: %+v", g)
		}
		if g.Durability > dedup.DurableNone && x.harness.Reopen == nil {
			x.Errorf("a store with durability %v needs Harness.Reopen", g.Durability)
		}
	}},
}
