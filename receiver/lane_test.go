package receiver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// laneLog records the order of events by lane, and whether two of a lane ever ran at once.
type laneLog struct {
	mu      sync.Mutex
	order   map[string][]string // attempts by lane
	running map[string]int
	most    int // lanes at once
	beside  []string
}

func newLaneLog() *laneLog { return &laneLog{order: map[string][]string{}, running: map[string]int{}} }

// laneEvent is the payload of the lane tests.
type laneEvent struct {
	Lane string
	N    int
}

// run returns a handler; verdict decides the outcome of the attempt.
func (l *laneLog) run(verdict func(ev Event[laneEvent]) error) func(context.Context, Event[laneEvent]) error {
	return func(_ context.Context, ev Event[laneEvent]) error {
		l.mu.Lock()
		l.order[ev.Data.Lane] = append(l.order[ev.Data.Lane], fmt.Sprint(ev.Data.N))
		l.running[ev.Data.Lane]++
		if l.running[ev.Data.Lane] > 1 {
			l.beside = append(l.beside, ev.ID)
		}
		l.most = max(l.most, len(l.running))
		l.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		err := verdict(ev)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[ev.Data.Lane]--; l.running[ev.Data.Lane] == 0 {
			delete(l.running, ev.Data.Lane)
		}
		return err
	}
}

func (l *laneLog) of(lane string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.order[lane], " ")
}

// lasting is a receiver that can be opened again over its store, in a bubble.
type lasting struct {
	t     *testing.T
	store *memstore.Store
	rx    *Receiver
}

