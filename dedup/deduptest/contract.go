package deduptest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
)

// contract is what a store promises beyond what the model of [dedup.Store] decides: a table of
// sentences, each with a check that fails if a store breaks it.
var contract = []check{
	// Claims.
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
		named := func(name string) dedup.Claim { return windowed(digested("d", name, 2), hour) }
		first, second := x.accept(named("a")), x.accept(named("b"))
		x.about(dedup.Known, first, named("a"))
		x.about(dedup.Known, second, named("b"))
		x.about(dedup.Repeated, first, named("c"))
		equal(x, "key of the second", x.get(second).Key, key("d").Occurrence(2))
		x.run(dead(), first)
		x.run(dead(), second)
		x.advance(hour)
		equal(x, "key after the window", x.get(x.accept(named("b"))).Key, key("d"))
		early, late := digested("w", "a", 2), digested("w", "b", 2)
		late.Occurrence.Within = minute
		x.accept(early)
		x.advance(minute)
		x.want(dedup.Repeated, late)
	}},
	{"TheNameOfAnotherOccurrenceLeadsToTheTraceOfItsContent", func(x *rig) {
		named := func(name string) dedup.Claim {
			c := windowed(digested("d", name, 2), hour)
			c.Remember = &dedup.Remember{Most: 3}
			return c
		}
		end := func(r dedup.Result, events ...string) {
			for _, event := range events {
				x.run(r, event)
			}
			x.advance(hour)
		}
		first, second := x.accept(named("a")), x.accept(named("b"))
		end(dead(), first, second)
		third, fourth := x.accept(named("c")), x.accept(named("e"))
		equal(x, "key", x.get(fourth).Key, x.get(second).Key)
		end(done(), third, fourth)
		x.reopenEvent(second)
		x.want(dedup.Seen, named("b"))
	}},
	{"AnEventHasTheNamesOfAFormerConfiguration", func(x *rig) {
		former := func(c dedup.Claim, name dedup.Key, contents ...dedup.Key) dedup.Claim {
			c.Former = &dedup.Former{Names: []dedup.Key{name}, Contents: contents, Fingerprint: c.Fingerprint}
			return c
		}
		byID, byDigest := x.accept(delivery("a")), x.accept(digested("d", "b", 2))
		x.about(dedup.Known, byID, former(digested("e", "a", 0), key("a")))
		x.about(dedup.Known, byDigest, former(delivery("b"), sent("b")))
		x.about(dedup.Known, byDigest, former(digested("f", "b", 2), key("x"), key("d")))
		x.accept(former(altered(delivery("b")), sent("b")))
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
		x.accept(remembered("old"))
		x.advance(day)
		x.accept(remembered("a"))
		x.advance(90 * day)
		x.accept(remembered("c")) // which may make the store forget
		x.want(dedup.Seen, remembered("a"))
		x.advance(day)
		x.want(dedup.TooOld, happened("b", began))
		x.want(dedup.New, happened("b", began.Add(50*day)))
		x.want(dedup.New, remembered("a"))
	}},
	{"AQuarantinedDeliveryIsADeadLetterThatRunsOnceReopened", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		small, large := quarantineOf(original, 2, 2), quarantineOf(original, 3, 2)
		large.Payload.Body = bytes.Repeat([]byte{'B'}, 3<<19)
		first, second := x.accept(small), x.accept(large)
		x.about(dedup.Known, first, small)
		x.about(dedup.Known, original.Event, quarantineOf(original, 4, 2))
		equal(x, "quarantine count", x.get(original.Event).QuarantineCount, 3)
		x.idle("all open events are quarantined")
		x.purge(original.Event)
		x.accept(quarantineOf(original, 4, 2)) // whose original is gone
		x.advance(30 * day)
		x.again()
		x.reopenEvent(first)
		x.runsWith(small.Payload.Body, first)
		x.reopenEvent(second)
		x.runsWith(large.Payload.Body, second)
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
	{"AReleasedClaimKeepsThePayloadOfItsFirstDelivery", func(x *rig) {
		first, later := held("a"), held("a")
		first.Payload.Body, later.Payload.Body = bytes.Repeat([]byte{'1'}, 3<<19), bytes.Repeat([]byte{'2'}, 3<<19)
		first.Note, later.Note = "first", "later"
		d := x.want(dedup.New, first)
		x.finish(d.Lease, release())
		x.continues(x.want(dedup.New, later), d)
		x.body(d.Record.Event, first.Payload.Body)
		equal(x, "note", x.get(d.Record.Event).Note, "first")
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
		c := windowed(delivery("a"), hour)
		older := x.get(x.finished(c, dead()))
		x.advance(hour)
		newer := x.finished(c, done())
		equal(x, "generation", x.get(newer).Generation, older.Generation+1)
		x.advance(300 * day)
		x.same(x.get(older.Event), older, "the dead letter a year later")
		x.reopenEvent(older.Event)
		x.runsWith([]byte("body of a"), older.Event)
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
			nonce("abcd"), {Principal: "a\x01b", ID: "d"}, {Principal: "a", Endpoint: "\x01b", ID: "d"},
			{ID: "ABCD"}, {ID: " abcd"},
		}
		x.accept(aliased("aliased", nonce("abcd"))) // which is not a key
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
	{"LanesDoNotMeetByMovingBytesBetweenParts", func(x *rig) {
		c := delivery("a")
		c.Tasks = []dedup.NewTask{
			{Handler: "ab", Lane: "c"}, {Handler: "a", Lane: "bc"},
			{Handler: "abc", Lane: "\x00"}, {Handler: "abc\x00"},
		}
		x.accept(c)
		for range c.Tasks {
			x.take()
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
	{"ManyClaimsFitOneCallAndSeeThoseBeforeThem", func(x *rig) {
		large := func(name string) dedup.Claim {
			c := digested("d", name, 3)
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			return c
		}
		ds := x.claims(large("a"), large("b"), large("a"), large("c"), large("e"), large("b"))
		x.verdicts(ds, dedup.New, dedup.New, dedup.Known, dedup.New, dedup.Repeated, dedup.Known)
		for i, id := range map[int]string{0: "d", 1: "d;2", 3: "d;3"} {
			equal(x, "key", ds[i].Record.Key.ID, id)
			x.body(ds[i].Record.Event, large("").Payload.Body)
		}
		var cs []dedup.Claim
		for i := range 200 {
			cs = append(cs, delivery(fmt.Sprint("k", i)))
		}
		x.verdicts(x.claims(cs...), slices.Repeat([]dedup.Verdict{dedup.New}, len(cs))...)
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
			c := windowed(held(fmt.Sprint("k", i)), hour)
			c.Remember = &dedup.Remember{}
			cs = append(cs, c)
		}
		first := x.claims(cs...)
		for _, d := range first {
			x.finish(d.Lease, release())
		}
		x.advance(hour)
		for i, d := range x.claims(cs...) {
			if d.Verdict != dedup.New || d.Record.Event == first[i].Record.Event || d.Record.Tasks[0].Attempt != 1 {
				x.Errorf("claim %d: %s", i, text(d.Record))
			}
		}
	}},
	// Contents and ownership.
	{"EveryByteOfADeliveryIsKept", func(x *rig) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		c := delivery("quote \" slash / null \x00 high \xff snow ☃")
		c.Aliases = []dedup.Key{nonce("n\x00\xff"), {Space: dedup.SpaceSigned, ID: "s ☃"}}
		c.Payload = dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "type/☃\xfe", KeyField: "\t\"raw\\field\"; p=?1",
			VendorID: "v\x00", Method: http.MethodPut, Target: "/hooks/%2e%2E/%ff?a=b&&c=%00+;", Body: all,
			Header: http.Header{
				"X-Empty": {""}, "X-Many": {"b", "a", "b"}, "X-Bytes": {"caf\xe9 \xff"}, "x-lower": {"kept as it is"},
			},
			Attributes: map[string]string{"": "empty name", "time": "2026-01-02T03:04:05+09:00", "bytes": "\xff\x00"},
		}
		c.Note, c.Tasks = "note ☃", []dedup.NewTask{{Handler: "h/☃", Lane: "l\x00\xff"}}
		event, d := x.accept(c), x.want(dedup.New, held("answered"))
		header := http.Header{"X-Many": {"2", "1"}, "Content-Type": {"a/b; c=\"\xff\""}}
		a := dedup.Response{Status: 299, Header: header, Body: all}
		x.finish(d.Lease, dedup.Result{Kind: dedup.ResultDone, Response: a})
		want := []any{c.Key, c.Aliases, c.Fingerprint, c.Payload, c.Response.Body, c.Note, c.Tasks[0], a}
		for range 2 {
			r := x.get(event)
			task := dedup.NewTask{Handler: r.Tasks[0].Handler, Lane: r.Tasks[0].Lane}
			answered := x.get(d.Record.Event).Response
			got := []any{r.Key, r.Aliases, r.Fingerprint, r.Payload, r.Response.Body, r.Note, task, answered}
			for i := range got {
				if !reflect.DeepEqual(got[i], want[i]) { // which hides no difference
					x.Errorf("\n got %q\nwant %q", fmt.Sprint(got[i]), fmt.Sprint(want[i]))
				}
			}
			x.about(dedup.Known, event, c)
			x.again()
		}
	}},
	{"LargeAndEmptyBodiesAreKept", func(x *rig) {
		bodies := map[string][]byte{}
		for _, n := range []int{0, 1, 255, 4096, 65_536, 600_000, 1 << 20} {
			c := delivery(fmt.Sprint("size ", n))
			c.Payload.Body = bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
			bodies[x.accept(c)] = c.Payload.Body
		}
		for range 2 {
			for _, r := range x.list(dedup.Filter{Body: true}) {
				x.body(r.Event, bodies[r.Event])
				if !bytes.Equal(r.Payload.Body, bodies[r.Event]) {
					x.Errorf("listed body of %d bytes has %d, or changed", len(bodies[r.Event]), len(r.Payload.Body))
				}
			}
			x.count(len(bodies))
			x.again()
		}
	}},
	{"TheCallerOwnsWhatItGivesAndGets", func(x *rig) {
		c := precious("a")
		c.Aliases = []dedup.Key{nonce("n")}
		d := x.want(dedup.New, c)
		event, known, conflict := d.Record.Event, x.want(dedup.Known, c), x.want(dedup.Conflict, altered(c))
		own := x.owner(event)
		own("Claim", &d)
		own("Claim of a duplicate", &known)
		own("Claim of a conflict", &conflict)
		own("the claim", &c)
		w, result := x.take(), answer(201, "made")
		result.Kind = dedup.ResultDead
		x.finish(w.Lease, result)
		own = x.owner(event)
		own("Take", &w)
		own("the result", &result)
		known = x.want(dedup.Known, precious("a"))
		own("Claim of a duplicate", &known)
		record := x.get(event)
		own("Get", &record)
		for record, err := range x.store.List(x.ctx, dedup.Filter{Body: true}) {
			x.must(err, "List")
			own("List", &record)
		}
		record = x.reopenEvent(event)
		own = x.owner(event)
		own("Reopen", &record)
	}},
	{"TheCallerOwnsAPayloadThatTheClaimGave", func(x *rig) {
		for i, gives := range []bool{false, true} {
			later, atOnce := precious(fmt.Sprint("later", i)), precious(fmt.Sprint("at once", i))
			later.GivesPayload, atOnce.GivesPayload = gives, gives
			x.accept(later)
			lease := x.spoils(x.take())
			x.finish(x.spoils(x.take()), done())
			x.finish(lease, retry(0))
			x.finish(x.spoils(x.take()), done())
			next := x.waiting()
			x.accept(atOnce)
			x.finish(x.spoils(next()), done())
			x.finish(x.spoils(x.take()), done())
		}
	}},
	// Taking tasks.
	{"ATaskIsTakenByOneCallerUntilItsLeaseEnds", func(x *rig) {
		event, w := x.started(delivery("a"))
		equal(x, "body", string(w.Record.Payload.Body), "body of a")
		x.attempt(w, 1)
		x.extend(w.Lease, hour)
		x.advance(hour - time.Millisecond)
		x.idle("the only task is running")
		x.advance(time.Millisecond)
		again := x.takeOf(event)
		x.attempt(again, 2)
		equal(x, "interrupted", again.Task().Interrupted(), true)
		x.lost(w.Lease, "the task was taken again")
		x.finish(again.Lease, done())
		x.idle("the only task is done")
	}},
	{"ATaskIsLeftForACallerThatHasItsHandlerOrForAnyAfterAWhile", func(x *rig) {
		x.accept(handled("a", "ship", "bill"))
		x.runsFor("ship", "ship")
		x.advance(hour - minute)
		x.idle("its handler is missing for less than an hour", "ship")
		x.advance(minute)
		x.runsFor("bill", "ship")
	}},
	{"AWaitingTakeWakesForAllThatMakesATaskDue", func(x *rig) {
		next := x.waiting()
		a := x.accept(delivery("a"))
		w := x.wakes(next, a)
		next = x.waiting()
		x.finish(w.Lease, release())
		w = x.wakes(next, a)
		x.finish(w.Lease, retry(hour))
		next = x.waiting()
		x.advance(hour)
		w = x.wakes(next, a)
		next = x.waiting()
		x.advance(minute) // its lease ends
		again := x.wakes(next, a)
		x.attempt(again, 3)
		x.lost(w.Lease, "the task was taken again")
		x.finish(again.Lease, dead())
		next = x.waiting()
		x.reopenEvent(a)
		x.finish(x.wakes(next, a).Lease, retry(2*hour))
		b, w := x.started(delivery("b"))
		next = x.waiting()
		x.finish(w.Lease, retry(hour)) // earlier than the other
		x.advance(hour)
		x.finish(x.wakes(next, b).Lease, done())
		next = x.waiting()
		_, err := x.store.RunNow(x.ctx, a)
		x.must(err, "RunNow")
		x.finish(x.wakes(next, a).Lease, done())
		next = x.waiting()
		x.rerunEvent(a)
		x.finish(x.wakes(next, a).Lease, done())
		_, head := x.started(laned("head", "l"))
		behind := x.accept(laned("behind", "l"))
		next = x.waiting()
		x.finishMany([]dedup.LeaseResult{{Lease: head.Lease, Result: done()}}, nil)
		x.wakes(next, behind)
	}},
	{"AWaitingTakeGetsTheTaskOfItsHandler", func(x *rig) {
		next := x.waiting("ship")
		x.accept(handled("a", "bill"))
		x.wakes(next, x.accept(handled("b", "ship")))
		x.runsFor("bill", "bill")
	}},
	{"CallsEndWithTheirContext", func(x *rig) {
		ctx, cancel := context.WithCancel(x.ctx)
		failed := make(chan error, 1)
		take := func() error {
			_, err := x.store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
			return err
		}
		go func() { failed <- take() }()
		cancel()
		x.fails(<-failed, context.Canceled, "Take after its context ended")
		x.fails(take(), context.Canceled, "Take with a cancelled context")
		x.accept(delivery("a")) // the Takes that ended took nothing
		x.attempt(x.take(), 1)
		for _, err := range x.store.List(ctx, dedup.Filter{}) {
			x.fails(err, context.Canceled, "List with a cancelled context")
		}
		if _, err := x.store.Claim(ctx, delivery("k")); err == nil {
			x.Error("Claim with a cancelled context: no error")
		}
	}},
	{"ArgumentsThatAreNotPositiveAreInvalid", func(x *rig) {
		x.accept(delivery("a"))
		for _, bad := range []int{0, -1} {
			_, err := x.store.Take(x.ctx, dedup.Want{Tasks: bad, Bytes: 1, Lease: minute})
			x.fails(err, dedup.ErrInvalid, "Take of no tasks")
			_, err = x.store.Take(x.ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Duration(bad)})
			x.fails(err, dedup.ErrInvalid, "Take without a lease")
		}
		lease := x.take().Lease
		x.fails(x.store.Extend(x.ctx, lease, 0), dedup.ErrInvalid, "Extend by zero")
	}},
	// Leases.
	{"AStaleLeaseIsLostAfterEveryWayTheTaskCanGoOn", func(x *rig) {
		event := x.accept(delivery("a"))
		for _, r := range []dedup.Result{retry(0), release(), {Kind: dedup.ResultRetry, Postponed: true}, dead()} {
			w := x.takeOf(event)
			x.finish(w.Lease, r)
			x.lost(w.Lease, "the task was finished")
		}
	}},
	{"ALeaseIsForItsOwnTask", func(x *rig) {
		x.accept(handled("a", "one", "two"))
		first, second := x.take(), x.take()
		for why, spoil := range map[string]func(*dedup.Lease){
			"the token is of the other task": func(l *dedup.Lease) { l.Task = second.Lease.Task },
			"no lease has this token":        func(l *dedup.Lease) { l.Token += 10 },
			"the task does not exist":        func(l *dedup.Lease) { l.Task = 2 },
			"no task has a negative number":  func(l *dedup.Lease) { l.Task = -1 },
			"the event does not exist":       func(l *dedup.Lease) { l.Event = "unknown" },
		} {
			l := first.Lease
			spoil(&l)
			x.lost(l, why)
		}
		x.finish(first.Lease, done())
		x.finish(second.Lease, dead())
	}},
	{"ARefusedResultAffectsNoOther", func(x *rig) {
		first, w := x.started(delivery("a"))
		second, invalid := x.started(delivery("b"))
		third, last := x.started(delivery("c"))
		x.finishMany([]dedup.LeaseResult{
			{Lease: w.Lease, Result: done()}, {Lease: w.Lease, Result: dead()}, {Lease: invalid.Lease},
			{Lease: dedup.Lease{Event: "unknown"}, Result: done()}, {Lease: last.Lease, Result: dead()},
		}, nil, dedup.ErrLeaseLost, dedup.ErrInvalid, dedup.ErrLeaseLost, nil)
		x.state(first, 0, dedup.Done)
		x.state(second, 0, dedup.Running)
		x.state(third, 0, dedup.Dead)
	}},
	{"AnyNumberOfResultsIsRecorded", func(x *rig) {
		x.finishMany(nil)
		const n = 1500
		var claims []dedup.Claim
		for i := range n {
			claims = append(claims, delivery(fmt.Sprint("k", i)))
		}
		for part := range slices.Chunk(claims, 500) {
			x.claims(part...)
		}
		var all []dedup.LeaseResult
		for _, w := range x.takeAll(n) {
			all = append(all, dedup.LeaseResult{Lease: w.Lease, Result: done()})
		}
		x.finishMany(all, make([]error, n)...)
		equal(x, "done", len(x.list(dedup.Filter{States: []dedup.State{dedup.Done}})), n)
	}},
	{"ACallThatFailsFailsForEveryResult", func(x *rig) {
		_, first := x.started(delivery("a"))
		_, second := x.started(delivery("b"))
		all := []dedup.LeaseResult{{Lease: first.Lease, Result: done()}, {Lease: second.Lease, Result: done()}}
		ctx, cancel := context.WithCancel(x.ctx)
		cancel()
		for i, err := range x.store.FinishMany(ctx, all...) {
			x.fails(err, context.Canceled, fmt.Sprintf("result %d after the end of the context", i))
		}
		x.close()
		x.finishMany(all, dedup.ErrClosed, dedup.ErrClosed)
	}},
	// History.
	{"EachFailedAttemptHasItsTimesAndItsError", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		x.finish(x.takeOf(event).Lease, dedup.Result{Kind: dedup.ResultRetry, Postponed: true, Reason: "postponed"})
		attempts(x, event, "1 pending failed connection refused", "2 pending postponed")
		w := x.takeOf(event)
		attempts(x, event, "1 pending failed connection refused", "2 pending postponed", "3 running")
		started := x.get(event).Tasks[0].Started
		x.advance(minute / 2)
		x.finish(w.Lease, dead())
		attempts(x, event, "1 pending failed connection refused", "2 pending postponed",
			"3 dead exhausted no more attempts")
		a := x.get(event).Tasks[0].History[2]
		equal(x, "start", a.Started.Sub(started), 0)
		equal(x, "end", a.Ended.Sub(started), minute/2)
	}},
	{"OfALongErrorOrReplyTheEndsAreKept", func(x *rig) {
		r := retry(0)
		r.Err = "begins " + strings.Repeat("ö", dedup.MaxAttemptErr) + " ends"
		r.Reply = "first\x00\x1b[1m" + strings.Repeat("ö", dedup.MaxReply)
		event := x.finished(delivery("a"), r)
		for range 2 {
			task := x.get(event).Tasks[0]
			got, reply := task.History[0].Err, task.History[0].Reply
			if len(got) > dedup.MaxAttemptErr || len(got) < dedup.MaxAttemptErr-4 || !utf8.ValidString(got) ||
				!strings.HasPrefix(got, "begins ö") || !strings.HasSuffix(got, "ö ends") || task.Err != r.Err {
				x.Errorf("%d bytes: %q", len(got), got)
			}
			if len(reply) < dedup.MaxReply-2 || len(reply) > dedup.MaxReply || !strings.HasPrefix(r.Reply, reply) {
				x.Errorf("%d bytes are kept: %.40q", len(reply), reply)
			}
			x.again()
		}
	}},
	{"EveryRunIsInTheHistoryWithTheTimeOfItsOrder", func(x *rig) {
		event := x.finished(delivery("a"), done())
		for n := range dedup.HistoryFirst + dedup.HistoryLast + 2 {
			x.rerunEvent(event)
			x.run(done(), event)
			all := x.get(event).Tasks[0].Attempts()
			if last := all[len(all)-1]; last.Number != n+2 || !last.Reopened.IsZero() || all[0].Number != 1 {
				x.Fatalf("the first attempt is %+v, the last one %+v", all[0], last)
			}
			for _, a := range all[:len(all)-1] {
				if a.State != dedup.Done || a.Reopened.Before(a.Ended) {
					x.Fatalf("attempt %+v", a)
				}
			}
		}
		if n := len(x.get(event).Tasks[0].History); n != dedup.HistoryFirst+dedup.HistoryLast {
			x.Errorf("%d attempts are kept", n)
		}
	}},
	// Operators.
	{"WhatCannotBeDoneIsRefused", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		before := x.get(event)
		_, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "bill"}, dedup.NewTask{Lane: "l"})
		x.fails(err, dedup.ErrInvalid, "Reopen for a task without a handler")
		x.same(x.get(event), before, "record")
		for _, unknown := range []string{"unknown", ""} {
			x.fails(x.store.Purge(x.ctx, unknown), dedup.ErrNotFound, "Purge of an unknown event")
		}
	}},
	{"OfConcurrentReopensOneChangesTheEvent", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		good := 0
		for _, err := range together(8, func(int) error {
			_, err := x.store.Reopen(x.ctx, event)
			return err
		}) {
			if err == nil {
				good++
				continue
			}
			x.fails(err, dedup.ErrNotDead, "the other Reopens")
		}
		equal(x, "effective Reopens", good, 1)
		x.take()
		x.idle("the reopened task is running")
	}},
	// Lists and searches.
	{"TheStoreCanBeUsedWhileItIsListed", func(x *rig) {
		x.claims(delivery("a"), delivery("b"), delivery("c"))
		n := 0
		for r, err := range x.store.List(x.ctx, dedup.Filter{}) {
			x.must(err, "List")
			n++
			x.get(r.Event)
			x.accept(delivery("while " + r.Key.ID))
			x.finish(x.take().Lease, done())
		}
		x.count(3 + n)
		for _, err := range x.store.List(x.ctx, dedup.Filter{}) {
			x.must(err, "List that ends early")
			break
		}
		x.accept(delivery("d"))
	}},
	{"TextIsSearchedEverywhereInARecord", func(x *rig) {
		x.accept(delivery("alpha"))
		typed, attributed, vendor, binary := delivery("b"), delivery("c"), delivery("d"), delivery("e")
		typed.Payload.Type, typed.Payload.Body = "Needle.paid", nil
		attributed.Payload.Attributes = map[string]string{"subject": "a needle"}
		vendor.Payload.VendorID = "needle-7"
		binary.Payload.Body = []byte("\x00\xffNEEDLE\xfe")
		x.claims(typed, attributed, vendor, binary)
		for text, want := range map[string]string{
			"needle": "e d c b", "Needle": "e d c b", "ALPHA": "alpha", "body of a": "alpha", "till 7": "e d b alpha",
			"nothing": "", "\"source\"": "",
		} {
			x.lists(dedup.Filter{Text: text}, want)
		}
		x.lists(dedup.Filter{Text: "needle", Type: "order.*"}, "e d c")
		if r := x.list(dedup.Filter{Text: "body of"})[0]; len(r.Payload.Body) != 0 {
			x.Errorf("a search returned the body %q", r.Payload.Body)
		}
		if r := x.list(dedup.Filter{Text: "body of", Body: true})[0]; string(r.Payload.Body) != "body of d" {
			x.Errorf("body %q", r.Payload.Body)
		}
	}},
	{"ASearchReportsHowFarItLooked", func(x *rig) {
		first := x.get(x.accept(delivery("a")))
		dropped := delivery("b")
		dropped.DropBody = true
		x.finish(x.takeOf(first.Event).Lease, done())
		x.finished(dropped, done())
		third := x.get(x.accept(delivery("c")))
		var got dedup.Searched
		f := dedup.Filter{Text: "body of", Searched: &got}
		x.lists(f, "c a")
		equal(x, "a whole search", got, dedup.Searched{Records: 3, Dropped: 1, Back: first.Accepted})
		f.Limit = 1
		x.lists(f, "c")
		equal(x, "a search to its limit", got, dedup.Searched{Records: 1, Back: third.Accepted, Before: third.Seq})
		f.Before = got.Before
		x.lists(f, "a")
	}},
	// Health and Close.
	{"AStoreReportsItsHealthItsCountsAndItsGuarantees", func(x *rig) {
		x.must(x.store.Health(x.ctx), "Health")
		x.claims(delivery("a"), held("b"))
		x.want(dedup.Known, delivery("a"))
		x.stats("two events", func(s dedup.Stats) bool {
			return s.Accepted == 2 && s.Commits > 0 && s.Pending == 1 && s.Running == 1
		})
		if g := x.store.Guarantees(); g.Durability < dedup.DurableNone || g.Durability > dedup.DurableReplicated ||
			g.Durability > dedup.DurableNone != (x.harness.Reopen != nil) {
			x.Errorf("guarantees %+v, and Harness.Reopen %t", g, x.harness.Reopen != nil)
		}
	}},
	{"EveryCallIsErrClosedAfterwards", func(x *rig) {
		event, w := x.started(delivery("a"))
		x.close()
		for name, call := range map[string]func() error{
			"Claim": func() error { _, err := x.store.Claim(x.ctx, delivery("b")); return err },
			"Take": func() error {
				_, err := x.store.Take(x.ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
				return err
			},
			"Extend": func() error { return x.store.Extend(x.ctx, w.Lease, minute) },
			"Finish": func() error { return x.store.Finish(x.ctx, w.Lease, done()) },
			"Get":    func() error { _, err := x.store.Get(x.ctx, event); return err },
			"Reopen": func() error { _, err := x.store.Reopen(x.ctx, event); return err },
			"Rerun":  func() error { _, err := x.store.Rerun(x.ctx, event); return err },
			"RunNow": func() error { _, err := x.store.RunNow(x.ctx, event); return err },
			"Purge":  func() error { return x.store.Purge(x.ctx, event) },
			"Stats":  func() error { _, err := x.store.Stats(x.ctx); return err },
			"Health": func() error { return x.store.Health(x.ctx) },
			"List": func() error {
				for _, err := range x.store.List(x.ctx, dedup.Filter{}) {
					return err
				}
				return nil
			},
		} {
			if err := call(); !errors.Is(err, dedup.ErrClosed) {
				x.Errorf("%s after Close: %v, want ErrClosed", name, err)
			}
		}
	}},
	{"CallsWhileTheStoreClosesGetAResultOrErrClosed", func(x *rig) {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		for _, err := range together(12, func(i int) (err error) {
			for n := 0; err == nil; n++ {
				switch {
				case i == 0:
					time.Sleep(3 * time.Millisecond) // the others probably run or block by now
					x.close()
					err = dedup.ErrClosed
				case i < 4:
					_, err = x.store.Take(ctx, wanting("none"))
				default:
					_, err = x.store.Claim(ctx, delivery(fmt.Sprint(i, " ", n)))
				}
			}
			return err
		}) {
			x.fails(err, dedup.ErrClosed, "a call while the store closed")
		}
	}},
	// Restarts, for durable stores.
	{"InterruptedTasksRunAgainOneAtATime", func(x *rig) {
		const events = 12
		for i := range events {
			x.accept(bulky(fmt.Sprint("k", i)))
		}
		first := x.takeAll(events)
		x.want(dedup.Known, bulky("k0"))
		x.reopen()
		x.want(dedup.Known, bulky("k0"))
		x.advance(day) // a store may wait for the leases or pause
		for range events {
			ws := x.takeUpTo(events)
			if len(ws) != 1 || !ws[0].Task().Interrupted() {
				x.Fatalf("%d tasks run together, the first %s; want an interrupted one", len(ws), text(ws[0].Record))
			}
			x.attempt(ws[0], 2)
			equal(x, "body", string(ws[0].Record.Payload.Body), "body of "+ws[0].Record.Key.ID)
			x.finish(ws[0].Lease, done())
		}
		x.lost(first[0].Lease, "the task was taken again")
	}},
	{"AHeldClaimIsFreedWithItsAttemptCounted", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.reopen()
		x.advance(minute)
		x.idle("workers never take held claims")
		second := x.want(dedup.New, held("a"))
		x.continues(second, first)
		x.lost(first.Lease, "another claimer holds the claim")
		x.finish(second.Lease, answer(200, "second"))
		x.reopen()
		x.responds(x.want(dedup.Known, held("a")), 200, "second")
	}},
	{"TheWindowOfAClaimBeginsWithTheEndOfItsLeaseEvenIfThatIsNoticedLate", func(x *rig) {
		c := windowed(held("a"), hour)
		x.want(dedup.New, c)
		x.advance(hour / 2)
		x.reopen()
		x.advance(hour/2 + minute - time.Millisecond)
		x.want(dedup.Conflict, altered(c))
		x.advance(time.Millisecond)
		x.want(dedup.New, altered(c))
	}},
	// Concurrent callers.
	{"ConcurrentClaimsDecideEachNameOnce", func(x *rig) {
		const callers, keys, most = 8, 40, 7
		original, random := x.get(x.accept(delivery("original"))), x.random()
		calls, ds, stores := make([][]dedup.Claim, callers), make([][]dedup.Decision, callers), x.stores()
		for i := range calls {
			for n, k := range append(random.Perm(keys), random.Perm(keys)[:10]...) { // some twice
				c := delivery(fmt.Sprint("k", k))
				switch k % 4 {
				case 0: // one alias of many keys
					c = aliased(fmt.Sprint("k", k, " of ", i), nonce(fmt.Sprint(k, i)), nonce(fmt.Sprint("n", k)))
				case 1:
					c = quarantineOf(original, 2+100*i+n, most)
				}
				calls[i] = append(calls[i], c)
			}
		}
		for _, err := range together(callers, func(i int) (err error) {
			ds[i], err = stores[i%len(stores)].Claim(x.ctx, calls[i]...)
			return err
		}) {
			x.must(err, "Claim")
		}
		fresh, quarantined, events := map[string]int{}, 0, map[string]string{}
		for i := range calls {
			for j, d := range ds[i] {
				name, _, _ := strings.Cut(calls[i][j].Key.ID, " ")
				if calls[i][j].Quarantine != nil {
					quarantined++
					name = "original"
				}
				if d.Verdict == dedup.New {
					fresh[name]++
				}
				if name != "original" {
					equal(x, "event of "+name, d.Record.Event, cmp.Or(events[name], d.Record.Event))
					events[name] = d.Record.Event
				}
			}
		}
		equal(x, "quarantined", fresh["original"], most)
		equal(x, "quarantine count", x.get(original.Event).QuarantineCount, quarantined)
		for name := range events {
			equal(x, "new claims of "+name, fresh[name], 1)
		}
		x.count(1 + most + len(events))
	}},
	{"LanesStayInOrderWithManyWorkers", func(x *rig) {
		var cs []dedup.Claim
		for i := range 60 {
			cs = append(cs, laned(fmt.Sprint("k", i), fmt.Sprint("lane", i%5)))
		}
		x.claims(cs...)
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		var mu sync.Mutex
		running, last, left, stores := map[string]bool{}, map[string]uint64{}, len(cs), x.stores()
		work := func(store dedup.Store, w dedup.Work) error {
			mu.Lock()
			lane, seq := w.Task().Lane, w.Record.Seq
			if running[lane] || seq < last[lane] {
				x.Errorf("%s: %d runs after %d, or beside it", lane, seq, last[lane])
			}
			running[lane], last[lane] = true, seq
			mu.Unlock()
			time.Sleep(100 * time.Microsecond) // time for another worker to go wrong
			mu.Lock()
			defer mu.Unlock()
			running[lane] = false
			if w.Task().Attempt == 1 && seq%3 == 0 {
				return store.Finish(ctx, w.Lease, retry(0))
			}
			if left--; left == 0 {
				defer cancel()
			}
			return store.Finish(ctx, w.Lease, done())
		}
		for _, err := range together(6, func(i int) error {
			store := stores[i%len(stores)]
			ws, err := store.Take(ctx, dedup.Want{Tasks: 3, Bytes: 1 << 20, Lease: hour})
			for err == nil {
				for _, w := range ws {
					err = cmp.Or(err, work(store, w))
				}
				if err == nil {
					ws, err = store.Take(ctx, dedup.Want{Tasks: 3, Bytes: 1 << 20, Lease: hour})
				}
			}
			return err
		}) {
			x.fails(err, context.Canceled, "worker")
		}
		equal(x, "tasks left", left, 0)
	}},
	{"ADuplicateIsNotOfAnEventThatIsGone", func(x *rig) {
		c := handled("a")
		var gone atomic.Value // the event that was purged last
		gone.Store("")
		var stop atomic.Bool
		stores := x.stores()
		for i, err := range together(5, func(i int) error {
			for n := 0; i == 0 && n < 60; n++ {
				event := x.claim(c).Record.Event
				if err := x.store.Purge(x.ctx, event); err != nil {
					return err
				}
				gone.Store(event)
			}
			stop.CompareAndSwap(false, i == 0)
			for !stop.Load() {
				before := gone.Load()
				ds, err := stores[i%len(stores)].Claim(x.ctx, c)
				if err != nil {
					return err
				}
				if ds[0].Record.Event == before {
					return fmt.Errorf("%v of %s, which was purged before the claim", ds[0].Verdict, before)
				}
			}
			return nil
		}) {
			if err != nil {
				x.Errorf("caller %d: %v", i, err)
			}
		}
	}},
	{"ACancelledClaimIsAcceptedOnceOrNotAtAll", func(x *rig) {
		random := x.random()
		delays := make([]time.Duration, 30)
		for i := range delays {
			delays[i] = time.Duration(random.IntN(300)) * time.Microsecond
		}
		accepted := make([]bool, len(delays))
		together(len(delays), func(i int) error {
			ctx, cancel := context.WithTimeout(x.ctx, delays[i])
			defer cancel()
			ds, err := x.store.Claim(ctx, delivery(fmt.Sprint("k", i)))
			accepted[i] = err == nil && ds[0].Verdict == dedup.New
			return err
		})
		for i := range delays {
			d := x.claim(delivery(fmt.Sprint("k", i)))
			if accepted[i] && d.Verdict != dedup.Known {
				x.Errorf("claim %d was new and is now %v", i, d.Verdict)
			}
			x.want(dedup.Known, delivery(fmt.Sprint("k", i)))
		}
		x.count(len(delays))
	}},
	// Two stores with the same content.
	{"ALeaseIsLostWhenTheOtherStoreTookTheTask", func(x *rig) {
		y := x.other()
		event, first := x.started(delivery("a"))
		x.advance(minute)
		second := y.takeOf(event)
		y.attempt(second, 2)
		y.newer(second.Lease, first.Lease)
		x.lost(first.Lease, "the other store took the task")
		y.finish(second.Lease, done())
		x.lost(first.Lease, "the other store finished the task")
	}},
	{"ATaskIsLeftForTheStoreThatHasItsHandlerWhileThatIsOpen", func(x *rig) {
		y := x.other()
		x.accept(handled("first", "bill"))
		y.runsFor("bill", "bill")
		x.accept(handled("a", "bill"))
		x.accept(handled("b", "ship"))
		want := wanting("ship")
		want.Tasks, want.OrphanAfter = 10, 0 // handlers that no store has are missing at once
		ws, err := x.store.Take(x.ctx, want)
		if x.must(err, "Take"); len(ws) != 1 || ws[0].Task().Handler != "ship" {
			x.Fatalf("%d tasks, the first %s; want that of ship alone", len(ws), text(ws[0].Record))
		}
		x.finish(ws[0].Lease, done())
		y.close()
		x.advance(hour - time.Millisecond)
		x.idle("its handler is missing for less than an hour", "ship")
		x.advance(time.Millisecond)
		x.runsFor("bill", "ship")
	}},
}
