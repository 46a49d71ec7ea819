package dedup_test

import (
	"errors"
	"fmt"
	"slices"
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
		if err := r.Finish(lease, res, t0); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func result(k dedup.Kind) dedup.Result { return dedup.Result{Kind: k} }

type decideRow struct {
	name   string
	record dedup.Record
	// at once; just before and at the end of the lease; just before and at the end of the window
	// after the outcome; just before and at the end of the window after the lease
	want [7]dedup.Verdict
}

// decideRows returns every state of a record, with the verdict for each of decideTimes. The
// effect of fingerprints is the same for all.
func decideRows(t *testing.T) []decideRow {
	t.Helper()
	const (
		known = dedup.Known
		fresh = dedup.New
	)
	allNew := [...]dedup.Verdict{fresh, fresh, fresh, fresh, fresh, fresh, fresh}
	allKnown := [...]dedup.Verdict{known, known, known, known, known, known, known}
	untilHour := [...]dedup.Verdict{known, known, known, known, fresh, fresh, fresh}
	answered := dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{Status: 200}}
	refused := dedup.Result{Kind: dedup.ResultDead, Response: dedup.Response{Status: 422}}
	quarantine := func(c *dedup.Claim) { c.Quarantine = &dedup.Quarantine{Reason: "conflict"} }
	twoTasks := func(c *dedup.Claim) { c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"}) }
	running := made(t, nil)
	running.Start(0, 2, t0, time.Minute)
	half := made(t, twoTasks, result(dedup.ResultDone))
	recovered := made(t, hold)
	recovered.Recover(0, t0, 0)
	reopened := made(t, nil, result(dedup.ResultDead))
	if err := reopened.Reopen(nil, t0); err != nil {
		t.Fatal(err)
	}
	return []decideRow{
		{"no record", dedup.Record{}, allNew},
		{"pending", made(t, nil), allKnown},
		{"running", running, allKnown},
		{"waits for a retry", made(t, nil, result(dedup.ResultRetry)), allKnown},
		{"released", made(t, nil, result(dedup.ResultRelease)), allKnown},
		{"one of two done", half, allKnown},
		{"reopened", reopened, allKnown},
		{"done", made(t, nil, result(dedup.ResultDone)), untilHour},
		{"dead", made(t, nil, result(dedup.ResultDead)), untilHour},
		{"no tasks", made(t, func(c *dedup.Claim) { c.Tasks = nil }), untilHour},
		{"quarantined", made(t, quarantine), untilHour},
		{"held", made(t, hold), [7]dedup.Verdict{known, known, fresh, fresh, fresh, fresh, fresh}},
		{"held, answered", made(t, hold, answered), untilHour},
		{"held, done without an answer", made(t, hold, result(dedup.ResultDone)), untilHour},
		{"held, refused", made(t, hold, refused), untilHour},
		{"held, dead without an answer", made(t, hold, result(dedup.ResultDead)), untilHour},
		{"held, released", made(t, hold, result(dedup.ResultRelease)), allNew},
		{"held, retried", made(t, hold, result(dedup.ResultRetry)), allNew},
		{"held, its process died", recovered, allNew},
	}
}

func decideTimes() [7]time.Duration {
	const moment = time.Nanosecond
	return [...]time.Duration{
		0, time.Minute - moment, time.Minute, time.Hour - moment, time.Hour,
		time.Hour + time.Minute - moment, time.Hour + time.Minute,
	}
}

func TestDecideForEveryStateFingerprintAndTime(t *testing.T) {
	t.Parallel()
	// live reports whether the record is in force, so that another payload conflicts.
	live := func(r dedup.Record, i int) bool {
		switch {
		case r.Event == "":
			return false
		case r.Hold && r.Tasks[0].State == dedup.Running:
			return i < 6 // the window after the lease
		case r.Open() && !r.Hold:
			return true
		}
		return i < 4
	}
	prints := []dedup.Fingerprint{{}, {1}, {2}}
	for _, row := range decideRows(t) {
		for i, after := range decideTimes() {
			for _, old := range prints {
				for _, now := range prints {
					for _, holds := range []bool{false, true} {
						record := row.record
						record.Fingerprint = old
						c := claimOf(func(c *dedup.Claim) {
							c.Fingerprint, c.Hold, c.Lease = now, holds, time.Minute
						})
						want := row.want[i]
						if want == dedup.New && live(record, i) && !holds {
							want = dedup.Known // it was freed, and only a claim with hold continues it
						}
						if live(record, i) && old != prints[0] && now != prints[0] && old != now {
							want = dedup.Conflict
						}
						if got := dedup.Decide(record, c, t0.Add(after)); got != want {
							t.Errorf("%s, %v later, payload %d after %d, hold %t: %v, want %v",
								row.name, after, now[0], old[0], holds, got, want)
						}
					}
				}
			}
		}
	}
}

// TestFingerprintsAreComparedAsFarAsTheStoreKeepsThem: a store may keep the first bytes only.
func TestFingerprintsAreComparedAsFarAsTheStoreKeepsThem(t *testing.T) {
	t.Parallel()
	const last = dedup.FingerprintLeast - 1
	whole := dedup.Fingerprint{0: 1, last: 2, 31: 3}
	for _, row := range []struct {
		name string
		f    dedup.Fingerprint
		want dedup.Verdict
	}{
		{"the same", whole, dedup.Known},
		{"cut", dedup.Fingerprint{0: 1, last: 2}, dedup.Known},
		{"another end", dedup.Fingerprint{0: 1, last: 2, 31: 4}, dedup.Conflict},
		{"cut, another", dedup.Fingerprint{0: 1, last: 3}, dedup.Conflict},
		{"another", dedup.Fingerprint{0: 1, last: 3, 31: 3}, dedup.Conflict},
		{"none", dedup.Fingerprint{}, dedup.Known},
	} {
		record := made(t, nil)
		record.Fingerprint = row.f
		c := claimOf(func(c *dedup.Claim) { c.Fingerprint = whole })
		if got := dedup.Decide(record, c, t0); got != row.want {
			t.Errorf("%s is stored: %v, want %v", row.name, got, row.want)
		}
		record.Fingerprint, c.Fingerprint = whole, row.f
		if got := dedup.Decide(record, c, t0); got != row.want {
			t.Errorf("%s is claimed: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestAliasTakenForEveryOwner(t *testing.T) {
	t.Parallel()
	c := claimOf(nil)
	same, other := made(t, nil), made(t, func(c *dedup.Claim) { c.Key.ID = "other" })
	old := made(t, func(c *dedup.Claim) { c.Key.ID, c.Tasks = "other", nil })
	for _, row := range []struct {
		name  string
		owner dedup.Record
		after time.Duration
		want  bool
	}{
		{"no record", dedup.Record{}, 0, false},
		{"the key itself", same, 0, false},
		{"another key", other, 0, true},
		{"another key, open for long", other, 100 * time.Hour, true},
		{"another key in its window", old, time.Hour - 1, true},
		{"another key after its window", old, time.Hour, false},
	} {
		alias := dedup.Key{Space: dedup.SpaceNonce}
		if got := dedup.AliasTaken(row.owner, alias, c, t0.Add(row.after)); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
}

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

func TestAcceptKeepsTheNewestAliases(t *testing.T) {
	t.Parallel()
	r := made(t, hold, result(dedup.ResultRelease))
	for i := range 200 {
		c := claimOf(func(c *dedup.Claim) {
			hold(c)
			c.Aliases = []dedup.Key{{Space: dedup.SpaceNonce, ID: fmt.Sprint(i)}}
		})
		r = dedup.Accept(r, c, "", 0, uint64(i+2), t0)
		lease := dedup.Lease{Event: "e1", Token: uint64(i + 2)}
		if err := r.Finish(lease, result(dedup.ResultRelease), t0); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Aliases); n != 64 || r.Aliases[n-1].ID != "199" || r.Aliases[0].ID != "136" {
		t.Errorf("%d aliases: %v", n, r.Aliases)
	}
	if r.Tasks[0].Attempt != 201 {
		t.Errorf("attempt %d, want 201", r.Tasks[0].Attempt)
	}
}

func TestAcceptIsDoneAtOnceOrDeadOrPending(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func(*dedup.Claim)
		state  dedup.State
		ended  bool
		window time.Duration
	}{
		{"ordinary", nil, dedup.Pending, false, time.Hour},
		{"default window", func(c *dedup.Claim) { c.Window = 0 }, dedup.Pending, false, 24 * time.Hour},
		{"negative window", func(c *dedup.Claim) { c.Window = -1 }, dedup.Pending, false, 24 * time.Hour},
		{"no tasks", func(c *dedup.Claim) { c.Tasks = nil }, dedup.Done, true, time.Hour},
		{"quarantined", func(c *dedup.Claim) {
			c.Quarantine = &dedup.Quarantine{Reason: "replayed", Of: "e0"}
		}, dedup.Dead, true, time.Hour},
		{"held", hold, dedup.Running, false, time.Hour},
	} {
		r := made(t, row.change)
		if r.State() != row.state || r.Finished.IsZero() == row.ended || r.Window != row.window {
			t.Errorf("%s: %v, finished %v, window %v", row.name, r.State(), r.Finished, r.Window)
		}
		if row.ended && !r.Expires.Equal(t0.Add(row.window)) {
			t.Errorf("%s: expires %v", row.name, r.Expires)
		}
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
		if err := r.Finish(lease, res, later); err != nil {
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
			if err := r.Finish(lease, result(kind), later); !errors.Is(err, dedup.ErrLeaseLost) {
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
	err := r.Finish(l, dedup.Result{Kind: 9}, t0)
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

func TestReopenForEveryState(t *testing.T) {
	t.Parallel()
	twice := func(c *dedup.Claim) { c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"}) }
	drop := func(c *dedup.Claim) { c.DropBody = true }
	bill := []dedup.NewTask{{Handler: "bill", Lane: "l"}}
	const pending, done = dedup.Pending, dedup.Done
	isDone, isDead := result(dedup.ResultDone), result(dedup.ResultDead)
	for _, row := range []struct {
		name   string
		record dedup.Record
		tasks  []dedup.NewTask
		want   error
		states []dedup.State
	}{
		{"pending", made(t, nil), nil, dedup.ErrNotDead, []dedup.State{pending}},
		{"pending, its own handler", made(t, twice), bill, dedup.ErrNotDead, []dedup.State{pending, pending}},
		{"pending, another handler", made(t, nil), bill, nil, []dedup.State{pending, pending}},
		{"done", made(t, nil, isDone), nil, dedup.ErrNotDead, []dedup.State{done}},
		{"done, another handler", made(t, nil, isDone), bill, nil, []dedup.State{done, pending}},
		{"done and dropped", made(t, drop, isDone), nil, dedup.ErrNotDead, []dedup.State{done}},
		{"done and dropped, another handler", made(t, drop, isDone), bill, dedup.ErrNoPayload, []dedup.State{done}},
		{"dead", made(t, nil, isDead), nil, nil, []dedup.State{pending}},
		{"dead, another handler", made(t, drop, isDead), bill, nil, []dedup.State{pending, pending}},
		{"dead beside pending", made(t, twice, isDead), nil, nil, []dedup.State{pending, pending}},
		{"held", made(t, hold), bill, dedup.ErrNotDead, []dedup.State{dedup.Running}},
		{"released", made(t, hold, result(dedup.ResultRelease)), bill, dedup.ErrNotDead, []dedup.State{pending}},
		{"held and dead", made(t, hold, isDead), nil, nil, []dedup.State{pending}},
		{"held and done", made(t, hold, isDone), bill, nil, []dedup.State{done, pending}},
	} {
		r := row.record.Clone()
		err := r.Reopen(row.tasks, t0.Add(time.Minute))
		var states []dedup.State
		for _, task := range r.Tasks {
			states = append(states, task.State)
		}
		if !errors.Is(err, row.want) || !slices.Equal(states, row.states) {
			t.Errorf("%s: %v, %v; want %v, %v", row.name, err, states, row.want, row.states)
		}
		switch diff := cmp.Diff(row.record, r); {
		case err != nil && diff != "":
			t.Errorf("%s: an error changed the record:\n%s", row.name, diff)
		case err == nil && (r.Hold || !r.Finished.IsZero() || !r.Ends().IsZero()):
			t.Errorf("%s: record %+v", row.name, r)
		}
	}
}
