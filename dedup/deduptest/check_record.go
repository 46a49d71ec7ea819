package deduptest

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

var recordChecks = []check{
	{"EveryByteOfADeliveryIsKept", func(x *rig) { x.checkBytes(exact(x)) }},
	{"LargeAndEmptyBodiesAreKept", func(x *rig) { x.checkBodies(bodies(x)) }},
	{"TheCallerOwnsTheResult", func(x *rig) {
		c := aliased("a", nonce("n"))
		d := x.want(dedup.New, c)
		event := d.Record.Event
		before := text(x.get(event)) // the record itself could share memory with the store
		known := x.want(dedup.Known, c).Record
		known.Tasks[0].Handler, known.Response.Body[0] = "spoilt", 'X'
		x.same(undescribed(x.get(event)), x.want(dedup.Known, c).Record, "record after the caller changed its copy")
		spoils := func(from string, r *dedup.Record) {
			x.Helper()
			spoil(r)
			if got := text(x.get(event)); got != before {
				x.Fatalf("after the caller changed what it got from %s:\n got %s\nwant %s", from, got, before)
			}
		}
		spoils("Claim", &d.Record)
		conflict := x.want(dedup.Conflict, altered(c)).Record
		spoils("Claim of a conflict", &conflict)
		got := x.get(event)
		spoils("Get", &got)
		for r, err := range x.store.List(x.ctx, dedup.Filter{Body: true}) {
			if err != nil {
				x.Fatal(err)
			}
			spoils("List", &r)
		}
		w := x.take()
		before = text(x.get(event))
		spoils("Take", &w.Record)
		x.finish(w.Lease, dead())
		reopened := x.reopenEvent(event)
		before = text(x.get(event))
		spoils("Reopen", &reopened)
		a := answer(200, "ok")
		h := x.want(dedup.New, held("b"))
		x.finish(h.Lease, a)
		a.Response.Body[0] = 'X'
		a.Response.Header.Set("Location", "spoilt")
		got = x.get(h.Record.Event)
		if string(got.Response.Body) != "ok" || got.Response.Header.Get("Location") != "/orders/1" {
			x.Errorf("response after the caller changed its result: %+v", got.Response)
		}
	}},
	{"EachFailedAttemptHasItsTimesAndItsError", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		x.finish(x.takeOf(event).Lease, dedup.Result{Kind: dedup.ResultRetry, Postponed: true, Reason: "postponed"})
		attempts(x, event, "1 pending failed connection refused", "2 pending postponed")
		w := x.takeOf(event)
		attempts(x, event, "1 pending failed connection refused", "2 pending postponed", "3 running")
		started := x.get(event).Tasks[0].Started
		if !x.harness.OwnClock {
			x.clock.Advance(minute / 2)
		}
		x.finish(w.Lease, dead())
		history(x, event, "1 pending failed connection refused", "2 pending postponed",
			"3 dead exhausted no more attempts")
		task := x.get(event).Tasks[0]
		if a := task.History[2]; !a.Started.Equal(started) || !a.Ended.Equal(task.Ended) || a.Ended.Before(a.Started) ||
			!x.harness.OwnClock && a.Ended.Sub(a.Started) != minute/2 {
			x.Errorf("started %v, ended %v, and the task %v, %v", a.Started, a.Ended, started, task.Ended)
		}
	}},
	{"TheFirstAttemptAndTheLastOnesAreKept", func(x *rig) {
		event := x.accept(delivery("a"))
		var want []string
		for n := 1; n <= 20; n++ {
			r := retry(0)
			r.Err = fmt.Sprint("error ", n/3)
			x.finish(x.takeOf(event).Lease, r)
			if n <= dedup.HistoryFirst || n > 20-dedup.HistoryLast {
				want = append(want, fmt.Sprintf("%d pending failed error %d", n, n/3))
			}
		}
		history(x, event, want...)
		w := x.takeOf(event)
		if n := len(w.Task().History); n != dedup.HistoryFirst+dedup.HistoryLast {
			x.Errorf("work has a history of %d attempts", n)
		}
		x.finish(w.Lease, done())
		x.reopen()
		attempts(x, event, append(want, "21 done")...)
	}},
	{"ALongErrorKeepsItsBeginningAndItsEnd", func(x *rig) {
		r := dead()
		r.Err = "begins " + strings.Repeat("ö", dedup.MaxAttemptErr) + " ends"
		event := x.finished(delivery("a"), r)
		task := x.get(event).Tasks[0]
		got := task.History[0].Err
		if len(got) > dedup.MaxAttemptErr || len(got) < dedup.MaxAttemptErr-4 || !strings.HasPrefix(got, "begins ö") ||
			!strings.HasSuffix(got, "ö ends") || strings.ToValidUTF8(got, "") != got || task.Err != r.Err {
			x.Errorf("%d bytes: %q", len(got), got)
		}
	}},
	{"TheReplyOfAnAttemptIsKept", func(x *rig) {
		long := "first\x00\x1b[1m" + strings.Repeat("ö", dedup.MaxReply)
		event := x.accept(delivery("a"))
		for _, reply := range []string{"same", "same", long, ""} {
			r := retry(0)
			r.Reply = reply
			x.finish(x.takeOf(event).Lease, r)
		}
		w, refused := x.takeOf(event), done()
		refused.Reply = "refused"
		x.finish(w.Lease, refused)
		check := func() {
			x.Helper()
			all := x.get(event).Tasks[0].Attempts()
			if len(all) != 5 || all[0].Reply != "same" || all[1].Reply != "same" || all[3].Reply != "" ||
				all[4].Reply != "refused" || all[4].State != dedup.Done {
				x.Fatalf("attempts %+v", all)
			}
			if got := all[2].Reply; len(got) < dedup.MaxReply-2 || len(got) > dedup.MaxReply ||
				!strings.HasPrefix(long, got) {
				x.Errorf("%d bytes are kept: %.40q", len(got), got)
			}
		}
		check()
		x.reopen()
		check()
	}},
	{"TheCallerOwnsIt", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		const want = "1 pending failed connection refused"
		r := x.get(event)
		r.Tasks[0].History[0].Err = "spoilt"
		w := x.takeOf(event)
		w.Task().History[0].Err = "spoilt"
		x.finish(w.Lease, dead())
		reopened := x.reopenEvent(event)
		reopened.Tasks[0].History[0].Err = "spoilt"
		for _, r := range x.list(dedup.Filter{}) {
			r.Tasks[0].History[0].Err = "spoilt"
		}
		known := x.want(dedup.Known, delivery("a")).Record
		known.Tasks[0].History[0].Err = "spoilt"
		history(x, event, want, "2 dead exhausted no more attempts")
	}},
	{"ATaskWithoutAHandlerIsErrInvalidAndNothingIsReopened", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		before := x.get(event)
		x.failsReopen(dedup.ErrInvalid, event, dedup.NewTask{Handler: "bill"}, dedup.NewTask{Lane: "l"})
		x.same(x.get(event), before, "record")
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
	{"EveryRunIsInTheHistoryWithTheTimeOfItsOrder", func(x *rig) {
		event := x.finished(delivery("a"), done())
		for n := range dedup.HistoryFirst + dedup.HistoryLast + 2 {
			x.rerunEvent(event)
			x.run(done(), event)
			all := x.get(event).Tasks[0].Attempts()
			if last := all[len(all)-1]; last.Number != n+2 || !last.Reopened.IsZero() {
				x.Fatalf("the last attempt is %+v", last)
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
	{"AnUnknownEventIsErrNotFound", func(x *rig) {
		x.fails(x.store.Purge(x.ctx, "unknown"), dedup.ErrNotFound, "Purge of an unknown event")
		x.fails(x.store.Purge(x.ctx, ""), dedup.ErrNotFound, "Purge of no event")
	}},
	{"GenerationsContinueAfterTheLargestKept", func(x *rig) { countOn(x, func() {}) }},
}

// exact accepts an event with bytes that are easily corrupted, and one with such a response. It
// returns what the store must return.
func exact(x *rig) (event, answered string, c dedup.Claim, a dedup.Response) {
	x.Helper()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c = delivery("quote \" slash / null \x00 high \xff snow ☃")
	c.Aliases = []dedup.Key{nonce("n\x00\xff"), signed("s ☃")}
	c.Payload.Body = all
	c.Payload.KeyField = "\t\"raw\\field\"; p=?1"
	c.Payload.Target = "/hooks/%2e%2E/%ff?a=b&&c=%00+;"
	c.Payload.Type = "type/☃\xfe"
	c.Payload.Header = http.Header{
		"X-Empty": {""}, "X-Many": {"b", "a", "b"}, "X-Bytes": {"caf\xe9 \xff"}, "x-lower": {"kept as it is"},
	}
	c.Payload.Attributes = map[string]string{
		"": "empty name", "time": "2026-01-02T03:04:05.678+09:00", "bytes": "\xff\x00",
	}
	c.Note = "note ☃"
	c.Tasks = []dedup.NewTask{{Handler: "h/☃", Lane: "l\x00\xff"}}
	header := http.Header{"X-Many": {"2", "1"}, "Content-Type": {"a/b; c=\"\xff\""}}
	a = dedup.Response{Status: 299, Header: header, Body: all}
	event = x.accept(c)
	d := x.want(dedup.New, held("answered"))
	x.finish(d.Lease, dedup.Result{Kind: dedup.ResultDone, Response: a})
	return event, d.Record.Event, c, a
}

// checkBytes compares without any conversion that could hide a difference.
func (x *rig) checkBytes(event, answered string, c dedup.Claim, a dedup.Response) {
	x.Helper()
	r := x.get(event)
	for _, row := range []struct {
		what      string
		got, want any
	}{
		{"key", r.Key, c.Key}, {"aliases", r.Aliases, c.Aliases}, {"fingerprint", r.Fingerprint, c.Fingerprint},
		{"payload", r.Payload, c.Payload}, {"answer body", string(r.Response.Body), string(c.Response.Body)},
		{"note", r.Note, c.Note}, {"handler", r.Tasks[0].Handler, c.Tasks[0].Handler},
		{"lane", r.Tasks[0].Lane, c.Tasks[0].Lane},
		{"stored answer", x.get(answered).Response, a},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			x.Errorf("%s:\n got %q\nwant %q", row.what, fmt.Sprint(row.got), fmt.Sprint(row.want))
		}
	}
	x.about(dedup.Known, event, c)
}

// bodies accepts events with bodies of many sizes.
func bodies(x *rig) map[string][]byte {
	x.Helper()
	want := map[string][]byte{}
	for _, n := range []int{0, 1, 255, 4096, 65_536, 600_000, 1 << 20} {
		body := []byte(strings.Repeat("0123456789abcdef", n/16+1))[:n]
		c := delivery(fmt.Sprint("size ", n))
		c.Payload.Body = body
		want[x.accept(c)] = body
	}
	return want
}

func (x *rig) checkBodies(want map[string][]byte) {
	x.Helper()
	for event, body := range want {
		if got := x.get(event).Payload.Body; !bytes.Equal(got, body) {
			x.Errorf("body of %d bytes came back as %d, or changed", len(body), len(got))
		}
	}
	for _, r := range x.list(dedup.Filter{Body: true}) {
		if body, ok := want[r.Event]; ok && !bytes.Equal(r.Payload.Body, body) {
			x.Errorf("listed body of %d bytes has %d, or changed", len(body), len(r.Payload.Body))
		}
	}
}

func spoil(r *dedup.Record) {
	r.Tasks[0].State, r.Tasks[0].Handler, r.Aliases[0].ID = dedup.Dead, "spoilt", "spoilt"
	r.Payload.Header.Set("Content-Type", "spoilt")
	r.Payload.Attributes["source"] = "spoilt"
	for _, body := range [][]byte{r.Payload.Body, r.Response.Body} {
		for i := range body {
			body[i] = 'X'
		}
	}
}

// history requires the history of the first task of an event.
func history(x *rig, event string, want ...string) {
	x.Helper()
	task := x.get(event).Tasks[0]
	attemptsAre(x, task.History, want)
}

// attempts requires all attempts of the first task of an event.
func attempts(x *rig, event string, want ...string) {
	x.Helper()
	task := x.get(event).Tasks[0]
	attemptsAre(x, task.Attempts(), want)
}

func attemptsAre(x *rig, all []dedup.Attempt, want []string) {
	x.Helper()
	got := []string{}
	for _, a := range all {
		line := fmt.Sprint(a.Number, " ", a.State, " ", a.Reason, " ", a.Err)
		got = append(got, strings.TrimSpace(line))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		x.Fatalf("attempts:\n%s\nwant:\n%s", g, w)
	}
}

// generations makes a dead letter and, after its window, a done event of one key.
func generations(x *rig) (older, newer string) {
	x.Helper()
	c := windowed(delivery("a"), hour)
	older = x.finished(c, dead())
	x.advance(hour)
	newer = x.finished(c, done())
	return older, newer
}

// countOn purges generations of a key one after another and checks the number of the next.
// again may close and reopen the store.
func countOn(x *rig, again func()) {
	x.Helper()
	older, newer := generations(x)
	c := windowed(delivery("a"), hour)
	x.purge(newer)
	again()
	third := x.want(dedup.New, c).Record
	x.generationsAre("a", 1, third.Generation)
	x.run(dead(), third.Event)
	x.advance(hour)
	fourth := x.want(dedup.New, c).Record
	x.run(done(), fourth.Event)
	x.generationsAre("a", 1, third.Generation, third.Generation+1)
	x.purge(fourth.Event)
	x.purge(third.Event)
	again()
	ds := x.claims(c, delivery("b"), c)
	fifth := ds[0].Record
	x.generationsAre("a", 1, fifth.Generation)
	for _, event := range []string{older, newer, third.Event, fourth.Event} {
		if fifth.Event == event {
			x.Errorf("event id %q was used again", event)
		}
	}
	if ds[1].Record.Generation != 1 || ds[2].Record.Event != fifth.Event {
		x.Errorf("another key has generation %d, a duplicate event %q", ds[1].Record.Generation, ds[2].Record.Event)
	}
	x.run(done(), fifth.Event)
	x.purge(fifth.Event)
	x.purge(older)
	again()
	equal(x, "generation without records", x.want(dedup.New, c).Record.Generation, 1)
}
