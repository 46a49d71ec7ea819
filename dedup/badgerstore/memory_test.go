package badgerstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// TestTheMemoryOfAWaitingEvent measures the live heap of a store opened with a backlog,
// compared with an empty one. The backlog has 40,000 events, or EYELET_BACKLOG_EVENTS. It runs
// alone, because the heap is that of the process.
func TestTheMemoryOfAWaitingEvent(t *testing.T) { //nolint:paralleltest // see above
	faultdisk.NeedLong(t)
	events := 40_000
	o := roomy()
	o.rowBytes, o.blockCache = 1, 1<<20 // the caches have bounds of their own
	if n, err := strconv.Atoi(os.Getenv("EYELET_BACKLOG_EVENTS")); err == nil {
		events, o.blockCache = n, 0
	}
	empty, full := t.TempDir(), t.TempDir()
	shut(t, open(t, empty, o))
	fill(t, full, events)
	base, _ := heapOf(t, empty, o, 0)
	heap, took := heapOf(t, full, o, events)
	each := (heap - base) / int64(events)
	t.Logf("%d events: %d bytes of live heap each, opened in %v of processor time", events, each, took)
	if each > mostHeapPerEvent {
		t.Errorf("%d bytes of live heap for each waiting event, at most %d", each, mostHeapPerEvent)
	}
}

// mostHeapPerEvent bounds the live heap of a waiting event with one task and no lane, in bytes.
const mostHeapPerEvent = 250

// roomy returns options with files as large as by default, so that nothing is compacted.
func roomy() Options {
	o := quiet()
	o.segment, o.memTable = 0, 0
	return o
}

// fill stores waiting events with bodies of 400 bytes.
func fill(t *testing.T, dir string, events int) {
	t.Helper()
	s := open(t, dir, roomy())
	const step = 500
	for from := 0; from < events; from += step {
		claims := make([]dedup.Claim, min(step, events-from))
		for i := range claims {
			claims[i] = waitingClaim(from + i)
		}
		if _, err := s.Claim(context.Background(), claims...); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, s)
}

func waitingClaim(i int) dedup.Claim {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	body := make([]byte, 0, 400)
	for len(body) < cap(body) {
		body = append(body, sum[:16]...)
	}
	return dedup.Claim{
		Key:      dedup.Key{Principal: "shop", Endpoint: "shop", ID: fmt.Sprintf("%x", sum[:16])},
		Payload:  dedup.Payload{Producer: "shop", Endpoint: "shop", Type: "order.paid", Body: body},
		Tasks:    []dedup.NewTask{{Handler: "shop/*"}},
		Response: dedup.Response{Status: 202},
	}
}

// heapOf opens a store and returns the live heap that it adds and the CPU time of opening it.
func heapOf(t *testing.T, dir string, o Options, events int) (int64, time.Duration) {
	t.Helper()
	before, began := liveHeap(), cpuTime()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	took := cpuTime() - began
	after := liveHeap()
	onCommitter(t, s, func(c *committer) {
		if open, _ := c.tasks.Len(); open != events {
			t.Errorf("%d tasks wait, want %d", open, events)
		}
	})
	return after - before, took
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below 2^63
}

// TestAStartReadsNoEvents damages every waiting event: a start that read one would notice.
func TestAStartReadsNoEvents(t *testing.T) {
	t.Parallel()
	s := filled(t, 20, smallClaim)
	for i := range 20 {
		spoil(t, s, record.HashOf(smallClaim(i).Key).Key(record.FamilyEvent))
	}
	shut(t, s)
	again := open(t, s.dir, quiet())
	if err := again.Degraded(); err != nil {
		t.Errorf("the start has read events: %v", err)
	}
	if st, err := again.Stats(context.Background()); err != nil || st.Pending != 20 || st.Backlog == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // all are damaged, so the Take keeps waiting
		for again.Degraded() == nil && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	work, err := again.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if len(work) > 0 || again.Degraded() == nil {
		t.Errorf("%d damaged tasks were given out, %v", len(work), err)
	}
}
