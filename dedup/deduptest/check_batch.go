package deduptest

import (
	"fmt"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
)

var batchChecks = []check{
	{"DecisionsAreInTheOrderOfTheClaims", func(x *rig) {
		x.accept(delivery("known"))
		ds := x.claims(delivery("a"), delivery("known"), delivery("b"), altered(delivery("known")), delivery("c"))
		x.verdicts(ds, dedup.New, dedup.Known, dedup.New, dedup.Conflict, dedup.New)
		for i, id := range []string{"a", "known", "b", "known", "c"} {
			if got := ds[i].Record.Key.ID; got != id {
				x.Errorf("decision %d of %q, want %q", i, got, id)
			}
		}
		if ds[0].Record.Seq >= ds[2].Record.Seq || ds[2].Record.Seq >= ds[4].Record.Seq {
			x.Errorf("sequences %d, %d, %d do not grow", ds[0].Record.Seq, ds[2].Record.Seq, ds[4].Record.Seq)
		}
	}},
	{"ALaterClaimOfTheCallSeesAnEarlierOne", func(x *rig) {
		ds := x.claims(delivery("a"), delivery("a"), altered(delivery("a")), delivery("b"), delivery("a"))
		x.verdicts(ds, dedup.New, dedup.Known, dedup.Conflict, dedup.New, dedup.Known)
		for i, d := range ds {
			if i != 3 && d.Record.Event != ds[0].Record.Event {
				x.Errorf("decision %d is about %q, want %q", i, d.Record.Event, ds[0].Record.Event)
			}
		}
		x.count(2)
	}},
	{"ALaterClaimOfTheCallSeesTheLeaseOfAnEarlierOne", func(x *rig) {
		ds := x.claims(held("a"), held("a"))
		x.verdicts(ds, dedup.New, dedup.Known)
		if ds[0].Lease.Token == 0 || ds[1].Lease.Token != 0 {
			x.Errorf("leases %+v, %+v; want the first only", ds[0].Lease, ds[1].Lease)
		}
		x.finish(ds[0].Lease, answer(200, "ok"))
	}},
	{"ALaterClaimOfTheCallSeesTheAliasOfAnEarlierOne", func(x *rig) {
		ds := x.claims(aliased("a", nonce("n")), aliased("b", nonce("m"), nonce("n")))
		x.verdicts(ds, dedup.New, dedup.Aliased)
		if ds[1].Record.Event != ds[0].Record.Event || ds[1].Alias != nonce("n") {
			x.Errorf("aliased to %q by %+v", ds[1].Record.Event, ds[1].Alias)
		}
	}},
	{"ARefusedItemDoesNotStopTheOthers", func(x *rig) {
		x.accept(delivery("old"))
		conflict := altered(delivery("old"))
		quarantined := conflict
		quarantined.Key.Space = dedup.SpaceQuarantine + "2"
		quarantined.Quarantine = &dedup.Quarantine{Reason: "conflict"}
		x.claims(delivery("a"), conflict, quarantined, delivery("b"))
		ran := map[string]bool{}
		for range 3 {
			ran[x.take().Record.Key.ID] = true
		}
		if !ran["old"] || !ran["a"] || !ran["b"] {
			x.Errorf("work was taken for %v", ran)
		}
		x.idle("the quarantined item never runs")
		x.count(4)
	}},
	{"ManyClaimsFitOneCall", func(x *rig) {
		var cs []dedup.Claim
		for i := range 200 {
			cs = append(cs, delivery(fmt.Sprint("k", i)))
		}
		x.verdicts(x.claims(cs...), slices.Repeat([]dedup.Verdict{dedup.New}, len(cs))...)
		x.count(len(cs))
	}},
}
