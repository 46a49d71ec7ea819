package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

// TestReceiversMayDiffer runs three receivers on one database: their clocks are ten minutes apart
// from that of the database, and they have other leases, workers and versions. Each event comes to
// two of them. Some handlers run for longer than the shortest lease.
func TestReceiversMayDiffer(t *testing.T) {
	t.Parallel()
	dsn, schema := freshSchema(t)
	execute(t, dsn, schema, nextVersion(t))
	var mu sync.Mutex
	runs := map[string]map[string]int{} // by event, the receivers that ran its handler
	var all []*receivertest.Receiver
	var first *Store
	for name, set := range map[string]struct {
		clock, lease time.Duration
		workers      int
		newer        bool
	}{
		"fast": {10 * time.Minute, time.Second, 1, false},
		"slow": {-10 * time.Minute, time.Minute, 16, true},
		"true": {0, 5 * time.Second, 4, false},
	} {
		s, err := Open(t.Context(), dsn, Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		first = cmp.Or(first, s)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		if set.newer {
			newProgram(t, s)
		}
		ship := func(ctx context.Context, ev receiver.Event[[]byte]) error {
			mu.Lock()
			if runs[ev.EventID] == nil {
				runs[ev.EventID] = map[string]int{}
			}
			runs[ev.EventID][name]++
			mu.Unlock()
			if strings.Contains(string(ev.Data), "slow") {
				time.Sleep(1500 * time.Millisecond)
			}
			return ctx.Err()
		}
		all = append(all, receivertest.New(t, receiver.Config{
			Store: s, Producers: []producer.Producer{preset.GitHub("a long secret")},
			Handlers: []receiver.Handler{receiver.On("github", "push", ship)},
			Workers:  set.workers, Lease: set.lease, Clock: func() time.Time { return time.Now().Add(set.clock) },
		}))
	}
	const events = 30
	var wg sync.WaitGroup
	fresh := 0
	for i := range events {
		wg.Go(func() {
			body := fmt.Sprintf(`{"n": %d, "speed": %q}`, i, map[bool]string{true: "slow", false: "fast"}[i%5 == 0])
			r := all[0].Request("github", "push", body)
			for _, at := range []int{i % 3, (i + 1) % 3} {
				r.Body = io.NopCloser(strings.NewReader(body))
				d := all[at].Send("github", r)
				mu.Lock()
				if d.Code == "accepted" {
					fresh++
				}
				mu.Unlock()
				if d.Status != 200 {
					t.Errorf("event %d: %d %s", i, d.Status, d.Code)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool {
		st, err := first.count(t.Context())
		return err != nil || st.Pending+st.Running == 0
	})
	began := time.Now()
	for r, err := range first.List(t.Context(), dedup.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		task := r.Tasks[0]
		if task.State != dedup.Done || task.Attempt != 1 || began.Sub(r.Accepted).Abs() > 5*time.Minute {
			t.Errorf("%s, accepted %v: %+v", r.Event, r.Accepted, task)
		}
	}
	by := map[string]int{}
	for event, names := range runs {
		for name, n := range names {
			by[name] += n
		}
		if len(names) != 1 {
			t.Errorf("%s: %v", event, names)
		}
	}
	if len(runs) != events || fresh != events || by["fast"]+by["slow"]+by["true"] != events || len(by) < 2 {
		t.Errorf("%d events, %d accepted, %d were handled: %v", events, fresh, len(runs), by)
	}
}

// TestReceiversHaveDifferentHandlers runs receivers on one database that have one handler each.
// Tasks wait for a receiver with their handler, also while there is none, for an hour.
func TestReceiversHaveDifferentHandlers(t *testing.T) {
	t.Parallel()
	dsn, schema := newSchema(t)
	var later atomic.Int64 // the clock of the database
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	open := func(handler string, run func(context.Context) error) *receivertest.Receiver {
		t.Helper()
		s, err := Open(t.Context(), dsn, Options{Schema: schema, clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return receivertest.New(t, receiver.Config{
			Store: s, Producers: []producer.Producer{preset.GitHub("a long secret")}, Workers: 1,
			Handlers: []receiver.Handler{receiver.On("github", "push",
				func(ctx context.Context, _ receiver.Event[[]byte]) error { return run(ctx) }).Named(handler)},
		})
	}
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	works := func(context.Context) error { return nil }
	ship, mail, bill := open("ship", waits), open("mail", waits), open("bill", works)
	n := 0
	deliver := func(rx *receivertest.Receiver) {
		t.Helper()
		for range 3 {
			n++
			if d := rx.Deliver("github", "push", fmt.Sprintf(`{"n": %d}`, n)); d.Status != 200 {
				t.Fatalf("%d %s", d.Status, d.Body)
			}
		}
	}
	states := func() map[string]int { // of tasks, by handler, state and reason
		t.Helper()
		all := map[string]int{}
		for r, err := range bill.Store.List(t.Context(), dedup.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range r.Tasks {
				switch {
				case task.State == dedup.Dead:
					all[task.Handler+" "+task.Reason]++
				case task.Open():
					all[task.Handler+" open"]++
				default:
					all[task.Handler+" done"]++
				}
			}
		}
		return all
	}
	become := func(want map[string]int) {
		t.Helper()
		var got map[string]int
		eventually(t, func() bool {
			got = states()
			return got["bill done"] >= want["bill done"] && got["ship done"] >= want["ship done"] &&
				got["mail handler_gone"] >= want["mail handler_gone"]
		})
		if !maps.Equal(got, want) {
			t.Errorf("the tasks are %v, want %v", got, want)
		}
	}
	deliver(ship)
	deliver(mail)
	deliver(bill) // which looks at the tasks of the others
	become(map[string]int{"ship open": 3, "mail open": 3, "bill done": 3})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, rx := range []*receivertest.Receiver{ship, mail} {
		_ = rx.Shutdown(over) // in the middle of a handler
		_ = rx.Store.Close()
	}
	later.Add(int64(50 * time.Minute))
	deliver(bill)
	become(map[string]int{"ship open": 3, "mail open": 3, "bill done": 6})
	open("ship", works)
	become(map[string]int{"ship done": 3, "mail open": 3, "bill done": 6})
	later.Add(int64(11 * time.Minute))
	become(map[string]int{"ship done": 3, "mail handler_gone": 3, "bill done": 6})
}
