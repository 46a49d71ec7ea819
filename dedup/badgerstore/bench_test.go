package badgerstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// randomBody returns bytes that do not compress.
func randomBody(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

func benchClaim(r *rand.Rand, id string) dedup.Claim {
	return dedup.Claim{
		Key:         dedup.Key{Principal: "shop", Endpoint: "orders", ID: id},
		Fingerprint: dedup.Fingerprint{1, 2, 3},
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid", Method: "POST", Target: "/webhooks/shop",
			Header: map[string][]string{"Content-Type": {"application/json"}, "User-Agent": {"shop/1.0"}},
			Body:   randomBody(r, 1024),
		},
		Response: dedup.Response{Status: 202},
		Tasks:    []dedup.NewTask{{Handler: "shop/*"}},
	}
}

// BenchmarkClaim measures durable claims with bodies of 1 KiB that do not compress, and how
// many of them share a commit and a flush. It counts the flushes of the whole device, so run it
// on a quiet one.
func BenchmarkClaim(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := open(b, b.TempDir(), quiet())
			var next atomic.Int64
			flushes := deviceFlushes(s.dir)
			commits := commitsOf(b, s)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range clients {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(c), 1))
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := s.Claim(context.Background(),
							benchClaim(r, strconv.FormatInt(n, 10))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/float64(commitsOf(b, s)-commits), "claims/commit")
			if f := deviceFlushes(s.dir) - flushes; f > 0 {
				b.ReportMetric(float64(b.N)/float64(f), "claims/flush")
			}
		})
	}
}

func commitsOf(tb testing.TB, s *Store) int64 {
	tb.Helper()
	st, err := s.Stats(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return st.Commits
}

// deviceFlushes returns how often the device under dir was flushed, 0 if unknown.
func deviceFlushes(dir string) int64 { return deviceStat(dir, 15) }

// written returns the bytes that this process has written to disks, 0 if unknown. Unlike the
// counters of the device it excludes other programs.
func written() int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

func deviceStat(dir string, field int) int64 {
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0
	}
	major, minor := deviceOf(dir)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > field+3 && f[0] == major && f[1] == minor {
			n, _ := strconv.ParseInt(f[field+3], 10, 64)
			return n
		}
	}
	return 0
}

// BenchmarkSustained drives whole events (claim, take, finish) with 64 clients for EYELET_SUSTAINED
// (a duration; it is skipped without), keeping the bodies or dropping them. It reports the rate,
// its worst five seconds, the CPU time, the bytes written and the size of the store.
func BenchmarkSustained(b *testing.B) {
	length, err := time.ParseDuration(os.Getenv("EYELET_SUSTAINED"))
	if err != nil {
		b.Skip("EYELET_SUSTAINED is not set to a duration")
	}
	for name, drop := range map[string]bool{"kept": false, "dropped": true} {
		b.Run(name, func(b *testing.B) {
			if b.N > 1 {
				b.N = 1
			}
			sustain(b, open(b, b.TempDir(), quiet()), length, drop)
		})
	}
}

func sustain(b *testing.B, s *Store, length time.Duration, drop bool) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var accepted, finished atomic.Int64
	var wg sync.WaitGroup
	for c := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 2))
			for i := 0; ctx.Err() == nil; i++ {
				claim := benchClaim(r, fmt.Sprintf("%d-%d", c, i))
				claim.DropBody = drop
				if _, err := s.Claim(ctx, claim); err == nil {
					accepted.Add(1)
				}
			}
		})
	}
	for range 8 {
		wg.Go(func() { sustainWorker(ctx, s, &finished) })
	}
	wrote, flushes, commits, cpu := written(), deviceFlushes(s.dir), commitsOf(b, s), cpuTime()
	worst, last := int64(1<<62), int64(0)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			n := accepted.Load()
			worst, last = min(worst, n-last), n
		}
	}
	wg.Wait()
	n := float64(max(1, accepted.Load()))
	b.ReportMetric(n/length.Seconds(), "events/s")
	b.ReportMetric(float64(worst)/5, "worst-events/s")
	b.ReportMetric(float64(finished.Load())/n, "finished/event")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/n, "cpu-us/event")
	b.ReportMetric(float64(written()-wrote)/n, "B-written/event")
	b.ReportMetric(n/float64(max(1, commitsOf(b, s)-commits)), "events/commit")
	b.ReportMetric(n/float64(max(1, deviceFlushes(s.dir)-flushes)), "events/flush")
	b.ReportMetric(float64(dirSize(s.dir))/(1<<20), "disk-MiB")
}

func sustainWorker(ctx context.Context, s *Store, finished *atomic.Int64) {
	for {
		work, err := s.Take(ctx, dedup.Want{Tasks: 32, Bytes: 1 << 20, Lease: time.Minute})
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		for _, w := range work {
			wg.Go(func() {
				if err := s.Finish(ctx, w.Lease, dedup.Result{Kind: dedup.ResultDone}); err == nil {
					finished.Add(1)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					panic(err)
				}
			})
		}
		wg.Wait()
	}
}

// dirSize returns the disk usage of the files in dir, in bytes.
func dirSize(dir string) (n int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += storedir.Allocated(info)
		}
	}
	return n
}