func newLasting(t *testing.T) *lasting {
	d := &lasting{t: t, store: memstore.New(memstore.Options{})}
	t.Cleanup(func() {
		if err := d.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *lasting) open(h Handler) {
	d.t.Helper()
	var err error
	d.rx, err = Open(Config{
		Store: d.store, Producers: []producer.Producer{webhookProducer()}, Handlers: []Handler{h}, Workers: 8,
		Logger: slog.New(slog.DiscardHandler), BackoffBase: 20 * time.Millisecond, BackoffCap: 20 * time.Millisecond,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *lasting) close() {
	d.t.Helper()
	if err := d.rx.Shutdown(context.Background()); err != nil {
		d.t.Error(err)
	}
}

// accept delivers an event.
func (d *lasting) accept(lane string, n int) {
	d.t.Helper()
	s := &site{t: d.t, rx: d.rx, p: webhookProducer()}
	body := fmt.Sprintf(`{"lane":%q,"n":%d}`, lane, n)
	if g := s.send(req{id: fmt.Sprint(lane, n), body: body, header: http.Header{"Type": {"t"}}}); g.status != 200 ||
		g.replayed() {
		d.t.Fatalf("%s %d: %+v", lane, n, g)
	}
}

// wantDone checks that all tasks are done.
func (d *lasting) wantDone(want int) {
	d.t.Helper()
	done := 0
	for rec, err := range d.store.List(d.t.Context(), dedup.Filter{}) {
		if err != nil || rec.State() != dedup.Done {
			d.t.Errorf("%+v, %v", rec, err)
		}
		done += len(rec.Tasks)
	}
	if done != want {
		d.t.Errorf("%d tasks are done, want %d", done, want)
	}
}

const lanes, perLane = 4, 6

// wantInOrder checks that a lane ran every event in accepted order, each as often as it was
// started.
func wantInOrder(t *testing.T, l *laneLog) {
	t.Helper()
	for lane := range lanes {
		var seen []string
		name := fmt.Sprint("lane", lane)
		for n := range strings.FieldsSeq(l.of(name)) {
			if len(seen) == 0 || seen[len(seen)-1] != n {
				seen = append(seen, n)
			}
		}
		if got := strings.Join(seen, " "); got != "0 1 2 3 4 5" {
			t.Errorf("%s ran %q", name, l.of(name))
		}
	}
	if len(l.beside) > 0 {
		t.Errorf("ran concurrently with another of their lane: %v", l.beside)
	}
}

func TestLanesKeepTheirOrderOverARestart(t *testing.T) {
	t.Parallel()
	bubble(t, lanesKeepTheirOrderOverARestart)
}

func lanesKeepTheirOrderOverARestart(t *testing.T) {
	d := newLasting(t)
	first, second := newLaneLog(), newLaneLog()
	named := func(l *laneLog, verdict func(ev Event[laneEvent]) error) Handler {
		return On("shop", "*", l.run(verdict)).Lane(producer.JSON("lane")).Named("laned")
	}
	// In all lanes but the first, the third event fails until the restart, and holds up only its
	// own lane.
	d.open(named(first, func(ev Event[laneEvent]) error {
		if ev.Data.Lane != "lane0" && ev.Data.N == 2 {
			return Postpone(30*time.Millisecond, errBoom)
		}
		return nil
	}))
	for n := range perLane {
		for lane := range lanes {
			d.accept(fmt.Sprint("lane", lane), n)
		}
	}
	time.Sleep(time.Minute)
	if lane0, lane3 := first.of("lane0"), first.of("lane3"); lane0 != "0 1 2 3 4 5" ||
		!strings.HasPrefix(lane3, "0 1 2 2") {
		t.Errorf("a lane ran %q, and one with a failing head %q", lane0, lane3)
	}
	d.close()
	for lane := 1; lane < lanes; lane++ {
		if ran := first.of(fmt.Sprint("lane", lane)); strings.ContainsAny(ran, "345") {
			t.Errorf("lane %d was not held up by its head: %q", lane, ran)
		}
	}
	d.open(named(second, func(Event[laneEvent]) error { return nil }))
	defer d.close()
	time.Sleep(time.Minute)
	d.wantDone(lanes * perLane)
	for lane := range lanes {
		name := fmt.Sprint("lane", lane)
		first.order[name] = append(first.order[name], second.order[name]...)
	}
	wantInOrder(t, first)
	if len(second.beside) > 0 {
		t.Errorf("after the restart, ran concurrently with another of their lane: %v", second.beside)
	}
	if first.most < 2 {
		t.Error("lanes did not run concurrently")
	}
}

func TestFailingTaskOfAYieldingLaneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	bubble(t, failingTaskOfAYieldingLaneHoldsUpNoOther)
}

func failingTaskOfAYieldingLaneHoldsUpNoOther(t *testing.T) {
	d := newLasting(t)
	l := newLaneLog()
	d.open(On("shop", "*", l.run(func(ev Event[laneEvent]) error {
		if ev.Data.N == 0 && ev.Attempt < 3 {
			return Postpone(200*time.Millisecond, errBoom)
		}
		return nil
	})).Lane(producer.JSON("lane")).LaneYields())
	defer d.close()
	for n := range perLane {
		d.accept("lane0", n)
	}
	time.Sleep(time.Minute)
	d.wantDone(perLane)
	ran := strings.Fields(l.of("lane0"))
	if len(ran) != perLane+2 || ran[len(ran)-1] != "0" {
		t.Errorf("%v: the others were held up, or the retries did not run", ran)
	}
	if others := slices.DeleteFunc(slices.Clone(ran),
		func(n string) bool { return n == "0" }); !slices.IsSorted(others) {
		t.Errorf("%v: the others lost their order", ran)
	}
	if len(l.beside) > 0 {
		t.Errorf("ran concurrently with another of their lane: %v", l.beside)
	}
}

func TestYieldingNeedsALane(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{})
	defer func() { _ = s.Close() }()
	_, err := Open(Config{Store: s, URL: "https://hooks.example", Producers: []producer.Producer{apiProducer()},
		Handlers: []Handler{mustNotRun(t).LaneYields()}})
	if err == nil || !strings.Contains(err.Error(), "without a lane") {
		t.Error(err)
	}
}
