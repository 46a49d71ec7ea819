package deduptest

import (
	"context"
	"errors"
	"fmt"

	"github.com/eyelet-dev/eyelet/dedup"
)

var claimChecks = []check{
	{"AnUnknownKeyIsNewAndKept", func(x *rig) {
		c := delivery("k")
		c.Window, c.Note = 3*hour, "first"
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill", Lane: "customer 7"})
		d := x.want(dedup.New, c)
		r := x.get(d.Record.Event)
		switch {
		case r.Event != d.Record.Event || r.Key != c.Key || r.Fingerprint != c.Fingerprint || r.Generation != 1:
			x.Errorf("identity: %s", text(r))
		case !r.Finished.IsZero() || !r.Expires.IsZero() || r.Window != 3*hour || r.Note != "first" || r.Hold:
			x.Errorf("state: %s", text(r))
		case r.Response.Status != 202 || string(r.Response.Body) != "accepted", string(r.Payload.Body) != "body of k":
			x.Errorf("content: %s", text(r))
		case len(r.Tasks) != 2 || r.Tasks[0].Handler != "ship" || r.Tasks[1].Handler != "bill",
			r.Tasks[1].Lane != "customer 7":
			x.Errorf("tasks: %s", text(r))
		}
		for i, task := range r.Tasks {
			if task.State != dedup.Pending || task.Attempt != 0 {
				x.Errorf("task %d: %+v", i, task)
			}
		}
		if !x.harness.OwnClock && !r.Accepted.Equal(x.clock.Now()) {
			x.Errorf("accepted %v, want the clock's %v", r.Accepted, x.clock.Now())
		}
	}},
	{"TheDecisionShowsTheRecordWithoutItsBody", func(x *rig) {
		d := x.want(dedup.New, delivery("k"))
		x.same(d.Record, bare(x.get(d.Record.Event)), "record of New")
		d = x.want(dedup.Known, delivery("k"))
		x.same(d.Record, undescribed(x.get(d.Record.Event)), "record of Known")
		x.responds(d, 202, "accepted")
	}},
	{"AnEventWithoutTasksIsDoneAtOnce", func(x *rig) {
		c := handled("k")
		c.Note = "no handler"
		r := x.get(x.accept(c))
		if r.Finished.IsZero() || !r.Expires.Equal(r.Finished.Add(dedup.DefaultWindow)) || r.Note != "no handler" {
			x.Errorf("record: %s", text(r))
		}
		x.idle("the only event has no tasks")
		x.want(dedup.Known, c)
	}},
	{"NoClaimsGiveNoDecisions", func(x *rig) {
		equal(x, "decisions", len(x.claims()), 0)
	}},
	{"OnlyKnownWritesNothing", func(x *rig) {
		ask := asking(aliased("k", nonce("n")))
		for range 2 {
			d := x.want(dedup.New, ask)
			if d.Record.Event != "" || d.Lease.Token != 0 {
				x.Errorf("OnlyKnown gave a record or a lease: %s, %+v", text(d.Record), d.Lease)
			}
		}
		x.count(0)
		other := aliased("other", nonce("n"))
		event := x.accept(other)
		x.want(dedup.Aliased, ask)
		x.about(dedup.Known, event, asking(other))
		x.want(dedup.Conflict, asking(altered(other)))
	}},
	{"KeysDoNotMeetByMovingBytesBetweenParts", func(x *rig) {
		keys := []dedup.Key{
			{Principal: "ab", Endpoint: "c", ID: "d"}, {Principal: "a", Endpoint: "bc", ID: "d"},
			{Principal: "abc", ID: "d"}, {Endpoint: "abc", ID: "d"}, {Principal: "a", Endpoint: "b", ID: "cd"},
			{Principal: "a", Endpoint: "b", Space: "c", ID: "d"}, {Principal: "a", Space: "bc", ID: "d"},
			{ID: "abcd"}, {ID: "abcd\x00"}, {ID: "\x00abcd"}, {Principal: "\x00", ID: "abcd"},
			{Principal: "a\x01b", ID: "d"}, {Principal: "a", Endpoint: "\x01b", ID: "d"},
			{ID: "ABCD"}, {ID: " abcd"},
		}
		events := map[string]dedup.Claim{}
		for _, k := range keys {
			c := delivery("k")
			c.Key = k
			events[x.accept(c)] = c
		}
		equal(x, "events", len(events), len(keys))
		for event, c := range events {
			if d := x.want(dedup.Known, c); d.Record.Event != event || d.Record.Key != c.Key {
				x.Errorf("key %+v has the record of %+v", c.Key, d.Record.Key)
			}
		}
	}},
	{"AnInvalidClaimStoresNothing", func(x *rig) {
		for name, spoil := range map[string]func(*dedup.Claim){
			"no id":                func(c *dedup.Claim) { c.Key.ID = "" },
			"hold without lease":   func(c *dedup.Claim) { c.Hold = true },
			"hold of no task":      func(c *dedup.Claim) { c.Hold, c.Lease, c.Tasks = true, minute, nil },
			"task without handler": func(c *dedup.Claim) { c.Tasks = []dedup.NewTask{{}} },
			"one handler twice":    func(c *dedup.Claim) { c.Tasks = handled("bad", "a", "a").Tasks },
		} {
			c := delivery("bad")
			c.Response = dedup.Response{}
			spoil(&c)
			if ds, err := x.store.Claim(x.ctx, delivery("good"), c); !errors.Is(err, dedup.ErrInvalid) {
				x.Errorf("%s: %v, %v, want ErrInvalid", name, ds, err)
			}
		}
		x.count(0)
	}},
	{"ACancelledContextIsAnError", func(x *rig) {
		ctx, cancel := context.WithCancel(x.ctx)
		cancel()
		if _, err := x.store.Claim(ctx, delivery("k")); err == nil {
			x.Fatal("Claim with a cancelled context: no error")
		}
		// The claim may have happened. What counts is that the next delivery finds out.
		if d := x.claim(delivery("k")); d.Verdict != dedup.New && d.Verdict != dedup.Known {
			x.Errorf("verdict %v", d.Verdict)
		}
		x.want(dedup.Known, delivery("k"))
	}},
	{"TheStoreKeepsNoReferenceToTheClaim", func(x *rig) {
		c := aliased("k", nonce("n"))
		event := x.accept(c)
		before := text(x.get(event))
		c.Payload.Body[0], c.Response.Body[0], c.Aliases[0] = 'X', 'X', nonce("x")
		c.Payload.Header.Set("Content-Type", "changed")
		c.Payload.Attributes["source"] = "changed"
		c.Tasks[0].Handler = "changed"
		if got := text(x.get(event)); got != before {
			x.Errorf("after the caller changed its claim:\n got %s\nwant %s", got, before)
		}
	}},
	{"EventIdsAndSequencesAreNew", func(x *rig) {
		seen := map[string]bool{}
		var last uint64
		for i := range 20 {
			d := x.want(dedup.New, delivery(fmt.Sprint("k", i)))
			if seen[d.Record.Event] || d.Record.Seq <= last {
				x.Fatalf("event %q, seq %d after %d", d.Record.Event, d.Record.Seq, last)
			}
			seen[d.Record.Event], last = true, d.Record.Seq
		}
	}},
}

