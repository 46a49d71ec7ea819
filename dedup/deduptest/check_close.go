package deduptest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var closeChecks = []check{
	{"EveryCallIsErrClosedAfterwards", closeAll},
	{"BlockedTakesReturn", closeBlocked},
	{"ClosingAgainDoesNothing", closeTwice},
	{"ConcurrentCallsGetAResultOrErrClosed", closeConcurrent},
}

func closeAll(x *rig) {
	event := x.accept(delivery("a"))
	lease := x.take().Lease
	x.close()
	calls := map[string]func() error{
		"Claim":  func() error { _, err := x.store.Claim(x.ctx, delivery("b")); return err },
		"Take":   func() error { _, err := x.store.Take(x.ctx, 1, 1, minute); return err },
		"Extend": func() error { return x.store.Extend(x.ctx, lease, minute) },
		"Finish": func() error { return x.store.Finish(x.ctx, lease, done()) },
		"Get":    func() error { _, err := x.store.Get(x.ctx, event); return err },
		"Reopen": func() error { _, err := x.store.Reopen(x.ctx, event); return err },
		"Purge":  func() error { return x.store.Purge(x.ctx, event) },
		"Stats":  func() error { _, err := x.store.Stats(x.ctx); return err },
		"Health": func() error { return x.store.Health(x.ctx) },
		"List": func() error {
			for _, err := range x.store.List(x.ctx, dedup.Filter{}) {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, dedup.ErrClosed) {
			x.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}

func closeBlocked(x *rig) {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	for i := range errs {
		wg.Go(func() { _, errs[i] = x.store.Take(ctx, 1, 1, minute) })
	}
	time.Sleep(5 * time.Millisecond) // they are probably blocked; if not, the check is still valid
	x.close()
	wg.Wait()
	for _, err := range errs {
		x.fails(err, dedup.ErrClosed, "Take that was blocked while the store closed")
	}
}

func closeTwice(x *rig) {
	x.close()
	x.close()
}

func closeConcurrent(x *rig) {
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
}
