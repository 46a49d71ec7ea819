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

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// BenchmarkClaims makes claims of 1 KiB with one task and one alias from many goroutines: in
// batches, one by one, as the three INSERTs of event, alias and task in a transaction that a
// program without a store would write, and as one statement that does all three. Compare the lines
// of one run. server-us/op is the processor time of the server, client-us/op that of this process,
// wal-B/op what the server writes to its log, and rss-MiB the most memory that this process had so
// far. TMPDIR puts the server on a disk, where a flush costs something.
func BenchmarkClaims(b *testing.B) {
	for _, clients := range []int{64, 256} {
		for _, way := range []struct {
			name  string
			batch int
		}{{"batches", maxBatch}, {"one", 1}, {"transaction", 0}, {"statement", 0}} {
			b.Run(fmt.Sprint(way.name, "-", clients), func(b *testing.B) {
				s := benchStore(b, max(way.batch, 1))
				call := s.accept
				switch way.name {
				case "transaction":
					call = s.insertInTransaction
				case "statement":
					call = s.insertInStatement
				}
				measure(b, s, clients, call, nothing)
				if n := s.commits.Load(); way.batch > 0 {
					b.ReportMetric(float64(b.N)/float64(n), "claims/batch")
				}
			})
		}
	}
}

// BenchmarkKinds makes claims that look further than at their key: of content that may occur
// several times, of the same key again, and into lanes.
func BenchmarkKinds(b *testing.B) {
	again := benchClaim()
	for _, kind := range []struct {
		name   string
		change func(*dedup.Claim)
	}{
		{"plain", func(*dedup.Claim) {}},
		{"lane", func(c *dedup.Claim) { c.Tasks[0].Lane = c.Key.ID[len(c.Key.ID)-2:] }},
		{"occurrence", func(c *dedup.Claim) { *c = occurs(*c, c.Key.ID, 3) }},
		{"duplicate", func(c *dedup.Claim) { *c = again }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := benchStore(b, maxBatch)
			measure(b, s, 64, func(ctx context.Context) error {
				c := benchClaim()
				kind.change(&c)
				_, err := s.Claim(ctx, c)
				return err
			}, nothing)
		})
	}
}

// BenchmarkLives claims, takes and finishes.
func BenchmarkLives(b *testing.B) {
	for _, clients := range []int{4, 64} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) { wholeLives(b, clients) })
	}
}

func wholeLives(b *testing.B, clients int) {
	b.Helper()
	s := benchStore(b, maxBatch)
	ctx, cancel := context.WithCancel(b.Context())
	var left atomic.Int64
	finished := make(chan struct{})
	works := make(chan dedup.Work, 256)
	go func() {
		defer close(works)
		for {
			got, err := s.Take(ctx, dedup.Want{Tasks: 64, Bytes: 1 << 20, Lease: time.Minute})
			if err != nil {
				return
			}
			for _, w := range got {
				works <- w
			}
		}
	}()
	for range 64 {
		go func() {
			for w := range works {
				if err := s.Finish(context.WithoutCancel(ctx), w.Lease, done); err != nil {
					b.Error(err)
				}
				if left.Add(-1) == 0 {
					close(finished)
				}
			}
		}()
	}
	left.Store(int64(b.N))
	measure(b, s, clients, s.accept, func() { <-finished })
	b.ReportMetric(float64(s.commits.Load())/float64(b.N), "commits/op")
	cancel()
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

const (
	insertEvent = `INSERT INTO {{schema}}.event (seq, hash, current, generation, accepted, win, tasks,
  hold, drop_body, newest, producer, endpoint, type, key, about, size, body)
  VALUES (nextval('{{schema}}.seq'), $1, true, 1, now(), 1, 1, false, false, false, $2, $3, $4, $5, $6, 1024, $7)
  RETURNING seq`
	insertTask = `INSERT INTO {{schema}}.task (seq, idx, state, hold, drops, attempt, postponed, size, token, win, due, handler,
  lanename, reason, err) SELECT seq, 0, 1, false, false, 0, 0, 1024, 0, 1, now(), 'ship', '', '', '' FROM `
)

// handRow returns the columns of an event for insertEvent, and the hash of its alias.
func handRow() (event []any, alias []byte) {
	c := benchClaim()
	h, a := c.Key.Hash(), c.Aliases[0].Hash()
	r := dedup.Accept(dedup.Record{}, c, "", 0, 0, time.Now())
	p := c.Payload
	return []any{h[:], p.Producer, p.Endpoint, p.Type, c.Key.ID, packAbout(&r), p.Body}, a[:]
}

// insertInStatement stores the rows of a claim with one statement.
func (s *Store) insertInStatement(ctx context.Context) error {
	event, alias := handRow()
	_, err := s.db.pool.Exec(ctx, s.db.sql(`WITH e AS (`+insertEvent+`),
a AS (INSERT INTO {{schema}}.alias SELECT $8, seq FROM e)
`+insertTask+`e`), append(event, alias)...)
	return err
}

// insertInTransaction stores the rows of a claim with one statement each.
func (s *Store) insertInTransaction(ctx context.Context) error {
	event, alias := handRow()
	return pgx.BeginFunc(ctx, s.db.pool, func(tx pgx.Tx) error {
		var seq int64
		if err := tx.QueryRow(ctx, s.db.sql(insertEvent), event...).Scan(&seq); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.db.sql(`INSERT INTO {{schema}}.alias VALUES ($1, $2)`), alias, seq); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.db.sql(insertTask+`(SELECT $1::int8 AS seq) AS e`), seq)
		return err
	})
}

// measure runs b.N calls from clients, then what is left, and reports processor times and how much
// the server wrote ahead.
func measure(b *testing.B, s *Store, clients int, call func(context.Context) error, left func()) {
	b.Helper()
	server, client, wal := serverTime(b), clientTime(), written(b, s)
	var next atomic.Int64
	done := make(chan error, clients)
	b.ResetTimer()
	for range clients {
		go func() {
			for next.Add(1) <= int64(b.N) {
				if err := call(b.Context()); err != nil {
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
	left()
	b.StopTimer()
	b.ReportMetric(float64((serverTime(b)-server).Microseconds())/float64(b.N), "server-us/op")
	b.ReportMetric(float64((clientTime()-client).Microseconds())/float64(b.N), "client-us/op")
	b.ReportMetric((written(b, s)-wal)/float64(b.N), "wal-B/op")
	b.ReportMetric(resident(), "rss-MiB")
}

// nothing is left to do.
func nothing() {}

// written returns the length of the write-ahead log in bytes.
func written(b *testing.B, s *Store) (bytes float64) {
	b.Helper()
	const length = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"
	if err := s.db.pool.QueryRow(context.Background(), length).Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}

// resident returns the most memory that this process had, in MiB.
func resident() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Maxrss) / 1024 // of Linux, in KiB
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
