package taskqueue

import (
	"cmp"
	"fmt"
	"maps"
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

func TestTakeEndsAtATaskThatDoesNotFit(t *testing.T) {
	t.Parallel()
	q := New[string]()
	for i, name := range []string{"a", "b", "c", "d"} {
		q.Schedule(item(name, uint64(i), "", 0))
	}
	var asked string
	fits := func(it Item[string]) bool {
		asked += it.Event
		return it.Event == "b"
	}
	for _, want := range []string{"ab", "c", "d", ""} {
		if got := events(q.Take(at(0), Want{Tasks: 9, Bytes: 1000}, at(60), fits)); got != want {
			t.Errorf("took %q, want %q", got, want)
		}
	}
	if asked != "bcd" {
		t.Errorf("asked for %q, want bcd", asked)
	}
}

func TestATaskUsesTheMemoryOfARemovedOne(t *testing.T) {
	q := New[string]()
	q.Schedule(item("a", 1, "", 0)) // its event stays in the queue
	n := testing.AllocsPerRun(1000, func() {
		q.Schedule(item("b", 2, "", 0))
		q.Remove(2, 0)
	})
	if n > 0 || events(q.Take(at(0), Want{Tasks: 9, Bytes: 1000}, at(60), nil)) != "a" {
		t.Errorf("%v allocations", n)
	}
}

func TestWithoutBytesOneTaskIsTaken(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{0, -1, math.MinInt64, math.MinInt64 + 5} {
		q := New[string]()
		for i := range uint64(3) {
			q.Schedule(item(fmt.Sprint(i), i, "", 0))
		}
		if got := events(q.Take(at(0), Want{Tasks: 9, Bytes: bytes}, at(60), nil)); got != "0" {
			t.Errorf("%d bytes: %q", bytes, got)
		}
	}
}

func TestCallsAboutUnknownOrWaitingTasksDoNothing(t *testing.T) {
	t.Parallel()
	q := New[string]()
	q.Remove(7, 0)
	q.Extend(7, 0, at(9))
	q.Schedule(item("a", 1, "l", 3))
	q.Extend(1, 0, at(9))
	if next, ok := q.NextDue(at(0), Want{}); !ok || !next.Equal(at(3)) {
		t.Errorf("next due %v, %t, want the task that waits", next, ok)
	}
	q.Remove(1, 1)
	q.Remove(1, 0)
	if next, ok := q.NextDue(at(0), Want{}); ok {
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
	named []string // the handlers that a Want has named

	suspect *task // the one that runs
	until   time.Time
}

type task struct {
	Item[string]
	running bool // also after the end of its lease
}

// lapsed reports whether the lease of a task has ended.
func (n *naive) lapsed(t *task) bool { return t.running && !t.Due.After(n.now) }

// lapse makes suspects of the tasks whose leases have ended.
func (n *naive) lapse() {
	for _, t := range n.tasks {
		if n.lapsed(t) {
			t.Suspect = true
			n.ends(t)
		}
	}
}

// ends notes that a task does not run, as far as suspects are concerned.
func (n *naive) ends(t *task) {
	if n.suspect == t {
		n.suspect = nil
	}
}

// may reports whether the task may be taken once it is due.
func (n *naive) may(t *task) bool {
	if t.running && !n.lapsed(t) {
		return false
	}
	for _, o := range n.tasks {
		if o != t && t.Lane != "" && o.Lane == t.Lane && (o.running || !t.running && first(&o.Item, &t.Item)) {
			return t.running
		}
	}
	return true
}

// first reports whether a waiting task of a lane goes before another one.
func first(a, b *Item[string]) bool {
	if a.Yields && !a.Due.Equal(b.Due) {
		return a.Due.Before(b.Due)
	}
	return a.Seq < b.Seq
}

// from returns when a caller may take the task.
func (n *naive) from(t *task, w Want) time.Time {
	from := t.Due
	if most, limited := w.Most[t.Handler]; limited && most == 0 {
		return time.Time{}
	}
	if w.Handlers != nil && !slices.Contains(w.Handlers, t.Handler) {
		if from = later(from, w.Orphans); slices.Contains(n.named, t.Handler) {
			return time.Time{}
		}
	}
	if t.Suspect && n.suspect != nil {
		from = later(from, earlier(n.until, n.suspect.Due))
	}
	return from
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// next returns the task that a caller may take now, or nil.
func (n *naive) next(w Want) *task {
	var best *task
	for _, t := range n.tasks {
		if from := n.from(t, w); !n.may(t) || from.IsZero() || from.After(n.now) {
			continue
		}
		if best == nil || cmp.Or(t.Due.Compare(best.Due), cmp.Compare(t.Seq, best.Seq)) < 0 {
			best = t
		}
	}
	return best
}

// nextDue returns when a caller has something to do, or zero. The end of any lease counts.
func (n *naive) nextDue(w Want) (first time.Time) {
	for _, t := range n.tasks {
		from := n.from(t, w)
		if t.running && !n.lapsed(t) {
			from = t.Due
		} else if !n.may(t) {
			continue
		}
		if !from.IsZero() && (first.IsZero() || from.Before(first)) {
			first = from
		}
	}
	return first
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
	seq := rapid.Uint64Range(1, 9).Draw(t, "seq")
	lane := rapid.SampledFrom([]string{"", "l", "l", "m", "y", "y", "y"}).Draw(t, "lane")
	it := item(fmt.Sprint("e", seq), seq, lane, 0)
	it.Due = p.naive.now.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "due")) * time.Second)
	it.Bytes = int64(rapid.IntRange(0, 20).Draw(t, "bytes"))
	it.Suspect = rapid.IntRange(0, 3).Draw(t, "suspect") == 0
	it.Yields, it.Handler = it.Lane == "y", "h"+it.Lane // a lane has one handler
	if it.Lane == "" {
		it.Handler = rapid.SampledFrom([]string{"h", "i", "j"}).Draw(t, "handler")
	}
	old := p.naive.find(it.Seq)
	if old == nil {
		p.naive.tasks = append(p.naive.tasks, &task{Item: it})
	} else {
		// A task never changes these.
		it.Lane, it.Yields, it.Handler, it.Bytes = old.Lane, old.Yields, old.Handler, old.Bytes
		old.Due, old.Suspect, old.running = it.Due, it.Suspect, false
		p.naive.ends(old)
	}
	p.queue.Schedule(it)
}

