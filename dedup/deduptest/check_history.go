package deduptest

import (
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

var historyChecks = []check{
	{"ATaskThatCompletesAtOnceHasNone", func(x *rig) {
		event := x.finished(delivery("a"), done())
		history(x, event)
		attempts(x, event, "1 done")
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
	{"ReopeningKeepsIt", func(x *rig) {
		event := x.finished(delivery("a"), dead())
		reopened := x.reopenEvent(event)
		x.same(bare(x.get(event)), bare(reopened), "returned and stored record")
		x.finish(x.takeOf(event).Lease, retry(0))
		x.run(done(), event)
		history(x, event, "1 dead exhausted no more attempts", "2 pending failed connection refused")
		attempts(x, event, "1 dead exhausted no more attempts", "2 pending failed connection refused", "3 done")
		x.reopen()
		attempts(x, event, "1 dead exhausted no more attempts", "2 pending failed connection refused", "3 done")
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
	{"AReleasedAttemptIsNotInIt", func(x *rig) {
		event := x.finished(delivery("a"), retry(0))
		x.run(release(), event, event)
		x.run(dead(), event)
		history(x, event, "1 pending failed connection refused", "2 dead exhausted no more attempts")
	}},
	{"AReleasedClaimIsInIt", func(x *rig) {
		d := x.want(dedup.New, held("a"))
		r := release()
		r.Reason, r.Err = "answer_failed", "no answer"
		x.finish(d.Lease, r)
		d = x.want(dedup.New, held("a"))
		x.finish(d.Lease, answer(200, "ok"))
		attempts(x, d.Record.Event, "1 pending answer_failed no answer", "2 done")
	}},
	{"AnInterruptedAttemptIsInIt", func(x *rig) {
		event, _ := x.started(delivery("a"))
		freed := x.want(dedup.New, held("b"))
		x.advance(2 * minute)
		w := x.takeOf(event)
		x.finish(w.Lease, done())
		x.want(dedup.New, held("b"))
		for _, event := range []string{event, freed.Record.Event} {
			h := x.get(event).Tasks[0].History
			if len(h) != 1 || h[0].Reason != dedup.ReasonInterrupted || h[0].State != dedup.Pending || h[0].Err == "" {
				x.Errorf("history %+v", h)
			}
		}
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
