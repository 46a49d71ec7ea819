package deduptest

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/eyelet-dev/eyelet/dedup"
)

var quarantineChecks = []check{
	{"AQuarantinedDeliveryIsADeadLetterThatNeverRuns", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
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
		if after.Response.Status != 202 || after.State() != dedup.Done {
			x.Errorf("the original: %s", text(after))
		}
		x.advance(30 * day)
		x.get(r.Event)
	}},
	{"OneDeliveryIsQuarantinedOnce", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		event := x.accept(quarantineOf(original, 2, 4))
		for range 3 {
			x.about(dedup.Known, event, quarantineOf(original, 2, 4))
		}
		x.accept(quarantineOf(original, 3, 4))
		x.quarantined(original.Event, 2)
	}},
	{"OnlyMaxAreKeptAndTheRestIsCounted", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		for n := 2; n < 6; n++ {
			d := x.claim(quarantineOf(original, n, 2))
			kept := n < 4
			if kept != (d.Verdict == dedup.New) || !kept && (d.Verdict != dedup.Known ||
				d.Record.Event != original.Event || d.Record.QuarantineCount != n-1) {
				x.Errorf("delivery %d: %v of %q with a count of %d",
					n, d.Verdict, d.Record.Event, d.Record.QuarantineCount)
			}
		}
		x.quarantined(original.Event, 4)
		equal(x, "records", len(x.list(dedup.Filter{Quarantined: true})), 2)
	}},
	{"WithoutALimitAllAreKept", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		for n := 2; n < 40; n++ {
			x.accept(quarantineOf(original, n, 0))
		}
		x.quarantined(original.Event, 38)
	}},
	{"ADeliveryWhoseOriginalIsGoneIsKept", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		original.Event = "gone"
		r := x.get(x.accept(quarantineOf(original, 2, 1)))
		equal(x, "original", r.Original, "gone")
		x.accept(quarantineOf(original, 3, 1))
	}},
	{"AQuarantinedDeliveryCanBeReopened", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		event := x.accept(quarantineOf(original, 2, 0))
		x.reopenEvent(event)
		w := x.takeOf(event)
		x.attempt(w, 1)
		if r := w.Record; string(r.Payload.Body) != "payload 2" || r.QuarantineReason != "conflict" {
			x.Errorf("work: %s", text(r))
		}
		x.finish(w.Lease, done())
		x.state(event, 0, dedup.Done)
	}},
	{"AllDeliveriesOfACallAreCounted", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		of := func(n int) dedup.Claim { return quarantineOf(original, n, 2) }
		ds := x.claims(of(2), of(3), of(2), of(4))
		x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.Known)
		if ds[2].Record.Event != ds[0].Record.Event || ds[3].Record.Event != original.Event {
			x.Errorf("known as %q and %q", ds[2].Record.Event, ds[3].Record.Event)
		}
		x.quarantined(original.Event, 3)
	}},
	// It is listed, selected and kept.
	{"AQuarantinedDeliveryWithoutTasksIsADeadLetter", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		c := quarantineOf(original, 2, 0)
		c.Tasks = nil
		event := x.accept(c)
		if r := x.get(event); r.State() != dedup.Dead || r.Finished.IsZero() {
			x.Errorf("quarantined: %s", text(r))
		}
		x.lists(dedup.Filter{States: []dedup.State{dedup.Dead}}, "a")
		x.lists(dedup.Filter{Reason: "conflict"}, "a")
		x.lists(dedup.Filter{States: []dedup.State{dedup.Dead}, Reason: "conflict", Quarantined: true}, "a")
		x.lists(dedup.Filter{Reason: "same_bytes"}, "")
		x.lists(dedup.Filter{Reason: "conflict", Handler: "ship"}, "")
		x.lists(dedup.Filter{Reason: "conflict", States: []dedup.State{dedup.Done}}, "")
		x.advance(30 * day)
		x.get(event)
		x.failsReopen(dedup.ErrNotDead, event)
		if r := x.reopenEvent(event, dedup.NewTask{Handler: "ship"}); r.State() != dedup.Pending {
			x.Fatalf("reopened: %s", text(r))
		}
		x.runsWith([]byte("payload 2"), event)
		r := x.get(event)
		equal(x, "state after its run", r.State(), dedup.Done)
	}},
	{"AQuarantinedDeliveryKeepsItsBodyWithoutItsOriginal", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		bodies := map[string][]byte{}
		for n, size := range []int{0, 2000, 3 << 19} {
			c := quarantineOf(original, n+2, 0)
			c.Payload.Body = bytes.Repeat([]byte{'B'}, size)
			bodies[x.accept(c)] = c.Payload.Body
		}
		x.purge(original.Event)
		x.advance(30 * day)
		if x.harness.Reopen != nil {
			x.reopen()
		}
		for event, body := range bodies {
			x.body(event, body)
			x.reopenEvent(event)
			x.runsWith(body, event)
		}
	}},
	// The counts follow every change and survive a restart.
	{"QuarantinedDeliveriesAreCountedByEndpointAndReason", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		want := func(want map[dedup.QuarantineGroup]int64) {
			x.Helper()
			equal := func(s dedup.Stats) bool { return maps.Equal(s.Quarantined, want) }
			x.stats(fmt.Sprint("quarantined ", want), equal)
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
		x.run(dead(), first)
		want(map[dedup.QuarantineGroup]int64{conflict: 1, same: 1})
		x.purge(second)
		want(map[dedup.QuarantineGroup]int64{same: 1})
	}},
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
