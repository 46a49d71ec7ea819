package deduptest

import (
	"sync"

	"github.com/eyelet-dev/eyelet/dedup"
)

func raceChecks() []check {
	return []check{
		{"OfConcurrentClaimsOfOneKeyOneIsNew", raceOneKey},
	}
}

// oneNew makes n claims at once, of which exactly one must be New, and returns its decision.
func oneNew(x *rig, n int, claim func(i int) dedup.Claim) dedup.Decision {
	x.Helper()
	ds := make([]dedup.Decision, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			got, err := x.store.Claim(x.ctx, claim(i))
			if errs[i] = err; err == nil {
				ds[i] = got[0]
			}
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, d := range ds {
		if errs[i] != nil {
			x.Fatalf("claim %d: %v", i, errs[i])
		}
		if d.Verdict == dedup.New {
			if winner >= 0 {
				x.Fatalf("claims %d and %d are both new", winner, i)
			}
			winner = i
		}
	}
	if winner < 0 {
		x.Fatal("no claim is new")
	}
	for i, d := range ds {
		if d.Record.Event != ds[winner].Record.Event {
			x.Fatalf("claim %d (%v) is about %q, want %q", i, d.Verdict, d.Record.Event, ds[winner].Record.Event)
		}
	}
	return ds[winner]
}

func raceOneKey(x *rig) {
	oneNew(x, 32, func(int) dedup.Claim { return delivery("a") })
}
