package taskqueue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func item(event string, seq uint64, lane string, due int) Item[string] {
	accepted := at(int(seq)) //nolint:gosec // small
	return Item[string]{Event: event, Seq: seq, Lane: lane, Due: at(due), Accepted: accepted, Bytes: 10}
}

func events(items []Item[string]) string {
	s := ""
	for _, it := range items {
		s += it.Event
	}
	return s
}

func TestTheLongestDueComesFirstAndTiesInAcceptedOrder(t *testing.T) {
	t.Parallel()
	q := New[string]()
	for _, it := range []Item[string]{
		item("c", 3, "", 1), item("d", 4, "", 1), item("b", 2, "", 5), item("a", 1, "", 9),
	} {
		q.Schedule(it)
	}
	if got := events(q.Take(at(5), 9, 1000, at(60))); got != "cdb" {
		t.Errorf("due %q, want cdb", got)
	}
	if next, ok := q.NextDue(); !ok || !next.Equal(at(9)) {
		t.Errorf("next due %v, %t", next, ok)
	}
	if open, running := q.Len(); open != 4 || running != 3 {
		t.Errorf("open %d, running %d", open, running)
	}
	if got := events(q.Take(at(60), 9, 1000, at(90))); got != "abcd" {
		t.Errorf("due with lost leases %q, want abcd", got)
	}
}

func TestTheBytesBoundAllButTheFirst(t *testing.T) {
	t.Parallel()
	q := New[string]()
	for i := range uint64(5) {
		q.Schedule(item(fmt.Sprint(i), i, "", 0))
	}
	for _, row := range []struct {
		n     int
		bytes int64
		want  string
	}{{9, 1, "0"}, {9, 25, "12"}, {1, 1000, "3"}, {0, 1000, ""}, {9, 1000, "4"}, {9, 1000, ""}} {
		if got := events(q.Take(at(0), row.n, row.bytes, at(60))); got != row.want {
			t.Errorf("%d tasks of %d bytes: %q, want %q", row.n, row.bytes, got, row.want)
		}
	}
}

func TestWithoutBytesOneTaskIsTaken(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{0, -1, math.MinInt64, math.MinInt64 + 5} {
		q := New[string]()
		for i := range uint64(3) {
			q.Schedule(item(fmt.Sprint(i), i, "", 0))
		}
		if got := events(q.Take(at(0), 9, bytes, at(60))); got != "0" {
			t.Errorf("%d bytes: %q", bytes, got)
		}
	}
}

func TestARunningTaskIsTheFirstOfItsLane(t *testing.T) {
	t.Parallel()
	q := New[string]()
	q.Schedule(item("c", 3, "l", 0))
	if got := events(q.Take(at(0), 9, 1000, at(60))); got != "c" {
		t.Fatalf("%q runs, want c", got)
	}
	q.Schedule(item("a", 1, "l", 0)) // reopened, as is b
	q.Schedule(item("b", 2, "l", 0))
	if got := q.Take(at(0), 9, 1000, at(90)); len(got) != 0 {
		t.Errorf("%q runs beside c", events(got))
	}
	q.Schedule(item("z", 0, "l", 0)) // reopened
	q.Remove(3, 0)
	for seq, want := range []string{"z", "a", "b", ""} {
		if got := events(q.Take(at(0), 9, 1000, at(90))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		q.Remove(uint64(seq), 0)
	}
}

func TestCallsAboutUnknownOrWaitingTasksDoNothing(t *testing.T) {
	t.Parallel()
	q := New[string]()
	q.Remove(7, 0)
	q.Extend(7, 0, at(9))
	q.Schedule(item("a", 1, "l", 3))
	q.Extend(1, 0, at(9))
	if next, ok := q.NextDue(); !ok || !next.Equal(at(3)) {
		t.Errorf("next due %v, %t, want the task that waits", next, ok)
	}
	q.Remove(1, 1)
	q.Remove(1, 0)
	if next, ok := q.NextDue(); ok {
		t.Errorf("next due %v of an empty queue", next)
	}
	if open, running := q.Len(); open != 0 || running != 0 || len(q.lanes) != 0 {
		t.Errorf("open %d, running %d, lanes %d", open, running, len(q.lanes))
	}
}

// naive is the same queue as a list that is searched from end to end.
type naive struct {
	now   time.Time
	tasks []*task
}

type task struct {
	Item[string]
	running bool
}

// may reports whether the task may be taken once it is due.
func (n *naive) may(t *task) bool {
	for _, o := range n.tasks {
		if o != t && t.Lane != "" && o.Lane == t.Lane && (o.running || !t.running && o.Seq < t.Seq) {
			return t.running
		}
	}
	return true
}

// next returns the task that is due next, or nil.
func (n *naive) next() *task {
	var best *task
	for _, t := range n.tasks {
		if n.may(t) && (best == nil || cmp.Or(t.Due.Compare(best.Due), cmp.Compare(t.Seq, best.Seq)) < 0) {
			best = t
		}
	}
	return best
}

func (n *naive) find(seq uint64) *task {
	for _, t := range n.tasks {
		if t.Seq == seq {
			return t
		}
	}
	return nil
}

// pair drives the queue and the naive one in parallel.
type pair struct {
	queue *Queue[string]
	naive naive
}

func (p *pair) put(t *rapid.T) {
	seq := rapid.Uint64Range(1, 30).Draw(t, "seq")
	it := item(fmt.Sprint("e", seq), seq, rapid.SampledFrom([]string{"", "l", "l", "m"}).Draw(t, "lane"), 0)
	it.Due = p.naive.now.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "due")) * time.Second)
	it.Bytes = int64(rapid.IntRange(0, 20).Draw(t, "bytes"))
	old := p.naive.find(it.Seq)
	if old == nil {
		p.naive.tasks = append(p.naive.tasks, &task{Item: it})
	} else {
		it.Lane, it.Bytes = old.Lane, old.Bytes // a task never changes them
		old.Due, old.running = it.Due, false
	}
	p.queue.Schedule(it)
}

