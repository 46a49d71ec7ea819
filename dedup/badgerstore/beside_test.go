package badgerstore

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// BenchmarkClaimBeside measures how much longer claims take, 400 a second, while windows that have
// ended are swept, values are moved out of old files, and workers catch up on a backlog that is not
// in memory: the ratios of medians and 99th percentiles to those right before. EYELET_GROWTH_KEYS
// is the number of events, 20,000 by default.
func BenchmarkClaimBeside(b *testing.B) {
	g := &growth{dir: b.TempDir(), keys: growthKeys(b)}
	ended := func(_ int, c *dedup.Claim) { c.Tasks = nil }
	b.Run("sweep", g.once(func(b *testing.B) {
		s := g.besides(b, "sweep", 26*time.Hour, ended)
		g.beside(b, s, func() error { return s.maintenance.sweep(0) })
	}))
	b.Run("reclaim", g.once(func(b *testing.B) {
		s := g.besides(b, "reclaim", 20*time.Hour, func(i int, c *dedup.Claim) {
			if ended(i, c); i%3 > 0 {
				c.Window = time.Hour
			}
		})
		if err := s.maintenance.sweep(0); err != nil {
			b.Fatal(err)
		}
		g.beside(b, s, func() error { return s.maintenance.reclaim(context.Background()) })
	}))
	b.Run("backlog", g.once(func(b *testing.B) {
		s := g.besides(b, "backlog", 0, func(int, *dedup.Claim) {})
		g.beside(b, s, func() error { growthWork(context.Background(), b, s, g.keys); return nil })
	}))
}

// besides returns a store that was filled, and then opened again after some time.
func (g *growth) besides(b *testing.B, name string, later time.Duration, change func(i int, c *dedup.Claim)) *Store {
	o, clock := growthOptions(), deduptest.NewClock()
	o.Clock = clock
	dir := filepath.Join(g.dir, name)
	s := open(b, dir, o)
	for from := 0; from < g.keys; from += batchOps {
		var claims []dedup.Claim
		for i := from; i < min(from+batchOps, g.keys); i++ {
			c := growthClaim(growthID(i))
			change(i, &c)
			claims = append(claims, c)
		}
		if _, err := s.Claim(context.Background(), claims...); err != nil {
			b.Fatal(err)
		}
	}
	clock.Advance(later / 2)
	if err := s.submit(&timeOp{newTicket(false)}); err != nil { // a longer step would be a gap
		b.Fatal(err)
	}
	clock.Advance(later - later/2)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s = open(b, dir, o)
	settle()
	return s
}

// beside compares claims before and during some work.
func (g *growth) beside(b *testing.B, s *Store, work func() error) {
	before := claimTimes(b, s, "before", func() { time.Sleep(2 * time.Second) })
	began := time.Now()
	during := claimTimes(b, s, "during", func() {
		if err := work(); err != nil {
			b.Error(err)
		}
	})
	g.report(time.Since(began).Seconds(), "s")
	for unit, part := range map[string]int{"p50-ratio": 50, "p99-ratio": 99} {
		g.report(float64(during[len(during)*part/100])/float64(before[len(before)*part/100]), unit)
	}
}

// claimTimes returns how long claims took while something was done, in ascending order.
func claimTimes(b *testing.B, s *Store, name string, do func()) (all []time.Duration) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for client := range 8 {
		clients.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				c := growthClaim(fmt.Sprint(name, client, i))
				c.Tasks = nil
				began := time.Now()
				if _, err := s.Claim(context.Background(), c); err != nil {
					b.Error(err)
				}
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				mu.Unlock()
				select {
				case <-tick.C:
				case <-stop:
					return
				}
			}
		})
	}
	do()
	close(stop)
	clients.Wait()
	slices.Sort(all)
	return all
}