func (p *pair) drop(t *rapid.T) {
	seq := rapid.Uint64Range(1, 9).Draw(t, "seq")
	if known := p.naive.find(seq); known != nil {
		p.naive.ends(known)
	}
	p.naive.tasks = slices.DeleteFunc(p.naive.tasks, func(t *task) bool { return t.Seq == seq })
	p.queue.Remove(seq, 0)
}

func (p *pair) extend(t *rapid.T) {
	seq := rapid.Uint64Range(1, 9).Draw(t, "seq")
	until := p.naive.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "by")) * time.Second)
	if known := p.naive.find(seq); known != nil && known.running {
		known.Due = until
	}
	if rapid.Bool().Draw(t, "spare") {
		if known := p.naive.find(seq); known != nil {
			p.naive.ends(known)
		}
		p.queue.Spare(seq, 0, until)
		return
	}
	p.queue.Extend(seq, 0, until)
}

var wants = [][]string{nil, {}, {"h"}, {"h", "hl", "hm"}, {"i", "hl", "hy"}, {"j"}}

func (p *pair) want(t *rapid.T) Want {
	w := Want{Handlers: rapid.SampledFrom(wants).Draw(t, "handlers"), Orphans: at(40)}
	w.Tasks, w.Bytes = rapid.IntRange(1, 4).Draw(t, "n"), int64(rapid.IntRange(0, 60).Draw(t, "bytes"))
	p.naive.named = append(p.naive.named, w.Handlers...)
	w.Most = map[string]int{}
	for _, name := range w.Handlers {
		if rapid.Bool().Draw(t, "limited") {
			w.Most[name] = rapid.IntRange(0, 2).Draw(t, "most")
		}
	}
	return w
}

func (p *pair) take(t *rapid.T) {
	w := p.want(t)
	until := p.naive.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "lease")) * time.Second)
	var want []Item[string]
	p.naive.lapse()
	asked := w
	w.Most = maps.Clone(w.Most)
	for left := w.Bytes; len(want) < w.Tasks; {
		next := p.naive.next(w)
		if next == nil || len(want) > 0 && left < next.Bytes {
			break
		}
		left -= next.Bytes
		if _, limited := w.Most[next.Handler]; limited {
			w.Most[next.Handler]--
		}
		want = append(want, Item[string]{Event: next.Event, Seq: next.Seq, Bytes: next.Bytes})
		next.running, next.Due = true, until
		if next.Suspect {
			p.naive.suspect, p.naive.until = next, p.naive.now.Add(SuspectTime)
		}
	}
	got := p.queue.Take(p.naive.now, asked, until, nil)
	if !slices.Equal(got, want) {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func (p *pair) nextDue(t *rapid.T) {
	w := p.want(t)
	p.naive.lapse()
	next := p.naive.nextDue(w)
	if due, ok := p.queue.NextDue(p.naive.now, w); ok != !next.IsZero() || ok && !due.Equal(next) {
		t.Fatalf("next due %v, %t; want %v", due, ok, next)
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
	got := q.Take(at(0), Want{Tasks: 9, Bytes: 1000}, at(60), nil)
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
			"put": p.put, "put again": p.put, "drop": p.drop, "extend": p.extend, "take": p.take, "next due": p.nextDue,
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
			for _, it := range q.Take(at(now), Want{Tasks: 3, Bytes: 1000}, at(now+10), nil) {
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
