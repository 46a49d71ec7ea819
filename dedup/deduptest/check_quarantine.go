package deduptest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	"github.com/eyelet-dev/eyelet/dedup"
)

var quarantineChecks = []check{
	{"AQuarantinedDeliveryIsADeadLetterThatNeverRuns", quarantineNeverRuns},
	{"OneDeliveryIsQuarantinedOnce", quarantineOnce},
	{"OnlyMaxAreKeptAndTheRestIsCounted", quarantineMax},
	{"WithoutALimitAllAreKept", quarantineUnlimited},
	{"ADeliveryWhoseOriginalIsGoneIsKept", quarantineOrphan},
	{"AQuarantinedDeliveryCanBeReopened", quarantineReopens},
	{"AllDeliveriesOfACallAreCounted", quarantineBatch},
	{"AQuarantinedDeliveryWithoutTasksIsADeadLetter", quarantineWithoutTasks},
	{"ADeliveryWithoutTasksSharesABody", quarantineSharesWithoutTasks},
	{"QuarantinedDeliveriesAreCountedByEndpointAndReason", quarantineStats},
}

// quarantineOf is another payload of the original's key, numbered n.
func quarantineOf(original dedup.Record, n, most int) dedup.Claim {
	c := delivery(original.Key.ID)
	c.Fingerprint = fingerprint(byte(n))
	c.Key.Space = fmt.Sprint(dedup.SpaceQuarantine, n)
	c.Payload.Body = fmt.Appendf(nil, "payload %d", n)
	c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: original.Event, Max: most}
	return c
}

func quarantineNeverRuns(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	r := x.get(x.accept(quarantineOf(original, 2, 0)))
	if r.QuarantineReason != "conflict" || r.Original != original.Event || r.State() != dedup.Dead ||
		r.Finished.IsZero() {
		x.Errorf("quarantined: %s", text(r))
	}
	if task := r.Tasks[0]; task.State != dedup.Dead || task.Reason != "conflict" || task.Attempt != 0 {
		x.Errorf("its task: %+v", task)
	}
	x.idle("the only open event is quarantined")
	after := x.get(original.Event)
	equal(x, "quarantine count", after.QuarantineCount, 1)
	after.QuarantineCount = original.QuarantineCount
	if after.Response.Status != 202 || after.State() != dedup.Done {
		x.Errorf("the original: %s", text(after))
	}
	x.advance(30 * day)
	x.get(r.Event)
}

func quarantineOnce(x *rig) {
	original := x.get(x.accept(delivery("a")))
	event := x.accept(quarantineOf(original, 2, 4))
	for range 3 {
		x.about(dedup.Known, event, quarantineOf(original, 2, 4))
	}
	x.accept(quarantineOf(original, 3, 4))
	x.quarantined(original.Event, 2)
}

func quarantineMax(x *rig) {
	original := x.get(x.accept(delivery("a")))
	for n := 2; n < 6; n++ {
		d := x.claim(quarantineOf(original, n, 2))
		kept := n < 4
		if kept != (d.Verdict == dedup.New) || !kept && (d.Verdict != dedup.Known || d.Record.Event != original.Event) {
			x.Errorf("delivery %d: %v of %q", n, d.Verdict, d.Record.Event)
		}
		if !kept && d.Record.QuarantineCount != n-1 {
			x.Errorf("delivery %d: the decision counts %d, want %d", n, d.Record.QuarantineCount, n-1)
		}
	}
	x.quarantined(original.Event, 4)
	equal(x, "records", len(x.list(dedup.Filter{Quarantined: true})), 2)
}

func quarantineUnlimited(x *rig) {
	original := x.get(x.accept(delivery("a")))
	for n := 2; n < 40; n++ {
		x.accept(quarantineOf(original, n, 0))
	}
	x.quarantined(original.Event, 38)
}

func quarantineOrphan(x *rig) {
	original := x.get(x.accept(delivery("a")))
	original.Event = "gone"
	r := x.get(x.accept(quarantineOf(original, 2, 1)))
	equal(x, "original", r.Original, "gone")
	x.accept(quarantineOf(original, 3, 1))
}

func quarantineReopens(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	event := x.accept(quarantineOf(original, 2, 0))
	x.reopenEvent(event)
	w := x.takeOf(event)
	r := w.Record
	if string(r.Payload.Body) != "payload 2" || r.QuarantineReason != "conflict" || r.Tasks[0].Attempt != 1 {
		x.Errorf("work: %s", text(w.Record))
	}
	x.finish(w.Lease, done())
	x.state(event, 0, dedup.Done)
}

