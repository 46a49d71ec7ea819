package badgerstore

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// The environment of BenchmarkGrowth and of its children.
const (
	growthKeysEnv  = "EYELET_GROWTH_KEYS"  // finished events, 20,000 by default
	growthDirEnv   = "EYELET_GROWTH_DIR"   // of a child: its store
	growthChildEnv = "EYELET_GROWTH_CHILD" // "start" or "load"
)

// BenchmarkGrowth fills a store with finished events, each with one task, one alias and a body of
// 300 bytes, and measures what depends on their number: the cost of a claim beside a store of a
// hundredth of the size, the bytes on disk for an event beside its payload, the processor time of
// a start after a clean stop and after a kill, the memory under load, and the space that is given
// back when the windows have ended.
func BenchmarkGrowth(b *testing.B) {
	g := &growth{dir: b.TempDir(), keys: growthKeys(b)}
	b.Run("fill", g.once(g.fill))
	b.Run("disk", g.once(g.disk))
	b.Run("start", g.once(func(b *testing.B) { g.start(b, "cpu-us/event") }))
	b.Run("claim", g.once(g.claim))
	b.Run("load", g.once(g.load))
	b.Run("crash", g.once(func(b *testing.B) { g.start(b, "cpu-us/event") }))
	b.Run("space", g.once(g.space))
}

func growthKeys(b *testing.B) int {
	keys, err := strconv.Atoi(cmp.Or(os.Getenv(growthKeysEnv), "20000"))
	if err != nil {
		b.Fatal(err)
	}
	return keys
}

type growth struct {
	dir  string
	keys int
	used int64 // bytes of the filled store

	found map[string]float64 // of the present measurement, by unit
}

// once measures once, however often the benchmark is called because it is quick.
func (g *growth) once(run func(b *testing.B)) func(b *testing.B) {
	found := map[string]float64{}
	return func(b *testing.B) {
		if len(found) == 0 {
			g.found = found
			run(b)
		}
		for unit, value := range found {
			b.ReportMetric(value, unit)
		}
		b.ReportMetric(0, "ns/op")
	}
}

func (g *growth) report(value float64, unit string) { g.found[unit] = value }

// growthOptions are those of a program.
func growthOptions() Options {
	return Options{Logger: slog.New(slog.DiscardHandler), MaxBacklogRecords: -1}
}

func growthClaim(id string) dedup.Claim {
	return dedup.Claim{
		Key:         dedup.Key{Principal: "shop", Endpoint: "orders", ID: id},
		Aliases:     []dedup.Key{{Principal: "shop", Space: dedup.SpaceNonce, ID: id}},
		Fingerprint: dedup.FingerprintOf(sha256.Sum256([]byte(id))), // it does not compress
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid",
			Header: map[string][]string{"Content-Type": {"application/json"}, "User-Agent": {"shop/1.0"}},
			Body:   growthBody,
		},
		Response: dedup.Response{Status: 202},
		Tasks:    []dedup.NewTask{{Handler: "shop/*"}},
	}
}

var growthBody = []byte(strings.Repeat("0123456789abcdef", 19)[:300])

// payloadOf returns the bytes of an event that are its own: body, fields of its header, its
// identifiers and its type.
func payloadOf(c *dedup.Claim) (n int) {
	n = len(c.Payload.Body) + 2*len(c.Key.ID) + len(c.Payload.Type)
	for k, vs := range c.Payload.Header {
		n += len(k) + len(strings.Join(vs, ""))
	}
	return n
}

// growthID returns the identifier of a filled event.
func growthID(i int) string { return fmt.Sprintf("evt_%012d", i) }

