package deduptest

import (
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var statsChecks = []check{
	{"TheyCountRecordsAndTasks", func(x *rig) {
		s := x.stats()
		if s.Records != 0 || s.Pending != 0 || s.Running != 0 || s.Dead != 0 || s.Backlog != 0 || s.Accepted != 0 {
			x.Errorf("empty store: %+v", s)
		}
		c := handled("a", "ship", "bill")
		x.claims(c, delivery("b"), held("c"))
		x.want(dedup.Known, c)
		s = x.stats()
		if s.Records != 3 || s.Pending != 3 || s.Running != 1 || s.Dead != 0 || s.Accepted != 3 ||
			s.Backlog < int64(len("body of a")*3) {
			x.Errorf("accepted: %+v", s)
		}
		if !x.harness.OwnClock && !s.Oldest.Equal(x.clock.Now()) {
			x.Errorf("oldest %v, want %v", s.Oldest, x.clock.Now())
		}
		first, second := x.take(), x.take()
		x.finish(first.Lease, dead())
		x.finish(second.Lease, retry(hour))
		if s := x.stats(); s.Records != 3 || s.Pending != 2 || s.Running != 1 || s.Dead != 1 {
			x.Errorf("one dead, one waits: %+v", s)
		}
		x.finish(x.take().Lease, done())
		if s := x.stats(); s.Records != 3 || s.Pending+s.Running != 2 || s.Dead != 1 || s.Commits == 0 {
			x.Errorf("one done: %+v", s)
		}
	}},
	{"TheOldestIsTheOldestEventWithAnOpenTask", func(x *rig) {
		oldest := func(want time.Time) {
			x.Helper()
			if got := x.stats().Oldest; !got.Equal(want) {
				x.Errorf("oldest %v, want %v", got, want)
			}
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
