package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
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