func (g *growth) fill(b *testing.B) {
	cpu, began := cpuTime(), time.Now()
	for dir, keys := range map[string]int{"big": g.keys, "small": max(1000, g.keys/100)} {
		s := open(b, filepath.Join(g.dir, dir), growthOptions())
		for from := 0; from < keys; from += fillStep {
			if err := s.submit(&fillOp{newTicket(true), from, min(from+fillStep, keys)}); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	g.report(float64((cpuTime()-cpu).Microseconds())/float64(g.keys), "cpu-us/event")
	g.report(time.Since(began).Seconds(), "s")
}

// fillOp accepts events and finishes their tasks in one commit.
type fillOp struct {
	ticket
	from, to int
}

const fillStep = 2048

func (o *fillOp) apply(b *batch) error {
	for i := o.from; i < o.to; i++ {
		claim := growthClaim(growthID(i))
		c, err := prepare([]dedup.Claim{claim}, record.HashOf(claim.Key))
		if err == nil {
			err = c.apply(b)
		}
		if err != nil {
			return err
		}
		r := b.rows[record.Place{Hash: c.claims[0].hash}].edit()
		b.token++
		lease := r.rec.Start(0, b.token, b.now, time.Minute)
		if err := r.rec.Finish(nil, lease, dedup.Result{Kind: dedup.ResultDone}, b.now); err != nil {
			return err
		}
		b.putTrimmed(r)
	}
	return nil
}

// growthWork finishes a number of tasks, and without one all until ctx ends.
func growthWork(ctx context.Context, tb testing.TB, s *Store, tasks int) {
	for left := tasks; left > 0 || tasks == 0; {
		work, err := s.Take(ctx, dedup.Want{Tasks: 512, Bytes: 4 << 20, Lease: time.Minute})
		if err != nil {
			if ctx.Err() == nil {
				tb.Error(err)
			}
			return
		}
		results := make([]dedup.LeaseResult, len(work))
		for i, w := range work {
			results[i] = dedup.LeaseResult{Lease: w.Lease, Result: dedup.Result{Kind: dedup.ResultDone}}
		}
		if err := errors.Join(s.FinishMany(context.Background(), results...)...); err != nil {
			tb.Error(err)
		}
		left -= len(work)
	}
}

// disk measures the files beside the redo log, whose size is fixed, after compaction.
func (g *growth) disk(b *testing.B) {
	dir := filepath.Join(g.dir, "big")
	s := open(b, dir, growthOptions())
	_, err := s.db.Compact(context.Background(), true)
	if err := errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
	g.used = growthUsed(dir)
	c := growthClaim(growthID(0))
	g.report(float64(g.used)/float64(g.keys)-float64(payloadOf(&c)), "B/event")
	g.report(float64(dirSize(filepath.Join(dir, "index")))/float64(g.keys), "index-B/event")
	g.report(float64(dirSize(filepath.Join(dir, "values")))/float64(g.keys), "values-B/event")
}

func growthUsed(dir string) int64 {
	return dirSize(dir) + dirSize(filepath.Join(dir, "index")) + dirSize(filepath.Join(dir, "values"))
}

// start measures a start in a child.
func (g *growth) start(b *testing.B, unit string) {
	line, _ := g.child(b, "start", false)
	f := strings.Fields(line)
	if len(f) != 5 {
		b.Fatalf("the child printed %q", line)
	}
	for i, unit := range []string{unit, "wall-us/event"} {
		us, _ := strconv.ParseFloat(f[1+i], 64)
		g.report(us/float64(g.keys), unit)
	}
	g.mib(f[3:])
}

// load measures the memory of a child under load, and kills it.
func (g *growth) load(b *testing.B) {
	line, _ := g.child(b, "load", true)
	f := strings.Fields(line)
	if len(f) != 4 {
		b.Fatalf("the child printed %q", line)
	}
	n, _ := strconv.ParseFloat(f[1], 64)
	g.report(n, "events/s")
	g.mib(f[2:])
}

// mib reports the peak of the resident set, and that without files.
func (g *growth) mib(kib []string) {
	for i, unit := range []string{"peak-MiB", "anon-MiB"} {
		n, _ := strconv.ParseFloat(kib[i], 64)
		g.report(n/1024, unit)
	}
}

// child runs a child with the store, and returns the first line that it prints.
func (g *growth) child(b *testing.B, what string, kill bool) (line string, err error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "GOGC=100", growthChildEnv+"="+what, growthDirEnv+"="+filepath.Join(g.dir, "big"))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	line, err = bufio.NewReader(out).ReadString('\n')
	if kill {
		time.Sleep(time.Second)
		_ = c.Process.Kill()
	}
	if ended := c.Wait(); err == nil && !kill {
		err = ended
	}
	if err != nil {
		b.Fatal(err)
	}
	return line, nil
}

// growthMain runs a child if this process is one. It prints one line.
func growthMain() bool {
	dir, what := os.Getenv(growthDirEnv), os.Getenv(growthChildEnv)
	if dir == "" {
		return false
	}
	cpu, began := cpuTime(), time.Now()
	s, err := Open(dir, growthOptions())
	cpu, wall := cpuTime()-cpu, time.Since(began)
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	if what == "start" {
		d, err := s.Claim(context.Background(), growthClaim(growthID(0)))
		if err != nil || d[0].Verdict != dedup.Known {
			fmt.Println("error", d, err)
		}
		peak, anon := memoryOf()
		fmt.Println("start", cpu.Microseconds(), wall.Microseconds(), peak, anon)
		if err := s.Close(); err != nil {
			fmt.Println(err)
		}
		return true
	}
	growthLoad(s)
	return true
}

// growthLoad drives whole events with 64 clients. After some seconds it prints the memory, and
// continues until it is killed.
func growthLoad(s *Store) {
	settle()
	var accepted, most atomic.Int64
	for c := range 64 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("load-%d-%d-%d", os.Getpid(), c, i)
				if _, err := s.Claim(context.Background(), growthClaim(id)); err != nil {
					panic(err)
				}
				accepted.Add(1)
			}
		}()
	}
	go growthWork(context.Background(), nil, s, 0)
	const length = 3 * time.Second
	for began := time.Now(); time.Since(began) < length; time.Sleep(20 * time.Millisecond) {
		_, anon := memoryOf()
		most.Store(max(most.Load(), anon))
	}
	peak, _ := memoryOf()
	fmt.Println("load", accepted.Load()/int64(length/time.Second), peak, most.Load())
	select {}
}