func (p *pair) drop(t *rapid.T) {
	seq := rapid.Uint64Range(1, 30).Draw(t, "seq")
	p.naive.tasks = slices.DeleteFunc(p.naive.tasks, func(t *task) bool { return t.Seq == seq })
	p.queue.Remove(seq, 0)
}

func (p *pair) extend(t *rapid.T) {
	seq := rapid.Uint64Range(1, 30).Draw(t, "seq")
	until := p.naive.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "by")) * time.Second)
	if known := p.naive.find(seq); known != nil && known.running {
		known.Due = until
	}
	p.queue.Extend(seq, 0, until)
}

func (p *pair) take(t *rapid.T) {
	n, bytes := rapid.IntRange(1, 4).Draw(t, "n"), int64(rapid.IntRange(0, 60).Draw(t, "bytes"))
	until := p.naive.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "lease")) * time.Second)
	var want []Item[string]
	for left := bytes; len(want) < n; {
		next := p.naive.next()
		if next == nil || next.Due.After(p.naive.now) || len(want) > 0 && left < next.Bytes {
			break
		}
		left -= next.Bytes
		want = append(want, Item[string]{Event: next.Event, Seq: next.Seq, Bytes: next.Bytes})
		next.running, next.Due = true, until
	}
	got := p.queue.Take(p.naive.now, n, bytes, until)
	if !slices.Equal(got, want) {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func (p *pair) check(t *rapid.T) {
	running := 0
	lanes := map[string]int{}
	for _, known := range p.naive.tasks {
		if known.running {
			running++
			lanes[known.Lane]++
		}
	}
	for lane, n := range lanes {
		if lane != "" && n > 1 {
			t.Fatalf("%d tasks of lane %s run at once", n, lane)
		}
	}
	if open, r := p.queue.Len(); open != len(p.naive.tasks) || r != running {
		t.Fatalf("open %d, running %d; want %d, %d", open, r, len(p.naive.tasks), running)
	}
	var oldest time.Time
	for _, known := range p.naive.tasks {
		if oldest.IsZero() || known.Accepted.Before(oldest) {
			oldest = known.Accepted
		}
	}
	if accepted, ok := p.queue.Oldest(); ok != (len(p.naive.tasks) > 0) || ok && !accepted.Equal(oldest) {
		t.Fatalf("oldest %v, %t; want %v", accepted, ok, oldest)
	}
	next := p.naive.next()
	if due, ok := p.queue.NextDue(); ok != (next != nil) || ok && !due.Equal(next.Due) {
		t.Fatalf("next due %v, %t; want %v", due, ok, next)
	}
}

func TestTheTasksOfOneEventAreSeparate(t *testing.T) {
	t.Parallel()
	q := New[string]()
	for task, due := range []int{2, 0, 1} {
		it := item("a", 1, "", due)
		it.Task = task
		q.Schedule(it)
	}
	q.Remove(1, 0)
	got := q.Take(at(0), 9, 1000, at(60))
	if open, running := q.Len(); len(got) != 1 || got[0].Task != 1 || open != 2 || running != 1 {
		t.Errorf("%v of %d open and %d running tasks", got, open, running)
	}
	q.Remove(1, 1)
	q.Remove(1, 2)
	if _, ok := q.Oldest(); ok || len(q.events) != 0 {
		t.Errorf("%d events are left", len(q.events))
	}
}

// TestFinishedEventsAreForgotten keeps one event open while many others finish.
func TestFinishedEventsAreForgotten(t *testing.T) {
	t.Parallel()
	q := New[string]()
	q.Schedule(item("old", 1, "", 0))
	for seq := uint64(2); seq < 10_000; seq++ {
		q.Schedule(item("new", seq, "", 0))
		q.Remove(seq, 0)
	}
	if q.oldest.Len() > 2*maxStale {
		t.Errorf("%d sequences are kept of one event", q.oldest.Len())
	}
	if accepted, ok := q.Oldest(); !ok || !accepted.Equal(at(1)) {
		t.Errorf("the oldest was accepted at %v, %t", accepted, ok)
	}
}

func TestTheQueueAgreesWithASearchedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := pair{queue: New[string](), naive: naive{now: start}}
		t.Repeat(map[string]func(*rapid.T){
			"put": p.put, "put again": p.put, "drop": p.drop, "extend": p.extend, "take": p.take,
			"wait": func(t *rapid.T) {
				p.naive.now = p.naive.now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
			},
			"": p.check,
		})
	})
}

func TestALaneRunsInAcceptedOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := New[string]()
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		for i := range n {
			q.Schedule(item(fmt.Sprint("e", i), uint64(i+1), "l", rapid.IntRange(0, 5).Draw(t, "due")))
		}
		now, done := 0, 0
		for done < n {
			now += rapid.IntRange(1, 40).Draw(t, "seconds")
			for _, it := range q.Take(at(now), 3, 1000, at(now+10)) {
				if want := fmt.Sprint("e", done); it.Event != want {
					t.Fatalf("%s runs, want %s", it.Event, want)
				}
				switch rapid.IntRange(0, 3).Draw(t, "outcome") {
				case 0: // its lease will expire
				case 1:
					q.Schedule(item(it.Event, it.Seq, "l", now+5))
				default:
					q.Remove(it.Seq, it.Task)
					done++
				}
			}
		}
	})
}
