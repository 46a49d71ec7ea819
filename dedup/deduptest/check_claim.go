package deduptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var claimChecks = []check{
	{"AnUnknownKeyIsNewAndTheNextDeliveryIsKnown", func(x *rig) {
		d := x.want(dedup.New, delivery("a"))
		r := x.get(d.Record.Event)
		x.same(d.Record, bare(r), "record of New")
		equal(x, "attempts of a waiting task", r.Tasks[0].Attempt, 0)
		known := x.want(dedup.Known, delivery("a"))
		x.same(known.Record, undescribed(r), "record of Known")
		x.responds(known, 202, "accepted")
	}},
	{"AnotherPayloadIsAConflictAndTheRecordIsLeftAlone", func(x *rig) {
		before := x.get(x.accept(delivery("a")))
		d := x.want(dedup.Conflict, altered(delivery("a")))
		x.same(d.Record, bare(before), "record of the decision")
		x.same(x.get(before.Event), before, "record")
	}},
	{"AnotherKeyWithAnAliasOfALiveRecordIsAliasedAndStoresNothing", func(x *rig) {
		event := x.accept(windowed(aliased("a", nonce("n")), hour))
		d := x.want(dedup.Aliased, aliased("b", nonce("m"), nonce("n")))
		if d.Record.Event != event || d.Alias != nonce("n") {
			x.Errorf("aliased to %q by %+v", d.Record.Event, d.Alias)
		}
		x.count(1)
		x.run(done(), event)
		x.advance(hour)
		x.accept(aliased("b", nonce("n")))
	}},
	{"KnownContentUnderAnotherNameIsAnotherOccurrenceOrRepeated", func(x *rig) {
		first, second := x.accept(digested("d", "a", 2)), x.accept(digested("d", "b", 2))
		x.about(dedup.Known, first, digested("d", "a", 2))
		x.about(dedup.Known, second, digested("d", "b", 2))
		x.about(dedup.Repeated, first, digested("d", "c", 2))
		equal(x, "key of the second", x.get(second).Key, key("d").Occurrence(2))
	}},
	{"TheNewestOfASeriesIsKnownBeyondItsWindowAndTheOthersAreSuperseded", func(x *rig) {
		a := x.accept(content("a", "s"))
		x.advance(100 * hour)
		x.about(dedup.Known, a, content("a", "s"))
		b := x.accept(content("b", "s"))
		c := x.accept(content("c", "s"))
		x.about(dedup.Superseded, b, content("b", "s"))
		x.about(dedup.Known, c, content("c", "s"))
	}},
	{"BeyondItsWindowARememberedKeyIsSeenAndAnEventFromLongAgoIsTooOld", func(x *rig) {
		began := x.clock.Now()
		x.advance(99 * day)
		x.accept(remembered("a"))
		x.advance(day)
		x.want(dedup.Seen, remembered("a"))
		x.want(dedup.TooOld, happened("b", began))
		x.want(dedup.New, happened("b", began.Add(50*day)))
	}},
	{"AQuarantinedDeliveryIsADeadLetterThatRunsOnceReopened", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		event := x.accept(quarantineOf(original, 2, 1))
		x.about(dedup.Known, event, quarantineOf(original, 2, 1))
		x.about(dedup.Known, original.Event, quarantineOf(original, 3, 1))
		equal(x, "quarantine count", x.get(original.Event).QuarantineCount, 2)
		x.idle("the only open event is quarantined")
		x.reopenEvent(event)
		x.runsWith([]byte("payload 2"), event)
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
	{"OnlyKnownWritesNothing", func(x *rig) {
		c := delivery("a")
		c.OnlyKnown = true
		d := x.want(dedup.New, c)
		x.count(0)
		equal(x, "event", d.Record.Event, "")
		x.about(dedup.Known, x.accept(delivery("a")), c)
	}},
	{"TheResponseOfAHeldClaimIsRepeated", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		x.want(dedup.Known, held("a"))
		x.idle("the claimer runs the task")
		x.finish(d.Lease, answer(201, "made"))
		x.responds(x.want(dedup.Known, held("a")), 201, "made")
	}},
	{"AClaimThatIsReleasedOrAbandonedIsNewAgainToAClaimWithHold", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.finish(first.Lease, release())
		x.want(dedup.Known, delivery("a"))
		x.want(dedup.Conflict, altered(held("a")))
		second := x.want(dedup.New, held("a"))
		x.continues(second, first)
		x.newer(second.Lease, first.Lease)
		x.advance(minute)
		x.lost(first.Lease, "a newer claim had the lease")
		equal(x, "attempt", x.want(dedup.New, held("a")).Record.Tasks[0].Attempt, 3)
	}},
	{"AfterTheWindowAKeyIsNewAndAnotherEvent", func(x *rig) {
		first := x.accept(brief("a"))
		x.advance(hour - time.Millisecond)
		x.about(dedup.Known, first, brief("a"))
		x.advance(time.Millisecond)
		second := x.accept(altered(brief("a")))
		x.want(dedup.Conflict, brief("a"))
		if second == first {
			x.Errorf("event id %q was used again", first)
		}
	}},
	{"TheWindowNeverRunsWhileWorkIsLeft", func(x *rig) {
		c := windowed(handled("a", "ship", "bill"), hour)
		event := x.accept(c)
		for _, r := range []dedup.Result{done(), retry(20 * hour), done()} {
			x.advance(20 * hour)
			x.about(dedup.Known, event, c)
			x.run(r, event)
		}
		x.advance(hour - time.Millisecond)
		x.about(dedup.Known, event, c)
		x.advance(time.Millisecond)
		x.accept(c)
	}},
	{"ADeadLetterStaysAfterTheWindowBesideTheNextGeneration", func(x *rig) {
		older, newer := generations(x)
		before := x.get(older)
		equal(x, "generation", x.get(newer).Generation, before.Generation+1)
		x.advance(300 * day)
		x.same(x.get(older), before, "the dead letter a year later")
		x.reopenEvent(older)
		x.runsWith([]byte("body of a"), older)
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
	{"AnAliasIsNotAKey", func(x *rig) {
		x.accept(aliased("a", nonce("n")))
		b := delivery("b")
		b.Key = nonce("n")
		x.accept(b)
		x.accept(aliased("c", key("b")))
	}},
	{"ManyClaimsFitOneCall", func(x *rig) {
		var cs []dedup.Claim
		for i := range 200 {
			cs = append(cs, delivery(fmt.Sprint("k", i)))
		}
		x.verdicts(x.claims(cs...), slices.Repeat([]dedup.Verdict{dedup.New}, len(cs))...)
		x.count(len(cs))
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
	{"ADeliveryWhoseOriginalIsGoneIsKept", func(x *rig) {
		original := x.get(x.accept(delivery("a")))
		original.Event = "gone"
		r := x.get(x.accept(quarantineOf(original, 2, 1)))
		equal(x, "original", r.Original, "gone")
		x.accept(quarantineOf(original, 3, 1))
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
	{"ALargeBodyOccursAgainInOneCall", func(x *rig) {
		large := func(name string) dedup.Claim {
			c := digested("d", name, 3)
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		ds := x.claims(large("a"), large("b"), large("a"), large("c"), large("e"), large("b"))
		x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.New, dedup.Repeated, dedup.Known)
		for i, id := range []string{0: "d", 1: "d;2", 3: "d;3"} {
			if id != "" {
				equal(x, "key", ds[i].Record.Key.ID, id)
				x.body(ds[i].Record.Event, large("").Payload.Body)
			}
		}
	}},
	{"ALargeBodyIsNewInTheStepThatReplacesItsEvent", func(x *rig) {
		large := func(id string) dedup.Claim {
			c := content(id, "s")
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		x.accept(large("a"))
		x.advance(100 * hour)
		ds := x.claims(large("b"), large("a"))
		x.verdicts(ds, dedup.New, dedup.New)
		for _, d := range ds {
			x.body(d.Record.Event, large("").Payload.Body)
		}
	}},
	{"OfManyClaimsAfterItOneIsNew", func(x *rig) {
		c := brief("a")
		x.accept(c)
		x.advance(hour)
		oneNew(x, 16, func(int) dedup.Claim { return c })
	}},
	{"LiveOpenAndDeadRecordsStay", func(x *rig) {
		for i := range 40 {
			x.accept(brief(fmt.Sprint("old", i)))
		}
		kept := map[string]bool{
			x.accept(handled("lasting")):                          true,
			x.finished(windowed(delivery("dying"), hour), dead()): true,
			x.accept(windowed(delivery("waiting"), hour)):         true,
		}
		x.advance(2 * hour)
		for i := range 40 { // a store may forget a few per call
			kept[x.accept(handled(fmt.Sprint("fill", i)))] = true
		}
		for event := range kept {
			x.get(event)
		}
		for _, r := range x.list(dedup.Filter{}) {
			if !kept[r.Event] && !r.Disposable(x.clock.Now()) {
				x.Errorf("listed: %s", text(r))
			}
			delete(kept, r.Event)
		}
		if len(kept) > 0 {
			x.Errorf("not listed: %v", kept)
		}
	}},
	{"ARecordKeepsItsNewestAliases", func(x *rig) {
		c := held("a")
		c.Aliases = []dedup.Key{nonce("first")}
		d := x.want(dedup.New, c)
		x.finish(d.Lease, release())
		c.Aliases = nil
		for i := range 70 {
			c.Aliases = append(c.Aliases, nonce(fmt.Sprint(i)))
		}
		x.continues(x.want(dedup.New, c), d)
		x.about(dedup.Aliased, d.Record.Event, aliased("b", nonce("69")))
		x.accept(aliased("b", nonce("first")))
	}},
	{"ManyReleasedClaimsAreForgottenAtOnce", func(x *rig) { // a store may sweep a few per call
		var cs []dedup.Claim
		for i := range 20 {
			cs = append(cs, windowed(held(fmt.Sprint("k", i)), hour))
		}
		first := x.claims(cs...)
		for _, d := range first {
			x.finish(d.Lease, release())
		}
		x.advance(hour)
		for i, d := range x.claims(cs...) {
			if d.Record.Event == first[i].Record.Event || d.Record.Tasks[0].Attempt != 1 {
				x.Errorf("claim %d: %s", i, text(d.Record))
			}
		}
	}},
	{"AKeyIsRememberedForNinetyDays", func(x *rig) {
		x.accept(remembered("old"))
		x.advance(day)
		x.accept(remembered("a"))
		x.advance(90 * day)
		x.accept(remembered("b"))
		x.want(dedup.Seen, remembered("a"))
		x.want(dedup.New, remembered("old"))
		x.advance(day)
		x.want(dedup.New, remembered("a"))
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

// digested is a claim of a named occurrence, whose key is a digest of its content.
func digested(digest, name string, most int) dedup.Claim {
	c := delivery(digest)
	c.Payload.VendorID = name
	c.Occurrence = &dedup.Occurrence{Name: name, Max: most}
	return c
}

// content is a claim of a series without tasks, with a window of an hour.
func content(id, series string) dedup.Claim {
	c := brief(id)
	c.Series = dedup.Key{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceSeries, ID: series}
	return c
}

// remembered is an event without tasks whose key is remembered.
func remembered(id string) dedup.Claim {
	c := brief(id)
	c.Remember = &dedup.Remember{}
	return c
}

// happened is a claim of an event that happened at a time.
func happened(id string, at time.Time) dedup.Claim {
	c := remembered(id)
	c.Remember.Time = at
	return c
}

// ForgetsTheOldestDays checks a new store on the clock with a [dedup.Retention] of at most ten
// keys: it forgets the oldest days first, and an event from before is too old. prune makes the
// store forget.
func ForgetsTheOldestDays(t *testing.T, s dedup.Store, clock *Clock, prune func()) {
	t.Helper()
	claim := func(c dedup.Claim, want dedup.Verdict) {
		t.Helper()
		if ds, err := s.Claim(t.Context(), c); err != nil || ds[0].Verdict != want {
			t.Fatalf("claim of %s: %+v, %v; want %v", c.Key.ID, ds, err, want)
		}
	}
	began := clock.Now()
	for _, name := range []string{"a", "b", "c"} {
		for i := range 4 {
			claim(remembered(fmt.Sprint(name, i)), dedup.New)
		}
		clock.Advance(2 * day)
		prune()
	}
	for i := range 4 {
		claim(remembered(fmt.Sprint("b", i)), dedup.Seen)
		claim(remembered(fmt.Sprint("c", i)), dedup.Seen)
	}
	claim(happened("a0", began.Add(-day)), dedup.TooOld)
	claim(happened("x", began.Add(-100*day)), dedup.TooOld)
	claim(happened("y", began.Add(4*day)), dedup.New)
	claim(remembered("a1"), dedup.New)
}

// RemembersNothing checks a new store whose [dedup.Retention] is off.
func RemembersNothing(t *testing.T, s dedup.Store, clock *Clock) {
	t.Helper()
	for range 3 {
		for _, c := range []dedup.Claim{remembered("a"), happened("b", clock.Now().Add(-500*day))} {
			if ds, err := s.Claim(t.Context(), c); err != nil || ds[0].Verdict != dedup.New {
				t.Fatalf("%+v, %v", ds, err)
			}
		}
		clock.Advance(100 * day)
	}
}
