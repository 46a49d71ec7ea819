package deduptest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var closeChecks = []check{
	{"EveryCallIsErrClosedAfterwards", func(x *rig) {
		event, w := x.started(delivery("a"))
		x.close()
		for name, call := range map[string]func() error{
			"Claim": func() error { _, err := x.store.Claim(x.ctx, delivery("b")); return err },
			"Take": func() error {
				_, err := x.store.Take(x.ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
				return err
			},
			"Extend": func() error { return x.store.Extend(x.ctx, w.Lease, minute) },
			"Finish": func() error { return x.store.Finish(x.ctx, w.Lease, done()) },
			"Get":    func() error { _, err := x.store.Get(x.ctx, event); return err },
			"Reopen": func() error { _, err := x.store.Reopen(x.ctx, event); return err },
			"Rerun":  func() error { _, err := x.store.Rerun(x.ctx, event); return err },
			"RunNow": func() error { _, err := x.store.RunNow(x.ctx, event); return err },
			"Purge":  func() error { return x.store.Purge(x.ctx, event) },
			"Stats":  func() error { _, err := x.store.Stats(x.ctx); return err },
			"Health": func() error { return x.store.Health(x.ctx) },
			"List": func() error {
				for _, err := range x.store.List(x.ctx, dedup.Filter{}) {
					return err
				}
				return nil
			},
		} {
			if err := call(); !errors.Is(err, dedup.ErrClosed) {
				x.Errorf("%s after Close: %v, want ErrClosed", name, err)
			}
		}
	}},
	{"BlockedTakesReturn", func(x *rig) {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		for _, err := range together(5, func(i int) error {
			if i == 4 {
				time.Sleep(5 * time.Millisecond) // the others probably block by now; if not, the check is still valid
				x.close()
				return dedup.ErrClosed
			}
			_, err := x.store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: minute})
			return err
		}) {
			x.fails(err, dedup.ErrClosed, "Take that was blocked while the store closed")
		}
	}},
	{"ConcurrentCallsGetAResultOrErrClosed", func(x *rig) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					ds, err := x.store.Claim(x.ctx, delivery(time.Duration(i*1_000_000+n).String()))
					if err != nil {
						if !errors.Is(err, dedup.ErrClosed) {
							x.Errorf("Claim while the store closes: %v", err)
						}
						return
					}
					if len(ds) != 1 || ds[0].Verdict != dedup.New {
						x.Errorf("Claim while the store closes: %v", ds)
					}
				}
			})
		}
		time.Sleep(2 * time.Millisecond)
		x.close()
		wg.Wait()
	}},
}
