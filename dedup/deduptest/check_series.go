package deduptest

import (
	"bytes"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var seriesChecks = []check{
	{"TheNewestIsKnownBeyondItsWindow", func(x *rig) {
		event := x.accept(content("a", "s"))
		x.advance(100 * hour)
		x.about(dedup.Known, event, content("a", "s"))
		x.responds(x.want(dedup.Known, content("a", "s")), 202, "accepted")
	}},
	{"AReplacedEventIsSupersededUntilItsWindowEnds", func(x *rig) {
		a := x.accept(content("a", "s"))
		x.advance(10 * minute)
		b := x.accept(content("b", "s"))
		x.about(dedup.Superseded, a, content("a", "s"))
		x.want(dedup.Known, content("b", "s"))
		x.advance(50*minute - time.Millisecond)
		x.want(dedup.Superseded, content("a", "s"))
		x.advance(time.Millisecond)
		again := x.accept(content("a", "s"))
		if again == a || again == b {
			x.Errorf("the event %q came twice", again)
		}
		x.want(dedup.Known, content("a", "s"))
		x.want(dedup.Superseded, content("b", "s"))
	}},
	{"TheWindowOfAReplacedEventMayHaveEndedAlready", func(x *rig) {
		x.accept(content("a", "s"))
		x.advance(100 * hour)
		x.accept(content("b", "s"))
		x.want(dedup.New, content("a", "s"))
		x.want(dedup.Superseded, content("b", "s"))
	}},
	{"ALargeBodyIsNewInTheStepThatReplacesItsEvent", func(x *rig) {
		large := func(id string) dedup.Claim {
			c := content(id, "s")
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		x.accept(large("a"))
		x.advance(100 * hour)
		ds := x.claims(large("b"), large("a"))
		x.verdicts(ds, dedup.New, dedup.New)
		for _, d := range ds {
			x.body(d.Record.Event, large("").Payload.Body)
		}
	}},
	{"OneStepSeesTheSeries", func(x *rig) {
		ds := x.claims(content("a", "s"), content("b", "s"), content("a", "s"), content("b", "s"))
		x.verdicts(ds, dedup.New, dedup.New, dedup.Superseded, dedup.Known)
	}},
	{"SeriesDoNotMeet", func(x *rig) {
		a := x.accept(content("a", "s"))
		x.accept(content("b", "t"))
		x.accept(delivery("s"))
		x.advance(2 * hour)
		x.about(dedup.Known, a, content("a", "s"))
		x.want(dedup.Known, content("b", "t"))
	}},
	{"AReleasedClaimThatRunsAgainIsTheNewest", func(x *rig) {
		a := held("a")
		a.Series = content("a", "s").Series
		lease := x.want(dedup.New, a).Lease
		x.accept(content("b", "s"))
		x.finish(lease, release())
		x.want(dedup.New, a)
		x.want(dedup.Superseded, content("b", "s"))
		x.accept(content("c", "s"))
		x.want(dedup.Superseded, a)
	}},
	{"APurgedNewestIsNew", func(x *rig) {
		x.purge(x.accept(content("a", "s")))
		x.want(dedup.New, content("a", "s"))
	}},
	{"TheNewestIsKnownAfterAReopen", func(x *rig) {
		x.accept(content("a", "s"))
		x.accept(content("b", "s"))
		x.reopen()
		x.want(dedup.Superseded, content("a", "s"))
		x.want(dedup.Known, content("b", "s"))
		x.advance(2 * hour)
		x.want(dedup.Known, content("b", "s"))
		x.accept(content("a", "s"))
	}},
}

// content is a claim of a series without tasks, with a window of an hour.
func content(id, series string) dedup.Claim {
	c := brief(id)
	c.Series = dedup.Key{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceSeries, ID: series}
	return c
}
