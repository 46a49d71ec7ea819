package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/inspect"
)

func TestATimelineShowsWhatHappened(t *testing.T) {
	t.Parallel()
	at := func(s int) *time.Time {
		when := time.Date(2026, 11, 23, 8, 0, s, 0, time.UTC)
		return &when
	}
	long := "/bin/sh: exit status 1: order 7\n" + strings.Repeat("x", 120) + "\n\x1b[1mdatabase refused"
	d := inspect.Detail{Event: inspect.Event{Tasks: []inspect.Task{
		{Handler: "a", State: "done", Attempt: 1, Attempts: []inspect.Attempt{
			{Number: 1, Started: at(0), Ended: at(1), State: "done"},
		}},
		{Handler: "b", State: "pending", Due: at(50), Reason: "failed", Error: long, Attempts: []inspect.Attempt{
			{Number: 1, Started: at(0), Ended: at(2), State: "pending", Reason: "timeout", Error: "deadline exceeded"},
			{Number: 9, Started: at(3), Ended: at(3), State: "dead", Reason: "exhausted", Error: "no",
				Reopened: at(8), Reply: "locked\n\x1b[2Jby 7"},
			{Number: 10, Started: at(9), Ended: at(10), State: "pending", Reason: "failed", Error: long},
		}},
		{Handler: "c", State: "running", Attempt: 1, Attempts: []inspect.Attempt{
			{Number: 1, Started: at(0), State: "running"},
		}},
		{Handler: "d", State: "pending"},
	}}}
	var b strings.Builder
	check(t, writeAttempts(&program{Out: &b}, d, "text"))
	want := `
ATTEMPTS of a
  1  2026-11-23T08:00:00Z  1 s  done  -

ATTEMPTS of b
  1   2026-11-23T08:00:00Z  2 s  again  timeout: deadline exceeded
  :   7 attempts more
  9   2026-11-23T08:00:03Z  0 s  dead  exhausted: no
  :   2026-11-23T08:00:08Z  run again by an operator
  10  2026-11-23T08:00:09Z  1 s  again  ` + brief("failed: "+long) + `
  :   2026-11-23T08:00:50Z  next

RESPONSE to attempt 9 of b
  locked
   [2Jby 7

LAST ERROR of b
  failed: /bin/sh: exit status 1: order 7
  ` + strings.Repeat("x", 120) + `
   [1mdatabase refused

ATTEMPTS of c
  1  2026-11-23T08:00:00Z  -  running  -
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if diff := cmp.Diff(squeeze(want), squeeze(b.String())); diff != "" {
		t.Errorf("%s\n%s", diff, b.String())
	}
	if text := brief(long); len(text) != maxBrief || !strings.HasPrefix(text, "/bin/sh: exit status 1: order") ||
		!strings.HasSuffix(text, "database refused") {
		t.Errorf("%d: %q", len(text), text)
	}
}
