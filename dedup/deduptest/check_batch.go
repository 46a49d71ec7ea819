package deduptest

import (
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

var batchChecks = []check{
	{"DecisionsAreInTheOrderOfTheClaims", batchOrder},
	{"ALaterClaimOfTheCallSeesAnEarlierOne", batchOverlaps},
	{"ALaterClaimOfTheCallSeesTheLeaseOfAnEarlierOne", batchHolds},
	{"ALaterClaimOfTheCallSeesTheAliasOfAnEarlierOne", batchAliases},
	{"ARefusedItemDoesNotStopTheOthers", batchConflict},
	{"ManyClaimsFitOneCall", batchMany},
}

func batchOrder(x *rig) {
	x.accept(delivery("known"))
	conflict := delivery("known")
	conflict.Fingerprint = fingerprint(2)
	ds := x.claims(delivery("a"), delivery("known"), delivery("b"), conflict, delivery("c"))
	x.verdicts(ds, dedup.New, dedup.Known, dedup.New, dedup.Conflict, dedup.New)
	for i, id := range []string{"a", "known", "b", "known", "c"} {
		if got := ds[i].Record.Key.ID; got != id {
			x.Errorf("decision %d of %q, want %q", i, got, id)
		}
	}
	if ds[0].Record.Seq >= ds[2].Record.Seq || ds[2].Record.Seq >= ds[4].Record.Seq {
		x.Errorf("sequences %d, %d, %d do not grow", ds[0].Record.Seq, ds[2].Record.Seq, ds[4].Record.Seq)
	}
}

func batchOverlaps(x *rig) {
	conflict := delivery("a")
	conflict.Fingerprint = fingerprint(2)
	ds := x.claims(delivery("a"), delivery("a"), conflict, delivery("b"), delivery("a"))
	x.verdicts(ds, dedup.New, dedup.Known, dedup.Conflict, dedup.New, dedup.Known)
	for i, d := range ds {
		if i != 3 && d.Record.Event != ds[0].Record.Event {
			x.Errorf("decision %d is about %q, want %q", i, d.Record.Event, ds[0].Record.Event)
		}
	}
	x.count(2)
}

func batchHolds(x *rig) {
	ds := x.claims(held("a"), held("a"))
	x.verdicts(ds, dedup.New, dedup.Known)
	if ds[0].Lease.Token == 0 || ds[1].Lease.Token != 0 {
		x.Errorf("leases %+v, %+v; want the first only", ds[0].Lease, ds[1].Lease)
	}
	x.finish(ds[0].Lease, answer(200, "ok"))
}

func batchAliases(x *rig) {
	a, b := delivery("a"), delivery("b")
	a.Aliases, b.Aliases = []dedup.Key{nonce("n")}, []dedup.Key{nonce("m"), nonce("n")}
	ds := x.claims(a, b)
	x.verdicts(ds, dedup.New, dedup.Aliased)
	if ds[1].Record.Event != ds[0].Record.Event || ds[1].Alias != nonce("n") {
		x.Errorf("aliased to %q by %+v", ds[1].Record.Event, ds[1].Alias)
	}
}

func batchConflict(x *rig) {
	x.accept(delivery("old"))
	conflict := delivery("old")
	conflict.Fingerprint = fingerprint(2)
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
}

func batchMany(x *rig) {
	var cs []dedup.Claim
	for i := range 200 {
		cs = append(cs, delivery(fmt.Sprint("k", i)))
	}
	for i, d := range x.claims(cs...) {
		if d.Verdict != dedup.New {
			x.Fatalf("claim %d: %v", i, d.Verdict)
		}
	}
	x.count(len(cs))
}
