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
	want := []dedup.Verdict{dedup.New, dedup.Known, dedup.New, dedup.Conflict, dedup.New}
	ids := []string{"a", "known", "b", "known", "c"}
	for i, d := range ds {
		if d.Verdict != want[i] || d.Record.Key.ID != ids[i] {
			x.Errorf("decision %d: %v of %q, want %v of %q", i, d.Verdict, d.Record.Key.ID, want[i], ids[i])
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
	want := []dedup.Verdict{dedup.New, dedup.Known, dedup.Conflict, dedup.New, dedup.Known}
	for i, d := range ds {
		if d.Verdict != want[i] {
			x.Errorf("decision %d: %v, want %v", i, d.Verdict, want[i])
		}
		if i != 3 && d.Record.Event != ds[0].Record.Event {
			x.Errorf("decision %d is about %q, want %q", i, d.Record.Event, ds[0].Record.Event)
		}
	}
	if all := x.list(dedup.Filter{}); len(all) != 2 {
		x.Errorf("%d records, want 2", len(all))
	}
}

func batchHolds(x *rig) {
	ds := x.claims(held("a"), held("a"))
	if ds[0].Verdict != dedup.New || ds[1].Verdict != dedup.Known {
		x.Fatalf("verdicts %v, %v; want new, known", ds[0].Verdict, ds[1].Verdict)
	}
	if ds[0].Lease.Token == 0 || ds[1].Lease.Token != 0 {
		x.Errorf("leases %+v, %+v; want the first only", ds[0].Lease, ds[1].Lease)
	}
	x.finish(ds[0].Lease, answer(200, "ok"))
}

func batchAliases(x *rig) {
	a, b := delivery("a"), delivery("b")
	a.Aliases, b.Aliases = []dedup.Key{nonce("n")}, []dedup.Key{nonce("m"), nonce("n")}
	ds := x.claims(a, b)
	if ds[0].Verdict != dedup.New || ds[1].Verdict != dedup.Aliased {
		x.Fatalf("verdicts %v, %v; want new, aliased", ds[0].Verdict, ds[1].Verdict)
	}
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
	if n := x.records(); n != 4 {
		x.Errorf("%d records, want old, a, b and the quarantined one", n)
	}
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
	if n := x.records(); n != len(cs) {
		x.Errorf("%d records, want %d", n, len(cs))
	}
}
