package taskqueue

import (
	"testing"
	"time"
)

func TestOneSuspectRunsAtATime(t *testing.T) {
	t.Parallel()
	q, now := New[string](), time.Unix(1_000_000, 0)
	for i, name := range []string{"a", "b", "c"} {
		q.Schedule(Item[string]{Event: name, Seq: uint64(i), Due: now, Suspect: true})
	}
	q.Schedule(Item[string]{Event: "x", Seq: 9, Due: now})
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "ax" {
		t.Fatalf("first %q, want one suspect and the others: ax", got)
	}
	if at, ok := q.NextDue(now, Want{}); !ok || !at.Equal(now.Add(SuspectTime)) {
		t.Fatalf("next due %v %v, want the end of the suspect's time", at, ok)
	}
	q.Remove(0, 0)
	if at, ok := q.NextDue(now, Want{}); !ok || !at.Equal(now) {
		t.Fatalf("next due %v %v, want now: no suspect runs", at, ok)
	}
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "b" {
		t.Fatalf("after the first has its outcome: %q, want b", got)
	}
	// b fails by itself: it is not a suspect anymore, and c may run beside it.
	q.Schedule(Item[string]{Event: "b", Seq: 1, Due: now})
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "bc" {
		t.Fatalf("after the second failed: %q, want bc", got)
	}
}

func TestAHangingSuspectDoesNotBlockTheOthers(t *testing.T) {
	t.Parallel()
	q, now := New[string](), time.Unix(1_000_000, 0)
	q.Schedule(Item[string]{Event: "a", Due: now, Suspect: true})
	q.Schedule(Item[string]{Event: "b", Seq: 1, Due: now, Suspect: true})
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "a" {
		t.Fatalf("%q, want a", got)
	}
	later := now.Add(SuspectTime)
	if got := events(q.Take(later.Add(-1), Want{Tasks: 10, Bytes: 1 << 20}, later.Add(time.Hour), nil)); got != "" {
		t.Fatalf("%q, want none while the suspect's time lasts", got)
	}
	if got := events(q.Take(later, Want{Tasks: 10, Bytes: 1 << 20}, later.Add(time.Hour), nil)); got != "b" {
		t.Fatalf("%q, want b", got)
	}
}

func TestASuspectWaitsForItsLane(t *testing.T) {
	t.Parallel()
	q, now := New[string](), time.Unix(1_000_000, 0)
	q.Schedule(Item[string]{Event: "a", Seq: 1, Lane: "l", Due: now})
	q.Schedule(Item[string]{Event: "b", Seq: 2, Lane: "l", Due: now, Suspect: true})
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "a" {
		t.Fatalf("%q, want a", got)
	}
	q.Remove(1, 0)
	if got := events(q.Take(now, Want{Tasks: 10, Bytes: 1 << 20}, now.Add(time.Hour), nil)); got != "b" {
		t.Fatalf("%q, want b", got)
	}
}
