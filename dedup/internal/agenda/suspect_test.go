package agenda

import (
	"testing"
	"time"
)

// names returns the events of the items.
func names(items []Item[string]) string {
	var out string
	for _, it := range items {
		out += it.Event
	}
	return out
}

func TestOneSuspectRunsAtATime(t *testing.T) {
	t.Parallel()
	a, now := New[string](), time.Unix(1_000_000, 0)
	for i, name := range []string{"a", "b", "c"} {
		a.Put(Item[string]{Event: name, Seq: uint64(i), Due: now, Suspect: true})
	}
	a.Put(Item[string]{Event: "x", Seq: 9, Due: now})
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "ax" {
		t.Fatalf("first %q, want one suspect and the others: ax", got)
	}
	if at, ok := a.NextDue(); !ok || !at.Equal(now.Add(suspectTime)) {
		t.Fatalf("next due %v %v, want the end of the suspect's time", at, ok)
	}
	a.Drop(0, 0)
	if at, ok := a.NextDue(); !ok || !at.Equal(now) {
		t.Fatalf("next due %v %v, want now: no suspect runs", at, ok)
	}
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "b" {
		t.Fatalf("after the first has its outcome: %q, want b", got)
	}
	// b fails by itself: it is no suspect any more, and c may run beside it.
	a.Put(Item[string]{Event: "b", Seq: 1, Due: now})
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "bc" {
		t.Fatalf("after the second failed: %q, want bc", got)
	}
}

func TestASuspectThatHangsDoesNotKeepTheOthersForEver(t *testing.T) {
	t.Parallel()
	a, now := New[string](), time.Unix(1_000_000, 0)
	a.Put(Item[string]{Event: "a", Due: now, Suspect: true})
	a.Put(Item[string]{Event: "b", Seq: 1, Due: now, Suspect: true})
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "a" {
		t.Fatalf("%q, want a", got)
	}
	later := now.Add(suspectTime)
	if got := names(a.Next(later.Add(-1), 10, 1<<20, later.Add(time.Hour))); got != "" {
		t.Fatalf("%q, want none while the suspect's time lasts", got)
	}
	if got := names(a.Next(later, 10, 1<<20, later.Add(time.Hour))); got != "b" {
		t.Fatalf("%q, want b", got)
	}
}

func TestASuspectWaitsForItsLane(t *testing.T) {
	t.Parallel()
	a, now := New[string](), time.Unix(1_000_000, 0)
	a.Put(Item[string]{Event: "a", Seq: 1, Lane: "l", Due: now})
	a.Put(Item[string]{Event: "b", Seq: 2, Lane: "l", Due: now, Suspect: true})
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "a" {
		t.Fatalf("%q, want a", got)
	}
	a.Drop(1, 0)
	if got := names(a.Next(now, 10, 1<<20, now.Add(time.Hour))); got != "b" {
		t.Fatalf("%q, want b", got)
	}
}
