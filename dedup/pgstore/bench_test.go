//go:build unix

package pgstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// BenchmarkClaims makes claims of 1 KiB with one task and one alias from many goroutines: in
// batches, and one by one. server-us/op is the processor time of the server, client-us/op that of
// this process, and wal-B/op what the server writes to its log. TMPDIR puts the server on a disk,
// where a flush costs something.
func BenchmarkClaims(b *testing.B) {
	for _, clients := range []int{64, 256} {
		for name, batch := range map[string]int{"batches": maxBatch, "one": 1} {
			b.Run(fmt.Sprint(name, "-", clients), func(b *testing.B) {
				s := benchStore(b, batch)
				measure(b, s, clients)
				b.ReportMetric(float64(b.N)/float64(s.commits.Load()), "claims/batch")
			})
		}
	}
}

// benchStore opens a store on tables of its own, which are dropped: the server would vacuum them
// beside the next benchmark.
func benchStore(b *testing.B, batch int) *Store {
	b.Helper()
	dsn, schema := freshSchema(b)
	s, err := Open(b.Context(), dsn, Options{Schema: schema, batch: batch})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		execute(b, dsn, schema, "DROP SCHEMA {{schema}} CASCADE")
	})
	return s
}

var claimed atomic.Int64

func benchClaim() dedup.Claim {
	id := strconv.FormatInt(claimed.Add(1), 10)
	key := dedup.Key{Principal: "shop", Endpoint: "orders", ID: id}
	alias := key
	alias.Space = dedup.SpaceNonce
	return dedup.Claim{
		Key: key, Aliases: []dedup.Key{alias}, Fingerprint: dedup.Fingerprint{1},
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid", Method: "POST", Target: "/webhooks/orders",
			Header: map[string][]string{"Content-Type": {"application/json"}}, Body: make([]byte, 1024),
		},
		Response: dedup.Response{Status: 202}, Tasks: []dedup.NewTask{{Handler: "ship"}},
	}
}

func (s *Store) accept(ctx context.Context) error {
	ds, err := s.Claim(ctx, benchClaim())
	if err == nil && ds[0].Verdict != dedup.New {
		err = fmt.Errorf("verdict %v", ds[0].Verdict)
	}
	return err
}

// measure makes b.N claims from clients, and reports processor times and how much the server wrote
// ahead.
func measure(b *testing.B, s *Store, clients int) {
	b.Helper()
	server, client, wal := serverTime(b), clientTime(), written(b, s)
	var next atomic.Int64
	done := make(chan error, clients)
	b.ResetTimer()
	for range clients {
		go func() {
			for next.Add(1) <= int64(b.N) {
				if err := s.accept(b.Context()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64((serverTime(b)-server).Microseconds())/float64(b.N), "server-us/op")
	b.ReportMetric(float64((clientTime()-client).Microseconds())/float64(b.N), "client-us/op")
	b.ReportMetric((written(b, s)-wal)/float64(b.N), "wal-B/op")
}

// written returns the length of the write-ahead log in bytes.
func written(b *testing.B, s *Store) (bytes float64) {
	b.Helper()
	const length = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"
	scan(b, s, length, nil, &bytes)
	return bytes
}

func clientTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverTime returns the processor time of the server and its children, living and gone.
func serverTime(b *testing.B) time.Duration {
	b.Helper()
	var ticks int64
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		_, rest, _ := strings.Cut(string(text), ") ") // see proc(5)
		fields := strings.Fields(rest)
		pid := filepath.Base(filepath.Dir(file))
		server := strconv.Itoa(pgtest.PID())
		for i, field := range fields[11:15] {
			if n, _ := strconv.ParseInt(field, 10, 64); pid == server || fields[1] == server && i < 2 {
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
