package dedup_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func claimOf(change func(*dedup.Claim)) dedup.Claim {
	c := dedup.Claim{
		Key:     dedup.Key{Principal: "shop", Endpoint: "orders", ID: "k"},
		Payload: dedup.Payload{Endpoint: "orders", Body: []byte("body")},
		Tasks:   []dedup.NewTask{{Handler: "ship"}},
		Window:  time.Hour,
	}
	if change != nil {
		change(&c)
	}
	return c
}

func hold(c *dedup.Claim) { c.Hold, c.Lease = true, time.Minute }

// made returns the record of a claim accepted at t0, after the given results of its first task.
func made(t *testing.T, change func(*dedup.Claim), results ...dedup.Result) dedup.Record {
	t.Helper()
	c := claimOf(change)
	r := dedup.Accept(dedup.Record{}, c, "e1", 1, 1, t0)
	for i, res := range results {
		lease := dedup.Lease{Event: "e1", Token: 1}
		if !c.Hold {
			lease = r.Start(0, uint64(i+2), t0, time.Minute)
		}
		if err := r.Finish(nil, lease, res, t0); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func result(k dedup.Kind) dedup.Result { return dedup.Result{Kind: k} }

func TestAcceptContinuesAFreedClaim(t *testing.T) {
	t.Parallel()
	n := func(id string) dedup.Key { return dedup.Key{Space: dedup.SpaceNonce, ID: id} }
	first := func(c *dedup.Claim) {
		hold(c)
		c.Fingerprint, c.Aliases = dedup.Fingerprint{7}, []dedup.Key{n("a"), n("b")}
	}
	old := made(t, first, dedup.Result{Kind: dedup.ResultRelease, Reason: "failed", Err: "timed out"})
	old.QuarantineCount = 3
	c := claimOf(func(c *dedup.Claim) {
		hold(c)
		c.Aliases = []dedup.Key{n("b"), n("c")}
		c.Payload = dedup.Payload{Producer: "other", Type: "other", Body: []byte("again")}
		c.Tasks[0].Handler, c.Window, c.Note, c.DropBody = "other", time.Second, "other", true
		c.Fingerprint = dedup.Fingerprint{}
	})
	later := t0.Add(time.Minute)
	got := dedup.Accept(old, c, "unused", 99, 5, later)
	want := dedup.Record{
		Event: "e1", Key: c.Key, Aliases: []dedup.Key{n("a"), n("b"), n("c")}, Fingerprint: dedup.Fingerprint{7},
		Generation: 1, Seq: 1, Accepted: t0, Window: time.Hour, Payload: old.Payload, Hold: true, QuarantineCount: 3,
		Tasks: []dedup.Task{{
			Handler: "ship", State: dedup.Running, Attempt: 2, Due: t0, Started: later, Ended: t0,
			Reason: "failed", Err: "timed out", Token: 5, Until: later.Add(time.Minute),
			History: []dedup.Attempt{
				{Number: 1, Started: t0, Ended: t0, State: dedup.Pending, Reason: "failed", Err: "timed out"},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if old.Tasks[0].State != dedup.Pending {
		t.Error("the old record was changed")
	}
	after := dedup.Accept(old, c, "e2", 2, 6, t0.Add(time.Hour))
	if after.Event != "e2" || after.Seq != 2 || after.Generation != 2 || after.Tasks[0].Attempt != 1 ||
		len(after.Aliases) != 2 {
		t.Errorf("after the window: %+v", after)
	}
}

func TestFinishForEveryKind(t *testing.T) {
	t.Parallel()
	later := t0.Add(time.Second)
	for _, row := range []struct {
		kind     dedup.Kind
		hold     bool
		state    dedup.State
		attempt  int
		due      time.Time
		ends     time.Time
		responds bool
	}{
		{dedup.ResultDone, false, dedup.Done, 1, t0, later.Add(time.Hour), true},
		{dedup.ResultDead, false, dedup.Dead, 1, t0, later.Add(time.Hour), true},
		{dedup.ResultRetry, false, dedup.Pending, 1, later.Add(time.Minute), time.Time{}, false},
		{dedup.ResultRelease, false, dedup.Pending, 0, later, time.Time{}, false},
		{dedup.ResultDone, true, dedup.Done, 1, t0, later.Add(time.Hour), true},
		{dedup.ResultDead, true, dedup.Dead, 1, t0, later.Add(time.Hour), true},
		{dedup.ResultRetry, true, dedup.Pending, 1, later.Add(time.Minute), later.Add(time.Hour), false},
		{dedup.ResultRelease, true, dedup.Pending, 1, later, later.Add(time.Hour), false},
	} {
		name := fmt.Sprintf("kind %d, hold %t", row.kind, row.hold)
		r := made(t, func(c *dedup.Claim) { c.Hold, c.Lease = row.hold, time.Minute })
		lease := dedup.Lease{Event: "e1", Token: 1}
		if !row.hold {
			lease = r.Start(0, 2, t0, time.Minute)
		}
		res := dedup.Result{
			Kind: row.kind, After: time.Minute, Reason: "why", Err: "text", Response: dedup.Response{Status: 418},
		}
		if err := r.Finish(nil, lease, res, later); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		task := r.Tasks[0]
		if task.State != row.state || task.Attempt != row.attempt || !task.Due.Equal(row.due) ||
			!task.Ended.Equal(later) || !task.Until.IsZero() {
			t.Errorf("%s: task %+v", name, task)
		}
		if task.Reason != "why" || task.Err != "text" || !r.Ends().Equal(row.ends) ||
			(r.Response.Status == 418) != row.responds {
			t.Errorf("%s: record %+v", name, r)
		}
		before := r.Clone()
		for kind := dedup.ResultDone; kind <= dedup.ResultRelease; kind++ {
			if err := r.Finish(nil, lease, result(kind), later); !errors.Is(err, dedup.ErrLeaseLost) {
				t.Errorf("%s, then kind %d with the same lease: %v", name, kind, err)
			}
		}
		if diff := cmp.Diff(before, r); diff != "" {
			t.Errorf("%s: a lost lease changed the record:\n%s", name, diff)
		}
	}
}

func TestARecordHoldsOnlyItsNewestLease(t *testing.T) {
	t.Parallel()
	r := made(t, func(c *dedup.Claim) { c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"}) })
	old := r.Start(0, 5, t0, time.Minute)
	r.Recover(0, t0.Add(time.Minute), 0)
	if r.Holds(old) {
		t.Error("it holds the lease of an interrupted attempt")
	}
	l := r.Start(0, 6, t0.Add(time.Minute), time.Minute)
	for name, forged := range map[string]dedup.Lease{
		"older":         old,
		"newer":         {Event: "e1", Token: 7},
		"other event":   {Event: "e2", Token: 6},
		"other task":    {Event: "e1", Task: 1, Token: 6},
		"no task":       {Event: "e1", Task: 2, Token: 6},
		"negative task": {Event: "e1", Task: -1, Token: 6},
		"nothing":       {},
		"never started": {Event: "e1", Task: 1},
	} {
		before := r.Clone()
		if r.Holds(forged) || !errors.Is(r.Extend(forged, time.Hour, t0), dedup.ErrLeaseLost) {
			t.Errorf("%s: it holds %+v", name, forged)
		}
		if diff := cmp.Diff(before, r); diff != "" {
			t.Errorf("%s: changed the record:\n%s", name, diff)
		}
	}
	if !r.Holds(l) || r.Extend(l, time.Hour, t0) != nil || !r.Tasks[0].Until.Equal(t0.Add(time.Hour)) {
		t.Errorf("it does not hold its newest lease: %+v", r.Tasks[0])
	}
	err := r.Finish(nil, l, dedup.Result{Kind: 9}, t0)
	if !errors.Is(err, dedup.ErrInvalid) || r.Tasks[0].State != dedup.Running {
		t.Errorf("unknown kind: %v, %+v", err, r.Tasks[0])
	}
}

func TestRecoverCountsTheAttemptAndFreesAHeldClaimFromTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	r := made(t, nil)
	r.Start(0, 2, t0, time.Minute)
	r.Recover(0, t0.Add(time.Hour), 10*time.Second)
	due := t0.Add(time.Hour + 10*time.Second)
	if task := r.Tasks[0]; task.State != dedup.Pending || task.Attempt != 1 || !task.Due.Equal(due) ||
		task.Reason != "interrupted" {
		t.Errorf("task %+v", task)
	}
	before := r.Clone()
	r.Recover(0, t0.Add(2*time.Hour), 0)
	if diff := cmp.Diff(before, r); diff != "" {
		t.Errorf("a pending task was recovered:\n%s", diff)
	}
	for after, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
		h := made(t, hold)
		h.Recover(0, t0.Add(after), 0)
		if !h.Finished.Equal(t0.Add(want)) || !h.Expires.Equal(t0.Add(want+time.Hour)) {
			t.Errorf("recovered after %v: finished %v", after, h.Finished)
		}
	}
}
