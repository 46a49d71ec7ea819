package dedup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eyelet-dev/eyelet/dedup"
)

func drawKey(t *rapid.T, name string) dedup.Key {
	part := rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', 0, 1, 2}), 0, 3, -1)
	return dedup.Key{
		Principal: part.Draw(t, name+" principal"), Endpoint: part.Draw(t, name+" endpoint"),
		Space: part.Draw(t, name+" space"), ID: part.Draw(t, name+" id"),
	}
}

func TestDifferentKeysHaveDifferentHashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t, "a"), drawKey(t, "b")
		if (a == b) != (a.Hash() == b.Hash()) {
			t.Fatalf("%q and %q: same hash %t", a, b, a.Hash() == b.Hash())
		}
		long := a
		long.ID += strings.Repeat("x", 2000)
		if again := long; long.Hash() == a.Hash() || long.Hash() != again.Hash() {
			t.Fatal("long keys")
		}
	})
}

func TestLanesHaveTheirHandlerAndEndpointAsScope(t *testing.T) {
	t.Parallel()
	lane := func(endpoint, handler, lane string) string {
		r := dedup.Record{
			Payload: dedup.Payload{Endpoint: endpoint}, Tasks: []dedup.Task{{}, {Handler: handler, Lane: lane}},
		}
		return r.LaneOf(1)
	}
	if lane("a", "b", "") != "" {
		t.Error("a task outside of lanes has a lane")
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t, "a"), drawKey(t, "b")
		a.ID, b.ID = a.ID+"x", b.ID+"x" // not empty
		a.Space, b.Space = "", ""
		same := lane(a.Principal, a.Endpoint, a.ID) == lane(b.Principal, b.Endpoint, b.ID)
		if same != (a == b) {
			t.Fatalf("%q and %q: same lane %t", a, b, same)
		}
	})
}

func TestStateSummarizesTheTasks(t *testing.T) {
	t.Parallel()
	const p, r, d, x = dedup.Pending, dedup.Running, dedup.Done, dedup.Dead
	for _, row := range []struct {
		tasks []dedup.State
		want  dedup.State
		open  bool
	}{
		{nil, d, false}, {[]dedup.State{d}, d, false}, {[]dedup.State{d, d}, d, false},
		{[]dedup.State{d, p}, p, true}, {[]dedup.State{p, r, d}, r, true}, {[]dedup.State{r, p}, r, true},
		{[]dedup.State{d, x}, x, false}, {[]dedup.State{x, p}, x, true}, {[]dedup.State{r, x}, x, true},
	} {
		var record dedup.Record
		for _, s := range row.tasks {
			record.Tasks = append(record.Tasks, dedup.Task{State: s})
		}
		if record.State() != row.want || record.Open() != row.open {
			t.Errorf("%v: %v, open %t", row.tasks, record.State(), record.Open())
		}
	}
}

func TestTheAttemptThatRunsOrCompletedATaskIsTheLast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := dedup.Record{Tasks: []dedup.Task{{Handler: "h", State: dedup.Pending}}}
	for i, result := range []dedup.Result{{Kind: dedup.ResultRetry, Err: "refused"}, {Kind: dedup.ResultDone}} {
		l := r.Start(0, uint64(i+1), now, time.Minute)
		all := r.Tasks[0].Attempts()
		running := dedup.Attempt{Number: i + 1, State: dedup.Running, Started: now}
		if len(all) != i+1 || all[i] != running {
			t.Errorf("while attempt %d runs: %+v", i+1, all)
		}
		now = now.Add(time.Second)
		if err := r.Finish(nil, l, result, now); err != nil {
			t.Fatal(err)
		}
	}
	if all := r.Tasks[0].Attempts(); len(all) != 2 || all[1].State != dedup.Done || !all[1].Ended.Equal(now) {
		t.Errorf("in the end: %+v", all)
	}
}

func TestCheckNamesEveryProblem(t *testing.T) {
	t.Parallel()
	c := dedup.Claim{
		Hold: true, Response: dedup.Response{Status: 202}, Quarantine: &dedup.Quarantine{},
		Tasks: []dedup.NewTask{{Handler: "a"}, {Handler: "a"}, {}},
	}
	err := c.Check()
	if !errors.Is(err, dedup.ErrInvalid) {
		t.Fatalf("Check: %v", err)
	}
	for _, want := range []string{
		"key without an id", "exactly one task", "needs a lease", "hold with a response",
		"hold of a quarantined delivery", "quarantine without a reason",
		"two tasks of handler a", "task without a handler",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	good := claimOf(nil)
	held := claimOf(hold)
	if err := errors.Join(good.Check(), held.Check()); err != nil {
		t.Errorf("good claims: %v", err)
	}
}

func TestAFilterMatchesTypesByPrefix(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", true}, {"*", "", true}, {"*", "a", true}, {"a", "a", true}, {"a", "ab", false},
		{"a*", "a", true}, {"a*", "ab", true}, {"a*", "ba", false}, {"a.*", "a", false}, {"*a", "ba", false},
		{"a*b", "a*b", true}, {"a*b", "axb", false},
	} {
		f := dedup.Filter{Type: row.pattern}
		r := dedup.Record{Payload: dedup.Payload{Type: row.name}}
		if got := f.Match(&r, t0); got != row.want {
			t.Errorf("%q on %q: %t", row.pattern, row.name, got)
		}
	}
}

func TestStrings(t *testing.T) {
	t.Parallel()
	var got []string
	for v := range dedup.TooOld + 2 {
		got = append(got, v.String())
	}
	for s := range dedup.Dead + 2 {
		got = append(got, s.String())
	}
	for d := dedup.DurableNone - 1; d <= dedup.DurableReplicated+1; d++ {
		got = append(got, d.String())
	}
	want := []string{
		"none", "new", "known", "conflict", "aliased", "superseded", "repeated", "seen", "too_old", "none",
		"none", "pending", "running", "done", "dead", "none",
		"durability -1", "none", "process", "machine", "replicated", "durability 4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestErrUnavailableNamesReasonAndCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("input/output error")
	err := error(&dedup.ErrUnavailable{Reason: "commit failed", RetryAfter: time.Second, Err: cause})
	if err.Error() != "store unavailable: commit failed: input/output error" || !errors.Is(err, cause) {
		t.Errorf("error %q", err)
	}
	low := &dedup.ErrUnavailable{Reason: "disk low"}
	if low.Error() != "store unavailable: disk low" || low.Unwrap() != nil {
		t.Errorf("error %q", low)
	}
}

func TestTheSystemClockRings(t *testing.T) {
	t.Parallel()
	c := dedup.SystemClock()
	before := c.Now()
	past, stopPast := c.Alarm(before.Add(-time.Hour))
	soon, stopSoon := c.Alarm(before.Add(time.Millisecond))
	never, stopNever := c.Alarm(before.Add(time.Hour))
	<-past
	<-soon
	if c.Now().Before(before.Add(time.Millisecond)) {
		t.Error("the alarm rang before its time")
	}
	select {
	case <-never:
		t.Error("the alarm rang an hour too early")
	default:
	}
	stopPast()
	stopSoon()
	stopNever()
}
