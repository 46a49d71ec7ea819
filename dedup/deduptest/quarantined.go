package deduptest

import (
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

func asideChecks() []check {
	return []check{
		{"ADeliveryKeptAsideIsADeadLetterThatNeverRuns", asideNeverRuns},
		{"OneDeliveryIsKeptAsideOnce", asideOnce},
		{"OnlyMaxAreKeptAndTheRestIsCounted", asideMax},
		{"WithoutALimitAllAreKept", asideUnlimited},
		{"ADeliveryWhoseOriginalIsGoneIsKept", asideOrphan},
		{"ADeliveryKeptAsideCanBeReopened", asideReopens},
		{"OfOneCallAllCount", asideBatch},
		{"ADeliveryKeptAsideThatNoHandlerTakesIsADeadLetter", asideWithoutTasks},
		{"ADeliveryThatNoHandlerTakesSharesABody", asideSharesWithoutTasks},
		{"WhatIsKeptAsideIsCountedByEndpointAndReason", asideStats},
	}
}

// asideOf is another payload of the original's key, told apart by n.
func asideOf(original dedup.Record, n, most int) dedup.Claim {
	c := delivery(original.Key.ID)
	c.Fingerprint = fingerprint(byte(n))
	c.Key.Space = fmt.Sprint(dedup.SpaceQuarantine, n)
	c.Payload.Body = fmt.Appendf(nil, "payload %d", n)
	c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: original.Event, Max: most}
	return c
}

func asideNeverRuns(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	r := x.get(x.accept(asideOf(original, 2, 0)))
	if r.QuarantineReason != "conflict" || r.Original != original.Event || r.State() != dedup.Dead || r.Finished.IsZero() {
		x.Errorf("kept aside: %s", text(r))
	}
	if task := r.Tasks[0]; task.State != dedup.Dead || task.Reason != "conflict" || task.Attempt != 0 {
		x.Errorf("its task: %+v", task)
	}
	x.idle("the only open event is kept aside")
	after := x.get(original.Event)
	if after.QuarantineCount != 1 {
		x.Errorf("the original counts %d, want 1", after.QuarantineCount)
	}
	after.QuarantineCount = original.QuarantineCount
	if after.Response.Status != 202 || after.State() != dedup.Done {
		x.Errorf("the original: %s", text(after))
	}
	x.advance(30 * day)
	x.get(r.Event)
}

func asideOnce(x *rig) {
	original := x.get(x.accept(delivery("a")))
	event := x.accept(asideOf(original, 2, 4))
	for range 3 {
		if d := x.want(dedup.Known, asideOf(original, 2, 4)); d.Record.Event != event {
			x.Errorf("known as %q, want %q", d.Record.Event, event)
		}
	}
	x.accept(asideOf(original, 3, 4))
	if n := x.get(original.Event).QuarantineCount; n != 2 {
		x.Errorf("the original counts %d, want 2", n)
	}
}

func asideMax(x *rig) {
	original := x.get(x.accept(delivery("a")))
	for n := 2; n < 6; n++ {
		d := x.claim(asideOf(original, n, 2))
		kept := n < 4
		if kept != (d.Verdict == dedup.New) || !kept && (d.Verdict != dedup.Known || d.Record.Event != original.Event) {
			x.Errorf("delivery %d: %v of %q", n, d.Verdict, d.Record.Event)
		}
		if !kept && d.Record.QuarantineCount != n-1 {
			x.Errorf("delivery %d: the decision counts %d, want %d", n, d.Record.QuarantineCount, n-1)
		}
	}
	if n := x.get(original.Event).QuarantineCount; n != 4 {
		x.Errorf("the original counts %d, want all 4", n)
	}
	if n := len(x.list(dedup.Filter{Quarantined: true})); n != 2 {
		x.Errorf("%d are kept, want 2", n)
	}
}

func asideUnlimited(x *rig) {
	original := x.get(x.accept(delivery("a")))
	for n := 2; n < 40; n++ {
		x.accept(asideOf(original, n, 0))
	}
	if n := x.get(original.Event).QuarantineCount; n != 38 {
		x.Errorf("the original counts %d, want 38", n)
	}
}

func asideOrphan(x *rig) {
	original := x.get(x.accept(delivery("a")))
	original.Event = "gone"
	r := x.get(x.accept(asideOf(original, 2, 1)))
	if r.Original != "gone" {
		x.Errorf("original %q", r.Original)
	}
	x.accept(asideOf(original, 3, 1))
}

func asideReopens(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	event := x.accept(asideOf(original, 2, 0))
	if _, err := x.store.Reopen(x.ctx, event); err != nil {
		x.Fatal(err)
	}
	w := x.takeOf(event)
	if string(w.Record.Payload.Body) != "payload 2" || w.Record.QuarantineReason != "conflict" || w.Task().Attempt != 1 {
		x.Errorf("work: %s", text(w.Record))
	}
	x.finish(w.Lease, done())
	x.state(event, 0, dedup.Done)
}

func asideBatch(x *rig) {
	original := x.get(x.accept(delivery("a")))
	ds := x.claims(asideOf(original, 2, 2), asideOf(original, 3, 2), asideOf(original, 2, 2), asideOf(original, 4, 2))
	want := []dedup.Verdict{dedup.New, dedup.New, dedup.Known, dedup.Known}
	for i, d := range ds {
		if d.Verdict != want[i] {
			x.Errorf("decision %d: %v, want %v", i, d.Verdict, want[i])
		}
	}
	if ds[2].Record.Event != ds[0].Record.Event || ds[3].Record.Event != original.Event {
		x.Errorf("known as %q and %q", ds[2].Record.Event, ds[3].Record.Event)
	}
	if n := x.get(original.Event).QuarantineCount; n != 3 {
		x.Errorf("the original counts %d, want 3", n)
	}
}
