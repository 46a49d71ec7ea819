package deduptest

import (
	"bytes"
	"errors"
	"maps"

	"github.com/eyelet-dev/eyelet/dedup"
)

// asideWithoutTasks wants a quarantined delivery without tasks to be listed, selected and kept as one with tasks.
func asideWithoutTasks(x *rig) {
	original := x.get(x.accept(delivery("a")))
	x.finish(x.takeOf(original.Event).Lease, done())
	c := asideOf(original, 2, 0)
	c.Tasks = nil
	event := x.accept(c)
	if r := x.get(event); r.State() != dedup.Dead || r.Finished.IsZero() {
		x.Errorf("kept aside: %s", text(r))
	}
	for _, f := range []dedup.Filter{
		{States: []dedup.State{dedup.Dead}},
		{Reason: "conflict"},
		{States: []dedup.State{dedup.Dead}, Reason: "conflict", Quarantined: true},
	} {
		if got := x.list(f); len(got) != 1 || got[0].Event != event {
			x.Errorf("%+v lists %d records, want the one that is kept aside", f, len(got))
		}
	}
	for _, f := range []dedup.Filter{{Reason: "same_bytes"}, {Reason: "conflict", Handler: "ship"}, {Reason: "conflict", States: []dedup.State{dedup.Done}}} {
		if got := x.list(f); len(got) != 0 {
			x.Errorf("%+v lists %d records, want none", f, len(got))
		}
	}
	x.advance(30 * day)
	x.get(event)
	if _, err := x.store.Reopen(x.ctx, event); !errors.Is(err, dedup.ErrNotDead) {
		x.Errorf("reopened without a handler: %v", err)
	}
	r, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "ship"})
	if err != nil || r.State() != dedup.Pending {
		x.Fatalf("reopened: %v, %s", err, text(r))
	}
	w := x.takeOf(event)
	if string(w.Record.Payload.Body) != "payload 2" {
		x.Errorf("it runs with %q", w.Record.Payload.Body)
	}
	x.finish(w.Lease, done())
	if r := x.get(event); r.State() != dedup.Done {
		x.Errorf("after its run: %s", text(r))
	}
}

// asideSharesWithoutTasks wants a quarantined delivery that no handler took to run with the body of its original.
func asideSharesWithoutTasks(x *rig) {
	original, _, body := x.shared(2000, 0, nil)
	c := share(original, "copy", body)
	c.Tasks = nil
	event := x.accept(c)
	x.advance(30 * day)
	if r := x.get(event); !r.Shared {
		x.Errorf("it does not share: %s", text(bare(r)))
	}
	if _, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "ship"}); err != nil {
		x.Fatal(err)
	}
	w := x.takeOf(event)
	if !bytes.Equal(w.Record.Payload.Body, body) {
		x.Errorf("it runs with %d bytes, want %d", len(w.Record.Payload.Body), len(body))
	}
	x.finish(w.Lease, done())
}

// asideStats wants the counts of what is quarantined to follow every change, and to outlast the process.
func asideStats(x *rig) {
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
	conflict, same := dedup.QuarantineGroup{Endpoint: endpoint, Reason: "conflict"}, dedup.QuarantineGroup{Endpoint: endpoint, Reason: "same_bytes"}
	first, second := x.accept(asideOf(original, 2, 0)), x.accept(asideOf(original, 3, 0))
	third := asideOf(original, 4, 0)
	third.Quarantine.Reason, third.Tasks = "same_bytes", nil
	x.accept(third)
	want(map[dedup.QuarantineGroup]int64{conflict: 2, same: 1})
	if x.harness.Reopen != nil {
		x.reopen()
		want(map[dedup.QuarantineGroup]int64{conflict: 2, same: 1})
	}
	if _, err := x.store.Reopen(x.ctx, first); err != nil {
		x.Fatal(err)
	}
	want(map[dedup.QuarantineGroup]int64{conflict: 1, same: 1})
	x.finish(x.takeOf(first).Lease, dead())
	want(map[dedup.QuarantineGroup]int64{conflict: 1, same: 1})
	if err := x.store.Purge(x.ctx, second); err != nil {
		x.Fatal(err)
	}
	want(map[dedup.QuarantineGroup]int64{same: 1})
}