func quarantineBatch(x *rig) {
	original := x.get(x.accept(delivery("a")))
	of := func(n int) dedup.Claim { return quarantineOf(original, n, 2) }
	ds := x.claims(of(2), of(3), of(2), of(4))
	x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.Known)
	if ds[2].Record.Event != ds[0].Record.Event || ds[3].Record.Event != original.Event {
		x.Errorf("known as %q and %q", ds[2].Record.Event, ds[3].Record.Event)
	}
	x.quarantined(original.Event, 3)
}

// quarantineWithoutTasks checks that a quarantined delivery without tasks is listed, selected
// and kept.
func quarantineWithoutTasks(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	c := quarantineOf(original, 2, 0)
	c.Tasks = nil
	event := x.accept(c)
	if r := x.get(event); r.State() != dedup.Dead || r.Finished.IsZero() {
		x.Errorf("quarantined: %s", text(r))
	}
	for _, f := range []dedup.Filter{
		{States: []dedup.State{dedup.Dead}},
		{Reason: "conflict"},
		{States: []dedup.State{dedup.Dead}, Reason: "conflict", Quarantined: true},
	} {
		if got := x.list(f); len(got) != 1 || got[0].Event != event {
			x.Errorf("%+v lists %d records, want the quarantined one", f, len(got))
		}
	}
	for _, f := range []dedup.Filter{
		{Reason: "same_bytes"}, {Reason: "conflict", Handler: "ship"},
		{Reason: "conflict", States: []dedup.State{dedup.Done}},
	} {
		if got := x.list(f); len(got) != 0 {
			x.Errorf("%+v lists %d records, want none", f, len(got))
		}
	}
	x.advance(30 * day)
	x.get(event)
	if _, err := x.store.Reopen(x.ctx, event); !errors.Is(err, dedup.ErrNotDead) {
		x.Errorf("reopened without a handler: %v", err)
	}
	if r := x.reopenEvent(event, dedup.NewTask{Handler: "ship"}); r.State() != dedup.Pending {
		x.Fatalf("reopened: %s", text(r))
	}
	w := x.takeOf(event)
	equal(x, "body of the work", string(w.Record.Payload.Body), "payload 2")
	x.finish(w.Lease, done())
	r := x.get(event)
	equal(x, "state after its run", r.State(), dedup.Done)
}

// quarantineSharesWithoutTasks checks that a delivery without tasks runs with the body of its
// original.
func quarantineSharesWithoutTasks(x *rig) {
	original, _, body := shared(x, 2000, 0, nil)
	c := share(original, "copy", body)
	c.Tasks = nil
	event := x.accept(c)
	x.advance(30 * day)
	if r := x.get(event); !r.Shared {
		x.Errorf("it does not share: %s", text(bare(r)))
	}
	x.reopenEvent(event, dedup.NewTask{Handler: "ship"})
	w := x.takeOf(event)
	if !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("it runs with %d bytes, want %d", len(w.Record.Payload.Body), len(body))
	}
	x.finish(w.Lease, done())
}

// quarantineStats checks that the counts follow every change and survive a restart.
func quarantineStats(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	want := func(want map[dedup.QuarantineGroup]int64) {
		x.Helper()
		if got := x.stats().Quarantined; !maps.Equal(got, want) {
			x.Errorf("quarantined %v, want %v", got, want)
		}
	}
	want(nil)
	endpoint := delivery("a").Payload.Endpoint
	conflict := dedup.QuarantineGroup{Endpoint: endpoint, Reason: "conflict"}
	same := dedup.QuarantineGroup{Endpoint: endpoint, Reason: "same_bytes"}
	first, second := x.accept(quarantineOf(original, 2, 0)), x.accept(quarantineOf(original, 3, 0))
	third := quarantineOf(original, 4, 0)
	third.Quarantine.Reason, third.Tasks = "same_bytes", nil
	x.accept(third)
	want(map[dedup.QuarantineGroup]int64{conflict: 2, same: 1})
	if x.harness.Reopen != nil {
		x.reopen()
		want(map[dedup.QuarantineGroup]int64{conflict: 2, same: 1})
	}
	x.reopenEvent(first)
	want(map[dedup.QuarantineGroup]int64{conflict: 1, same: 1})
	x.finish(x.takeOf(first).Lease, dead())
	want(map[dedup.QuarantineGroup]int64{conflict: 1, same: 1})
	x.purge(second)
	want(map[dedup.QuarantineGroup]int64{same: 1})
}
