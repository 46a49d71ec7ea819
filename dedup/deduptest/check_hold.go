package deduptest

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var holdChecks = []check{
	{"AHeldClaimRunsWithItsClaimer", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		r := x.get(d.Record.Event)
		task := r.Tasks[0]
		switch {
		case !r.Hold || len(r.Tasks) != 1 || task.State != dedup.Running || task.Attempt != 1 || r.Response.Status != 0:
			x.Errorf("record: %s", text(r))
		case d.Lease.Event != r.Event || d.Lease.Task != 0 || d.Lease.Token == 0 || d.Lease.Token != task.Token:
			x.Errorf("lease %+v of task %+v", d.Lease, task)
		case !x.harness.OwnClock && !d.Lease.Until.Equal(x.clock.Now().Add(minute)):
			x.Errorf("lease until %v, want a minute from %v", d.Lease.Until, x.clock.Now())
		case !r.Finished.IsZero() || !r.Expires.IsZero():
			x.Errorf("the window began: %s", text(r))
		}
	}},
	{"AHeldClaimIsNeverTakenByAWorker", func(x *rig) {
		x.want(dedup.New, held("a"))
		x.idle("the claim is held")
		x.advance(2 * minute)
		x.idle("the lease of the claim expired")
		d := x.want(dedup.New, held("a"))
		x.finish(d.Lease, release())
		x.idle("the claim is released")
		x.advance(hour)
		x.idle("the claim was released an hour ago")
	}},
	{"ItsResponseIsStoredAndRepeated", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		r := answer(201, "made\x00\xff")
		r.Response.Header.Add("Content-Type", "charset=\xff")
		x.finish(d.Lease, r)
		known := x.want(dedup.Known, held("a"))
		x.responds(known, 201, "made\x00\xff")
		got := known.Record
		header := got.Response.Header
		if types := header["Content-Type"]; header.Get("Location") != "/orders/1" || len(types) != 2 ||
			types[1] != "charset=\xff" {
			x.Errorf("header of the response to the duplicate: %+v", header)
		}
		if got.State() != dedup.Done || got.Finished.IsZero() || !got.Expires.Equal(got.Finished.Add(got.Window)) {
			x.Errorf("record: %s", text(got))
		}
		x.lost(d.Lease, "the claim has its response")
	}},
	{"AReleasedClaimIsNewAgainAndItsAttemptsCountOn", func(x *rig) {
		for attempt := 1; attempt <= 4; attempt++ {
			d := x.want(dedup.New, held("a"))
			equal(x, "attempt", x.get(d.Record.Event).Tasks[0].Attempt, attempt)
			x.want(dedup.Known, held("a"))
			x.finish(d.Lease, dedup.Result{Kind: dedup.ResultRelease, Reason: "failed", Err: "timed out"})
			task := x.get(d.Record.Event).Tasks[0]
			if task.State != dedup.Pending || task.Reason != "failed" || task.Err != "timed out" {
				x.Fatalf("released task: %+v", task)
			}
			x.lost(d.Lease, "the claim is released")
		}
	}},
	{"ARetriedClaimIsReleased", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		x.finish(d.Lease, retry(hour))
		x.continues(x.want(dedup.New, held("a")), d)
	}},
	{"AReleasedClaimKeepsItsEventAndSequence", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.finish(first.Lease, release())
		x.accept(delivery("other"))
		second := x.want(dedup.New, held("a"))
		r := x.get(second.Record.Event)
		if r.Event != first.Record.Event || r.Seq != first.Record.Seq || r.Generation != 1 ||
			!r.Accepted.Equal(first.Record.Accepted) {
			x.Errorf("second: %s\nfirst: %s", text(r), text(first.Record))
		}
		x.newer(second.Lease, first.Lease)
		equal(x, "records", len(x.list(dedup.Filter{ID: "a"})), 1)
	}},
	// Unsigned parts of a later delivery do not reach the handler.
	{"AReleasedClaimKeepsThePayloadAndTasksOfItsFirstDelivery", func(x *rig) {
		for name, size := range map[string]int{"small": 10, "large": 3 << 19} {
			first := held(name)
			first.Payload.Body, first.Aliases = bytes.Repeat([]byte{'1'}, size), []dedup.Key{nonce(name + "1")}
			d := x.want(dedup.New, first)
			want := x.get(d.Record.Event)
			for free := range 2 {
				if free == 0 {
					x.finish(d.Lease, release())
				} else {
					x.advance(2 * minute) // the lease expired
				}
				later := held(name)
				later.Payload = dedup.Payload{
					Producer: "other", Endpoint: "other", Type: "other", KeyField: "other",
					Method: "PUT", Target: "/other",
					Header: http.Header{"X-Shop": {"other"}}, Attributes: map[string]string{"source": "other"},
					Body: bytes.Repeat([]byte{'2'}, size),
				}
				later.Tasks = []dedup.NewTask{{Handler: "other", Lane: "other"}}
				later.Window, later.DropBody, later.Note = 7*hour, true, "other"
				later.Aliases = []dedup.Key{nonce(fmt.Sprint(name, free+2))}
				d = x.want(dedup.New, later)
				got := x.get(d.Record.Event)
				x.same(d.Record, bare(got), "record of the decision")
				if len(got.Aliases) != free+2 || got.Tasks[0].Attempt != free+2 || got.Tasks[0].State != dedup.Running {
					x.Errorf("record: %s", text(got))
				}
				got.Aliases, got.Tasks[0] = want.Aliases, want.Tasks[0]
				x.same(got, want, "record")
			}
		}
	}},
	{"AReleasedClaimConflictsWithAnotherPayload", func(x *rig) {
		x.finish(x.want(dedup.New, held("a")).Lease, release())
		x.want(dedup.Conflict, altered(held("a")))
		c := held("a")
		c.Fingerprint = dedup.Fingerprint{}
		x.finish(x.want(dedup.New, c).Lease, release())
		x.want(dedup.Conflict, altered(c)) // a delivery without a fingerprint does not remove the first one
	}},
	{"AFreedClaimIsNewOnlyToAClaimWithHold", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.finish(first.Lease, release())
		x.want(dedup.Known, delivery("a"))
		x.want(dedup.Known, asking(delivery("a")))
		x.want(dedup.Conflict, altered(delivery("a")))
		x.continues(x.want(dedup.New, held("a")), first)
		x.advance(2 * minute) // the lease expired
		x.want(dedup.Known, delivery("a"))
		x.finish(x.want(dedup.New, held("a")).Lease, answer(200, "done"))
		x.want(dedup.Known, delivery("a"))
	}},
	{"AnExpiredLeaseFreesTheClaim", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.advance(minute - time.Millisecond)
		x.want(dedup.Known, held("a"))
		x.advance(time.Millisecond)
		second := x.want(dedup.New, held("a"))
		x.continues(second, first)
		x.lost(first.Lease, "another claimer holds the claim")
		x.finish(second.Lease, answer(200, "second"))
		x.want(dedup.Known, held("a"))
	}},
	{"AnExtendedLeaseHoldsTheClaim", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		x.advance(minute / 2)
		x.extend(d.Lease, 2*minute)
		x.advance(2*minute - time.Millisecond)
		x.want(dedup.Known, held("a"))
		x.finish(d.Lease, answer(200, "late"))
		equal(x, "status", x.want(dedup.Known, held("a")).Record.Response.Status, 200)
	}},
	{"AfterTheNextClaimTheFirstLeaseIsLost", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.finish(first.Lease, release())
		second := x.want(dedup.New, held("a"))
		x.lost(first.Lease, "the claim was released and claimed again")
		l := second.Lease
		x.lost(dedup.Lease{Event: l.Event, Token: l.Token + 1, Until: l.Until}, "no lease has this token")
		for _, task := range []int{1, -1} {
			x.lost(dedup.Lease{Event: l.Event, Task: task, Token: l.Token, Until: l.Until}, "the task does not exist")
		}
		x.lost(dedup.Lease{Event: "unknown", Token: l.Token, Until: l.Until}, "the event does not exist")
		x.finish(second.Lease, answer(200, "second"))
	}},
	{"AHeldClaimCannotBeReopenedOrPurged", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		event := d.Record.Event
		guarded := func(state string) {
			x.Helper()
			before := x.get(event)
			x.failsReopen(dedup.ErrNotDead, event, dedup.NewTask{Handler: "another"})
			x.fails(x.store.Purge(x.ctx, event), dedup.ErrOpen, "Purge of a "+state+" claim")
			x.same(x.get(event), before, "record")
		}
		guarded("held")
		x.finish(d.Lease, release())
		guarded("released")
	}},
	{"AReopenedHeldClaimIsRunByWorkers", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		r := dead()
		r.Response = dedup.Response{Status: 422, Body: []byte("refused")}
		x.finish(d.Lease, r)
		x.responds(x.want(dedup.Known, held("a")), 422, "refused")
		x.reopenEvent(d.Record.Event)
		x.want(dedup.Known, held("a"))
		w := x.takeOf(d.Record.Event)
		if w.Task().Attempt != 1 || w.Lease.Token <= d.Lease.Token {
			x.Errorf("attempt %d, token %d after %d", w.Task().Attempt, w.Lease.Token, d.Lease.Token)
		}
		x.finish(w.Lease, done())
		if got := x.get(d.Record.Event); got.Response.Status != 422 || got.State() != dedup.Done {
			x.Errorf("record: %s", text(got))
		}
	}},
}
