package deduptest

import (
	"bytes"
	"cmp"
	"context"
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
		x.about(dedup.Known, x.accept(delivery("a")), delivery("a"))
	}},
	{"AnotherPayloadIsAConflictAndTheRecordIsLeftAlone", func(x *rig) {
		before := x.get(x.accept(delivery("a")))
		x.about(dedup.Conflict, before.Event, altered(delivery("a")))
		x.same(x.get(before.Event), before, "record")
	}},
	{"AnotherKeyWithAnAliasOfALiveRecordIsAliasedAndStoresNothing", func(x *rig) {
		event := x.accept(aliased("a", nonce("n")))
		d := x.about(dedup.Aliased, event, aliased("b", nonce("m"), nonce("n")))
		equal(x, "alias", d.Alias, nonce("n"))
		x.count(1)
	}},
	{"KnownContentUnderAnotherNameIsAnotherOccurrenceOrRepeated", func(x *rig) {
		first, second := x.accept(digested("d", "a", 2)), x.accept(digested("d", "b", 2))
		equal(x, "key of the second", x.get(second).Key, key("d").Occurrence(2))
		x.about(dedup.Known, second, digested("d", "b", 2))
		x.about(dedup.Repeated, first, digested("d", "c", 2))
		late := digested("d", "c", 3)
		late.Occurrence.Within = minute
		x.advance(minute)
		x.about(dedup.Repeated, first, late)
	}},
	{"TheNameOfAnotherOccurrenceLeadsToTheTraceOfItsContent", func(x *rig) {
		named := func(name string) dedup.Claim {
			c := windowed(digested("d", name, 2), hour)
			c.Remember = &dedup.Remember{Most: 3}
			return c
		}
		first, second := x.accept(named("a")), x.accept(named("b"))
		x.run(dead(), first)
		x.run(dead(), second)
		x.advance(hour)
		third, fourth := x.accept(named("c")), x.accept(named("e"))
		x.run(done(), third)
		x.run(done(), fourth)
		x.advance(hour)
		x.reopenEvent(second)
		x.want(dedup.Seen, named("b"))
	}},
	{"AnEventHasTheNamesOfAFormerConfiguration", func(x *rig) {
		event, renamed := x.finished(delivery("a"), done()), digested("d", "a", 0)
		renamed.Former = &dedup.Former{Names: []dedup.Key{key("a")}, Fingerprint: renamed.Fingerprint}
		x.about(dedup.Known, event, renamed)
		unnamed := digested("e", "", 0)
		own := x.accept(unnamed)
		unnamed.Former = renamed.Former
		x.about(dedup.Known, own, unnamed)
	}},
	{"TheNewestOfASeriesIsKnownBeyondItsWindowAndTheOthersAreSuperseded", func(x *rig) {
		a := x.accept(content("a", "s"))
		x.advance(100 * hour)
		x.about(dedup.Known, a, content("a", "s"))
		b := x.accept(content("b", "s"))
		x.accept(content("c", "s"))
		x.about(dedup.Superseded, b, content("b", "s"))
	}},
	{"BeyondItsWindowARememberedKeyIsSeenAndAnEventFromLongAgoIsTooOld", func(x *rig) {
		began := x.clock.Now()
		x.accept(remembered("old", time.Time{}))
		x.advance(day)
		x.accept(remembered("a", time.Time{}))
		x.advance(90 * day)
		x.accept(remembered("c", time.Time{})) // which may make the store forget
		x.want(dedup.Seen, remembered("a", time.Time{}))
		x.advance(day)
		x.want(dedup.New, remembered("a", time.Time{}))
		x.want(dedup.TooOld, remembered("b", began))
	}},
	{"AQuarantinedDeliveryIsADeadLetterThatRunsOnceReopened", func(x *rig) {
		original := x.get(x.finished(delivery("a"), done()))
		first := x.accept(quarantineOf(original, 2, 1))
		x.about(dedup.Known, original.Event, quarantineOf(original, 3, 1))
		equal(x, "quarantine count", x.get(original.Event).QuarantineCount, 2)
		x.idle("all open events are quarantined")
		x.advance(300 * day)
		x.reopenEvent(first)
		x.run(done(), first)
	}},
	{"OnlyKnownWritesNothing", func(x *rig) {
		c := delivery("a")
		c.OnlyKnown = true
		x.about(dedup.New, "", c)
		x.count(0)
	}},
	{"AClaimThatIsReleasedOrAbandonedIsNewAgainToAClaimWithHold", func(x *rig) {
		first := x.want(dedup.New, held("a"))
		x.want(dedup.Known, held("a"))
		x.idle("the claimer runs the task")
		x.finish(first.Lease, release())
		x.want(dedup.Known, delivery("a"))
		x.want(dedup.Conflict, altered(held("a")))
		second := x.about(dedup.New, first.Record.Event, held("a"))
		x.advance(minute)
		x.lost(first.Lease, "a newer claim had the lease")
		third := x.about(dedup.New, first.Record.Event, held("a"))
		equal(x, "attempt", third.Record.Tasks[0].Attempt, 3)
		x.lost(second.Lease, "a newer claim has the lease")
		x.finish(third.Lease, answer(201, "made"))
		x.responds(201, "made", held("a"))
	}},
	{"TheWindowBeginsWhenNoWorkIsLeft", func(x *rig) {
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
		x.accept(altered(c))
		x.want(dedup.Conflict, c)
	}},
	{"ADeadLetterStaysAfterTheWindowBesideTheNextGeneration", func(x *rig) {
		c := windowed(delivery("a"), hour)
		older := x.finished(c, dead())
		x.advance(hour)
		x.finished(c, done())
		x.advance(300 * day)
		x.reopenEvent(older)
		x.run(done(), older)
	}},
	{"KeysDoNotMeetByMovingBytesBetweenParts", func(x *rig) {
		x.accept(aliased("aliased", nonce("abcd"))) // which is not a key
		cs := map[string]dedup.Claim{}
		for _, k := range []dedup.Key{
			{Principal: "ab", Endpoint: "c", ID: "d"}, {Principal: "a", Endpoint: "bc", ID: "d"},
			{Principal: "a", Endpoint: "b", Space: "c", ID: "d"}, {ID: "abcd"}, {ID: "ABCD"}, {ID: " abcd"},
			{ID: "abcd\x00"}, {ID: "\x00abcd"}, {Principal: "\x00", ID: "abcd"}, nonce("abcd"),
		} {
			c := delivery("k")
			c.Key = k
			cs[x.accept(c)] = c
		}
		for event, c := range cs {
			d := x.about(dedup.Known, event, c)
			equal(x, "key", d.Record.Key, c.Key)
		}
	}},
	{"LanesDoNotMeetByMovingBytesBetweenParts", func(x *rig) {
		c := delivery("a")
		c.Tasks = []dedup.NewTask{
			{Handler: "ab", Lane: "c"}, {Handler: "a", Lane: "bc"},
			{Handler: "abc", Lane: "\x00"}, {Handler: "abc\x00"},
		}
		x.accept(c)
		x.takeAll(len(c.Tasks))
	}},
	{"AnInvalidClaimStoresNothing", func(x *rig) {
		_, err := x.store.Claim(x.ctx, delivery("good"), delivery(""))
		x.fails(err, dedup.ErrInvalid, "Claim without an id")
		x.count(0)
	}},
	{"ManyClaimsFitOneCallAndSeeThoseBeforeThem", func(x *rig) {
		var cs []dedup.Claim
		for _, name := range []string{"a", "b", "a", "c", "e", "b"} {
			c := digested("d", name, 3)
			c.Payload.Body = bytes.Repeat([]byte{'L'}, 3<<19)
			cs = append(cs, c)
		}
		for i := range 200 {
			cs = append(cs, delivery(fmt.Sprint("k", i)))
		}
		var got []dedup.Verdict
		for _, d := range x.claims(cs...) {
			got = append(got, d.Verdict)
		}
		want := []dedup.Verdict{dedup.New, dedup.New, dedup.Known, dedup.New, dedup.Repeated, dedup.Known}
		if !slices.Equal(got, append(want, slices.Repeat(want[:1], 200)...)) {
			x.Errorf("verdicts: %v", got)
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
		x.about(dedup.New, d.Record.Event, c)
		x.about(dedup.Aliased, d.Record.Event, aliased("b", nonce("69")))
		x.accept(aliased("b", nonce("first")))
	}},
	{"ManyReleasedClaimsAreForgottenAtOnce", func(x *rig) { // a store may sweep a few per call
		var cs []dedup.Claim
		for i := range 20 {
			c := windowed(held(fmt.Sprint("k", i)), hour)
			c.Remember = &dedup.Remember{Also: []dedup.Traced{{Key: nonce(fmt.Sprint(i)), Most: 2}}}
			cs = append(cs, c)
		}
		for range 2 {
			for _, d := range x.claims(cs...) {
				x.finish(d.Lease, release())
			}
		}
		x.advance(hour)
		for i, d := range x.claims(cs...) {
			if d.Verdict != dedup.New || d.Record.Tasks[0].Attempt != 1 {
				x.Errorf("claim %d: %v of %s", i, d.Verdict, text(d.Record))
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
		x.lasts(func() {
			r, answered := x.get(event), x.get(d.Record.Event).Response
			task := dedup.NewTask{Handler: r.Tasks[0].Handler, Lane: r.Tasks[0].Lane}
			got := []any{r.Key, r.Aliases, r.Fingerprint, r.Payload, r.Response.Body, r.Note, task, answered}
			if !reflect.DeepEqual(got, want) { // which hides no difference
				x.Errorf("\n got %q\nwant %q", fmt.Sprint(got), fmt.Sprint(want))
			}
			x.about(dedup.Known, event, c)
		})
	}},
	{"LargeAndEmptyBodiesAreKept", func(x *rig) {
		bodies := map[string][]byte{}
		for _, n := range []int{0, 1, 255, 4096, 65_536, 600_000, 1 << 20, 3 << 19} {
			c := delivery(fmt.Sprint("size ", n))
			c.Payload.Body = bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
			bodies[x.accept(c)] = c.Payload.Body
		}
		x.lasts(func() {
			x.count(len(bodies))
			for _, r := range x.list(dedup.Filter{Body: true}) {
				want, got := bodies[r.Event], x.get(r.Event).Payload.Body
				if !bytes.Equal(got, want) || !bytes.Equal(r.Payload.Body, want) {
					x.Errorf("a body of %d bytes has %d, or %d in a list", len(want), len(got), len(r.Payload.Body))
				}
			}
			for text, found := range map[string]int{"": len(bodies), "9ABC": len(bodies) - 2} {
				short := x.list(dedup.Filter{Body: true, MaxBody: 65_536, Text: text})
				if len(short) != found {
					x.Errorf("%d events have %q, want %d", len(short), text, found)
				}
				for _, r := range short {
					want := bodies[r.Event]
					if len(want) > 65_536 {
						want = nil
					}
					if !bytes.Equal(r.Payload.Body, want) {
						x.Errorf("a list of short bodies has %d bytes, want %d", len(r.Payload.Body), len(want))
					}
				}
			}
		})
	}},
	{"TheCallerOwnsWhatItGivesAndGets", func(x *rig) {
		c := handled("a", "one", "two")
		c.Aliases = []dedup.Key{nonce("n")}
		d := x.want(dedup.New, c)
		known, conflict := x.want(dedup.Known, c), x.want(dedup.Conflict, altered(c))
		event := d.Record.Event
		x.owns(event, &d, &known, &conflict, &c)
		w, result := x.take(), answer(201, "made")
		result.Kind = dedup.ResultDead
		x.finish(w.Lease, result)
		known = x.want(dedup.Known, handled("a", "one", "two"))
		record, listed := x.get(event), x.list(dedup.Filter{Body: true})
		x.owns(event, &w, &result, &known, &record, &listed)
		record = x.reopenEvent(event)
		x.owns(event, &record)
	}},
	{"TheCallerOwnsAPayloadThatTheClaimGave", func(x *rig) {
		for i, gives := range []bool{false, true} {
			later := handled(fmt.Sprint("later", i), "one", "two")
			atOnce := handled(fmt.Sprint("at once", i), "one", "two")
			later.GivesPayload, atOnce.GivesPayload = gives, gives
			x.accept(later)
			lease := x.spoils(x.take())
			x.finish(x.spoils(x.take()), done())
			x.finish(lease, retry(0))
			x.finish(x.spoils(x.take()), done())
			x.finish(x.spoils(x.wakes(func() { x.accept(atOnce) })), done())
			x.finish(x.spoils(x.take()), done())
		}
	}},
	// Taking tasks.
	{"ATaskIsTakenByOneCallerUntilItsLeaseEnds", func(x *rig) {
		event, w := x.started(delivery("a"))
		equal(x, "body", string(w.Record.Payload.Body), "body of a")
		x.must(x.store.Extend(x.ctx, w.Lease, hour), "Extend")
		x.advance(hour - time.Millisecond)
		x.idle("the only task is running")
		x.advance(time.Millisecond)
		again := x.takeOf(event)
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
		var a, b string
		wakes := func(event *string, act func()) dedup.Lease {
			x.Helper()
			w := x.wakes(act)
			equal(x, "event of the waiting Take", w.Record.Event, *event)
			return w.Lease
		}
		l := wakes(&a, func() { a = x.accept(delivery("a")) })
		l = wakes(&a, func() { x.finish(l, release()) })
		x.finish(l, retry(hour))
		l = wakes(&a, func() { x.advance(hour) })
		l = wakes(&a, func() { x.advance(minute) }) // its lease ends
		x.finish(l, dead())
		l = wakes(&a, func() { x.reopenEvent(a) })
		x.finish(l, retry(2*hour))
		b, w := x.started(delivery("b"))
		l = wakes(&b, func() {
			x.finish(w.Lease, retry(hour)) // earlier than the other
			x.advance(hour)
		})
		x.finish(l, done())
		l = wakes(&a, func() {
			_, err := x.store.RunNow(x.ctx, a)
			x.must(err, "RunNow")
		})
		x.finish(l, done())
		l = wakes(&a, func() { x.rerunEvent(a) })
		x.finish(l, done())
		_, head := x.started(laned("head", "l"))
		b = x.accept(laned("behind", "l"))
		wakes(&b, func() { x.finishMany([]dedup.LeaseResult{{Lease: head.Lease, Result: done()}}, nil) })
	}},
	{"AWaitingTakeGetsTheTaskOfItsHandler", func(x *rig) {
		w := x.wakes(func() { x.claims(handled("a", "bill"), handled("b", "ship")) }, "ship")
		equal(x, "handler", w.Task().Handler, "ship")
		x.runsFor("bill", "bill")
	}},
	{"CallsEndWithTheirContext", func(x *rig) {
		ctx, cancel := context.WithCancel(x.ctx)
		failed := make(chan error, 1)
		take := func() error {
			_, err := x.store.Take(ctx, wanting())
			return err
		}
		go func() { failed <- take() }()
		cancel()
		x.fails(<-failed, context.Canceled, "Take after its context ended")
		x.fails(take(), context.Canceled, "Take with a cancelled context")
		_, first := x.started(delivery("a")) // the Takes that ended take nothing
		_, second := x.started(delivery("b"))
		for _, err := range x.store.List(ctx, dedup.Filter{}) {
			x.fails(err, context.Canceled, "List with a cancelled context")
		}
		for _, err := range x.store.FinishMany(ctx, resultsOf(done(), first, second)...) {
			x.fails(err, context.Canceled, "a result with a cancelled context")
		}
		if _, err := x.store.Claim(ctx, delivery("k")); err == nil {
			x.Error("Claim with a cancelled context: no error")
		}
	}},
	{"ArgumentsThatAreNotPositiveAreInvalid", func(x *rig) {
		_, w := x.started(delivery("a"))
		for _, bad := range []int{0, -1} {
			_, err := x.store.Take(x.ctx, dedup.Want{Tasks: bad, Bytes: 1, Lease: minute})
			x.fails(err, dedup.ErrInvalid, "Take of no tasks")
			_, err = x.store.Take(x.ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Duration(bad)})
			x.fails(err, dedup.ErrInvalid, "Take without a lease")
			x.fails(x.store.Extend(x.ctx, w.Lease, time.Duration(bad)), dedup.ErrInvalid, "Extend by nothing")
		}
	}},
	// Leases.
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
		for event, want := range map[string]dedup.State{first: dedup.Done, second: dedup.Running, third: dedup.Dead} {
			equal(x, "state of the task", x.get(event).Tasks[0].State, want)
		}
	}},
	{"AnyNumberOfResultsIsRecorded", func(x *rig) {
		x.finishMany(nil)
		const n = 1500
		for i := range 3 {
			var claims []dedup.Claim
			for k := range n / 3 {
				claims = append(claims, delivery(fmt.Sprint(i, " ", k)))
			}
			x.claims(claims...)
		}
		x.finishMany(resultsOf(done(), x.takeAll(n)...), make([]error, n)...)
		equal(x, "done", len(x.list(dedup.Filter{States: []dedup.State{dedup.Done}})), n)
	}},
	// History.
	{"OfManyAttemptsTheFirstAndTheLastAreKept", func(x *rig) {
		event := x.accept(delivery("a"))
		for range dedup.HistoryFirst + dedup.HistoryLast + 2 {
			x.run(retry(0), event)
		}
		var got []int
		for _, a := range x.get(event).Tasks[0].History {
			got = append(got, a.Number)
		}
		equal(x, "attempts", fmt.Sprint(got), "[1 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18]")
	}},
	{"OfALongErrorOrReplyTheEndsAreKept", func(x *rig) {
		r := retry(0)
		r.Err = "begins " + strings.Repeat("ö", dedup.MaxAttemptErr) + " ends"
		r.Reply = "first\x00\x1b[1m" + strings.Repeat("ö", dedup.MaxReply)
		event := x.finished(delivery("a"), r)
		x.lasts(func() {
			task := x.get(event).Tasks[0]
			got, reply := task.History[0].Err, task.History[0].Reply
			if len(got) > dedup.MaxAttemptErr || len(got) < dedup.MaxAttemptErr-4 || !utf8.ValidString(got) ||
				!strings.HasPrefix(got, "begins ö") || !strings.HasSuffix(got, "ö ends") || task.Err != r.Err {
				x.Errorf("%d bytes: %q", len(got), got)
			}
			if len(reply) < dedup.MaxReply-2 || len(reply) > dedup.MaxReply || !strings.HasPrefix(r.Reply, reply) {
				x.Errorf("%d bytes are kept: %.40q", len(reply), reply)
			}
		})
	}},
	// Operators.
	{"WhatCannotBeDoneIsRefused", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		_, err := x.store.Reopen(x.ctx, event, dedup.NewTask{Handler: "bill"}, dedup.NewTask{Lane: "l"})
		x.fails(err, dedup.ErrInvalid, "Reopen for a task without a handler")
		x.idle("nothing was reopened")
		for _, unknown := range []string{"unknown", ""} {
			x.fails(x.store.Purge(x.ctx, unknown), dedup.ErrNotFound, "Purge of an unknown event")
		}
	}},
	{"OfConcurrentReopensOneChangesTheEvent", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		errs := together(8, func(int) error {
			_, err := x.store.Reopen(x.ctx, event)
			return err
		})
		errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		equal(x, "refused Reopens", len(errs), 7)
		for _, err := range errs {
			x.fails(err, dedup.ErrNotDead, "another Reopen")
		}
		x.takeOf(event)
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
		attributed, binary, typed, vendor := delivery("a"), delivery("b"), delivery("c"), delivery("d")
		attributed.Payload.Attributes = map[string]string{"subject": "a needle"}
		binary.Payload.Body = []byte("\x00\xffNEEDLE\xfe")
		typed.Payload.Type = "Needle.paid"
		vendor.Payload.VendorID = "needle-7"
		identified := delivery("needle")
		identified.Payload.Body = nil
		x.claims(attributed, binary, typed, vendor, delivery("no"), identified)
		x.lists(dedup.Filter{Text: "Needle"}, "needle d c b a")
		x.lists(dedup.Filter{Text: "subject"}, "")
	}},
	{"ASearchReportsHowFarItLooked", func(x *rig) {
		first := x.get(x.finished(delivery("a"), done()))
		dropped := delivery("b")
		dropped.DropBody = true
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
		x.must(x.store.Close(), "Close")
		for name, call := range map[string]func() error{
			"Claim":  func() error { _, err := x.store.Claim(x.ctx, delivery("b")); return err },
			"Take":   func() error { _, err := x.store.Take(x.ctx, wanting()); return err },
			"Extend": func() error { return x.store.Extend(x.ctx, w.Lease, minute) },
			"Finish": func() error { return x.store.Finish(x.ctx, w.Lease, done()) },
			"Get":    func() error { _, err := x.store.Get(x.ctx, event); return err },
			"Reopen": func() error { _, err := x.store.Reopen(x.ctx, event); return err },
			"Rerun":  func() error { _, err := x.store.Rerun(x.ctx, event, dedup.Rerun{}); return err },
			"RunNow": func() error { _, err := x.store.RunNow(x.ctx, event); return err },
			"Purge":  func() error { return x.store.Purge(x.ctx, event) },
			"Stats":  func() error { _, err := x.store.Stats(x.ctx); return err },
			"Health": func() error { return x.store.Health(x.ctx) },
			"Note":   func() error { _, err := x.store.Note(x.ctx, key("n")); return err },
			"ChangeNote": func() error {
				return x.store.ChangeNote(x.ctx, key("n"), func(string) (string, error) { return "text", nil })
			},
			"Notes": func() error {
				for _, err := range x.store.Notes(x.ctx, "checks") {
					return err
				}
				return nil
			},
			"List": func() error {
				for _, err := range x.store.List(x.ctx, dedup.Filter{}) {
					return err
				}
				return nil
			},
		} {
			x.fails(call(), dedup.ErrClosed, name+" after Close")
		}
		x.finishMany(resultsOf(done(), w, w), dedup.ErrClosed, dedup.ErrClosed)
	}},
	{"CallsWhileTheStoreClosesGetAResultOrErrClosed", func(x *rig) {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		for _, err := range together(12, func(i int) (err error) {
			for n := 0; err == nil; n++ {
				switch {
				case i == 0:
					time.Sleep(3 * time.Millisecond) // the others probably run or block by now
					return cmp.Or(x.store.Close(), dedup.ErrClosed)
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
		c := delivery("k0")
		c.Response = dedup.Response{Status: 202, Body: bytes.Repeat([]byte("a response "), 15<<10)}
		x.accept(c)
		for i := range events - 1 {
			x.accept(delivery(fmt.Sprint("k", i+1)))
		}
		first := x.takeAll(events)
		x.responds(202, string(c.Response.Body), c)
		x.reopen()
		x.responds(202, string(c.Response.Body), c)
		x.advance(day) // a store may wait for the leases or pause
		for range events {
			ws := x.takeUpTo(events)
			if len(ws) != 1 || !ws[0].Task().Interrupted() || ws[0].Task().Attempt != 2 {
				x.Fatalf("%d tasks run together, the first %s; want an interrupted one", len(ws), text(ws[0].Record))
			}
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
		second := x.about(dedup.New, first.Record.Event, held("a"))
		equal(x, "attempt", second.Record.Tasks[0].Attempt, 2)
		x.lost(first.Lease, "another claimer holds the claim")
		x.finish(second.Lease, answer(200, "second"))
		x.reopen()
		x.responds(200, "second", held("a"))
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
			for n, k := range append(random.Perm(keys), random.Perm(keys)...) {
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
		fresh := map[string]int{}
		for i := range calls {
			for j, d := range ds[i] {
				if name, _, _ := strings.Cut(calls[i][j].Key.ID, " "); d.Verdict == dedup.New {
					fresh[name]++
				}
			}
		}
		for name, n := range fresh {
			equal(x, "new claims of "+name, n, map[bool]int{false: 1, true: most}[name == "original"])
		}
		equal(x, "quarantine count", x.get(original.Event).QuarantineCount, callers*2*keys/4)
		x.count(1 + most + keys - keys/4)
	}},
	{"LanesStayInOrderWithManyWorkers", func(x *rig) {
		const events = 60
		for i := range events {
			x.accept(laned(fmt.Sprint("k", i), fmt.Sprint("lane", i%5)))
		}
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		var mu sync.Mutex
		running, last, left, stores := map[string]bool{}, map[string]uint64{}, events, x.stores()
		work := func(w dedup.Work) dedup.Result {
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
				return retry(0)
			}
			if left--; left == 0 {
				cancel()
			}
			return done()
		}
		for _, err := range together(6, func(i int) error {
			store := stores[i%len(stores)]
			for {
				ws, err := store.Take(ctx, dedup.Want{Tasks: 3, Bytes: 1 << 20, Lease: hour})
				for _, w := range ws {
					err = cmp.Or(err, store.Finish(x.ctx, w.Lease, work(w)))
				}
				if err != nil {
					return err
				}
			}
		}) {
			x.fails(err, context.Canceled, "worker")
		}
		equal(x, "tasks left", left, 0)
	}},
	{"ADuplicateIsNotOfAnEventThatIsGone", func(x *rig) {
		c, stores := handled("a"), x.stores()
		var gone atomic.Value // the event that was purged last
		gone.Store("")
		purging, stop := context.WithCancel(x.ctx)
		for i, err := range together(5, func(i int) error {
			defer stop()
			for n := 0; purging.Err() == nil && (i > 0 || n < 60); n++ {
				before := gone.Load()
				ds, err := stores[i%len(stores)].Claim(x.ctx, c)
				if err == nil && ds[0].Record.Event == before {
					err = fmt.Errorf("%v of %s, which was purged before the claim", ds[0].Verdict, before)
				}
				if err == nil && i == 0 {
					err = x.store.Purge(x.ctx, ds[0].Record.Event)
					gone.Store(ds[0].Record.Event)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}) {
			x.must(err, fmt.Sprint("caller ", i))
		}
	}},
	{"ACancelledClaimIsAcceptedOnceOrNotAtAll", func(x *rig) {
		const n = 30
		delays := x.random().Perm(300)
		for i, err := range together(n, func(i int) error {
			ctx, cancel := context.WithTimeout(x.ctx, time.Duration(delays[i])*time.Microsecond)
			defer cancel()
			_, err := x.store.Claim(ctx, delivery(fmt.Sprint("k", i)))
			return err
		}) {
			c := delivery(fmt.Sprint("k", i))
			if v := x.claims(c)[0].Verdict; err == nil && v != dedup.Known {
				x.Errorf("claim %d was new and is now %v", i, v)
			}
			x.want(dedup.Known, c)
		}
		x.count(n)
	}},
	// Two stores with the same content.
	{"ALeaseIsLostWhenTheOtherStoreTookTheTask", func(x *rig) {
		y := x.other()
		event, first := x.started(delivery("a"))
		x.advance(minute)
		second := y.takeOf(event)
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
		x.must(y.store.Close(), "Close of the other store")
		x.advance(hour - time.Millisecond)
		x.idle("its handler is missing for less than an hour", "ship")
		x.advance(time.Millisecond)
		x.runsFor("bill", "ship")
	}},
}
