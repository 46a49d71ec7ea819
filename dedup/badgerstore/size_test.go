package badgerstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// BenchmarkSize measures the size of an event: on disk once it is finished and the store
// closed, and in memory while it waits, without the cache of payloads (Options.CacheBytes is
// almost 0). Run it with -benchtime 1x.
func BenchmarkSize(b *testing.B) {
	const events = 20000
	for _, body := range []int{0, 1024, 16 << 10} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			for b.Loop() {
				o := quiet()
				o.CacheBytes = 1
				s := open(b, b.TempDir(), o)
				before := heapInUse()
				fillStore(b, s, events, body)
				b.ReportMetric(float64(heapInUse()-before)/events, "heap-B/waiting-event")
				finishEverything(b, s, events)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(dirSize(s.dir))/events, "disk-B/event")
			}
		})
	}
}

// BenchmarkOpen measures the duration of a start per remembered event, with one processor and
// with all.
func BenchmarkOpen(b *testing.B) {
	const events = 200000
	s := open(b, b.TempDir(), quiet())
	fillStore(b, s, events, 256)
	finishEverything(b, s, events)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	all := runtime.GOMAXPROCS(0)
	for _, processors := range []int{1, all} {
		b.Run(fmt.Sprintf("processors=%d", processors), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			for b.Loop() {
				again, err := Open(s.dir, quiet())
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := again.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/events, "us/event")
		})
	}
}

func fillStore(b *testing.B, s *Store, events, body int) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var claims []dedup.Claim
	for i := range events {
		c := benchClaim(random, fmt.Sprint("evt_", i))
		c.Payload.Body = randomBody(random, body)
		if claims = append(claims, c); len(claims) == 100 {
			if _, err := s.Claim(context.Background(), claims...); err != nil {
				b.Fatal(err)
			}
			claims = claims[:0]
		}
	}
}

func finishEverything(b *testing.B, s *Store, events int) {
	b.Helper()
	for left := events; left > 0; {
		work, err := s.Take(context.Background(), dedup.Want{Tasks: 512, Bytes: 4 << 20, Lease: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		left -= len(work)
		finishAll(b, s, work)
	}
}

func finishAll(b *testing.B, s *Store, work []dedup.Work) {
	b.Helper()
	errs := make(chan error, len(work))
	for _, w := range work {
		go func() { errs <- s.Finish(context.Background(), w.Lease, dedup.Result{Kind: dedup.ResultDone}) }()
	}
	for range work {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