// memoryOf returns the peak of the resident set of this process and its present part that is not
// of files, in KiB.
func memoryOf() (peak, anon int64) {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "VmHWM:"):
			peak, _ = strconv.ParseInt(f[1], 10, 64)
		case strings.HasPrefix(line, "RssAnon:"):
			anon, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return peak, anon
}

// settle waits until the process does almost nothing: the filter is filled, tables are compacted.
func settle() {
	for quiet := 0; quiet < 3; {
		before := cpuTime()
		time.Sleep(100 * time.Millisecond)
		if quiet++; cpuTime()-before > 10*time.Millisecond {
			quiet = 0
		}
	}
}

// claim compares claims of new events in both stores, in alternation.
func (g *growth) claim(b *testing.B) {
	small := open(b, filepath.Join(g.dir, "small"), growthOptions())
	big := open(b, filepath.Join(g.dir, "big"), growthOptions())
	settle()
	const rounds, claims = 7, 3200
	var cpu, wall, each []float64
	for round := range rounds {
		var took, lasted [2]float64
		for i, s := range []*Store{small, big} {
			began, before := time.Now(), cpuTime()
			growthClaims(b, s, round, claims)
			if err := s.db.Settle(); err != nil {
				b.Fatal(err)
			}
			took[i], lasted[i] = float64((cpuTime() - before).Microseconds()), float64(time.Since(began))
		}
		cpu, wall = append(cpu, took[1]/took[0]), append(wall, lasted[1]/lasted[0])
		each = append(each, took[1]/claims)
	}
	for unit, all := range map[string][]float64{"cpu-ratio": cpu, "wall-ratio": wall, "cpu-us/claim": each} {
		slices.Sort(all)
		g.report(all[len(all)/2], unit)
	}
	growthWork(context.Background(), b, small, rounds*claims)
	growthWork(context.Background(), b, big, rounds*claims)
	if err := errors.Join(small.Close(), big.Close()); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
}

func growthClaims(b *testing.B, s *Store, round, claims int) {
	var wg sync.WaitGroup
	const clients = 32
	for c := range clients {
		wg.Go(func() {
			for i := range claims / clients {
				id := fmt.Sprintf("new-%d-%d-%d", round, c, i)
				if _, err := s.Claim(context.Background(), growthClaim(id)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// space ends all windows, and measures what is left on disk.
func (g *growth) space(b *testing.B) {
	dir := filepath.Join(g.dir, "big")
	o, clock := growthOptions(), deduptest.NewClock()
	o.Clock = clock
	s := open(b, dir, o)
	for range 3 { // a longer step would be a gap
		clock.Advance(20 * time.Hour)
		if err := s.submit(&timeOp{newTicket(false)}); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	err := s.maintenance.sweep(0)
	if err == nil {
		err = s.maintenance.reclaim(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	g.report(time.Since(began).Seconds(), "s")
	if st, err := s.Stats(context.Background()); err != nil || st.Records > int64(g.keys)/100 {
		b.Errorf("%d events are left, %v", st.Records, err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	g.report(100*float64(growthUsed(dir))/float64(g.used), "left-%")

}