// situationChecks are the claims that every [situation] decides.
func situationChecks() (checks []check) {
	for _, s := range situations() {
		none := dedup.Fingerprint{}
		checks = append(checks,
			check{"TheSamePayloadIsKnown/" + s.name, func(x *rig) { claimAgain(x, s, fingerprint(1)) }},
			check{"APayloadWithoutFingerprintIsKnown/" + s.name, func(x *rig) { claimAgain(x, s, none) }},
			check{"AnotherPayloadIsAConflictAndTheRecordIsLeftAlone/" + s.name, func(x *rig) { claimConflict(x, s) }},
			check{"NothingConflictsWithARecordWithoutFingerprint/" + s.name, func(x *rig) { claimNoFingerprint(x, s) }},
		)
	}
	return checks
}

// situation is a state in which a claim can meet a live record.
type situation struct {
	name  string
	claim dedup.Claim
	bring func(x *rig, d dedup.Decision) // brings the new record into the state
	free  bool                           // the next claim of the payload is New
}

func situations() []situation {
	stay := func(*rig, dedup.Decision) {}
	worked := func(r dedup.Result) func(*rig, dedup.Decision) {
		return func(x *rig, d dedup.Decision) { x.finish(x.takeOf(d.Record.Event).Lease, r) }
	}
	finished := func(r dedup.Result) func(*rig, dedup.Decision) {
		return func(x *rig, d dedup.Decision) { x.finish(d.Lease, r) }
	}
	quarantined := delivery("k")
	quarantined.Quarantine = &dedup.Quarantine{Reason: "conflict"}
	unhandled := handled("k")
	unhandled.Note = "no handler"
	return []situation{
		{"WhilePending", delivery("k"), stay, false},
		{"WhileRunning", delivery("k"), func(x *rig, d dedup.Decision) { x.takeOf(d.Record.Event) }, false},
		{"WhileItWaitsForARetry", delivery("k"), worked(retry(hour)), false},
		{"AfterDone", delivery("k"), worked(done()), false},
		{"AfterDead", delivery("k"), worked(dead()), false},
		{"WithoutTasks", unhandled, stay, false},
		{"Quarantined", quarantined, stay, false},
		{"WhileHeld", held("k"), stay, false},
		{"AfterAHeldClaimIsDone", held("k"), finished(answer(201, "made")), false},
		{"AfterAHeldClaimIsDoneWithoutAResponse", held("k"), finished(done()), false},
		{"AfterAHeldClaimIsDead", held("k"), finished(dead()), false},
		{"AfterAHeldClaimIsReleased", held("k"), finished(release()), true},
	}
}

// enter brings the key into the situation and returns its record.
func (s situation) enter(x *rig) dedup.Record {
	x.Helper()
	d := x.want(dedup.New, s.claim)
	s.bring(x, d)
	return x.get(d.Record.Event)
}

func claimAgain(x *rig, s situation, f dedup.Fingerprint) {
	before := s.enter(x)
	c := s.claim
	c.Fingerprint = f
	c.Payload.Body = []byte("sent again")
	if s.free {
		d := x.want(dedup.New, c)
		if d.Record.Fingerprint != fingerprint(1) {
			x.Error("the fingerprint of the first delivery is gone")
		}
		return
	}
	d := x.want(dedup.Known, c)
	x.same(d.Record, undescribed(before), "record of the decision")
	x.same(x.get(before.Event), before, "record after the duplicate")
	equal(x, "token of a duplicate", d.Lease.Token, 0)
}

func claimConflict(x *rig, s situation) {
	before := s.enter(x)
	c := altered(s.claim)
	c.Payload.Body = []byte("another payload")
	d := x.want(dedup.Conflict, c)
	x.same(d.Record, bare(before), "record of the decision")
	x.same(x.get(before.Event), before, "record after the conflict")
	equal(x, "token of a conflict", d.Lease.Token, 0)
	x.count(1)
}

func claimNoFingerprint(x *rig, s situation) {
	s.claim.Fingerprint = dedup.Fingerprint{}
	before := s.enter(x)
	if s.free {
		x.want(dedup.New, altered(s.claim))
		return
	}
	x.want(dedup.Known, altered(s.claim))
	x.same(x.get(before.Event), before, "record after the duplicate")
}
