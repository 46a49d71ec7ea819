package deduptest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// most is the part of the contract about [dedup.Want.Most].
var most = []check{
	{"NoMoreTasksOfAHandlerAreTakenThanWantedAndThoseOfOthersAre", func(x *rig) {
		for i := range 4 {
			x.accept(handled(fmt.Sprint("s", i), "ship"))
			c := laned(fmt.Sprint("l", i), fmt.Sprint("lane", i))
			c.Tasks[0].Handler = "sort"
			x.accept(c)
		}
		for i := range 3 {
			x.accept(handled(fmt.Sprint("b", i), "bill"))
		}
		most := map[string]int{"ship": 2, "sort": 1}
		got := map[string]int{}
		for len(got) < 3 || got["bill"] < 3 {
			for _, w := range x.takeMost(most) {
				got[w.Task().Handler]++
				if n, limited := most[w.Task().Handler]; limited {
					most[w.Task().Handler] = n - 1
				}
			}
		}
		equal(x, "tasks", fmt.Sprint(got), fmt.Sprint(map[string]int{"bill": 3, "ship": 2, "sort": 1}))
		x.none(map[string]int{"ship": 0, "sort": 0})
		equal(x, "tasks without a limit", len(x.takeMost(nil)) > 0, true)
	}},
	{"AHandlerOfWhichNoTaskIsWantedIsNotMissing", func(x *rig) {
		for _, c := range []dedup.Claim{handled("a", "ship"), laned("b", "l"), handled("c", "ship")} {
			c.Tasks[0].Handler = "ship"
			x.accept(c)
		}
		x.takeMost(map[string]int{"ship": 1}) // its lease ends: it is interrupted
		x.advance(day)
		x.none(map[string]int{"ship": 0})
		for range 3 {
			x.finish(x.takeMost(map[string]int{"ship": 1})[0].Lease, done())
		}
	}},
	{"MostIsOfHandlersOfTheCallerAndNotNegative", func(x *rig) {
		for _, most := range []map[string]int{{"other": 1}, {"ship": -1}} {
			want := wanting("ship")
			want.Most = most
			_, err := x.store.Take(x.ctx, want)
			x.fails(err, dedup.ErrInvalid, "Take")
		}
	}},
}

func wantingMost(most map[string]int) dedup.Want {
	want := wanting("ship", "sort", "bill")
	want.Tasks, want.OrphanAfter, want.Most = 20, 0, map[string]int{}
	for name, n := range most {
		want.Most[name] = n
	}
	return want
}

// takeMost takes tasks with these limits. At least one must be due.
func (x *rig) takeMost(most map[string]int) []dedup.Work {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	ws, err := x.store.Take(ctx, wantingMost(most))
	x.must(err, "Take with limits")
	return ws
}

// none fails if a task is due within these limits. It waits a moment only.
func (x *rig) none(most map[string]int) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	if ws, err := x.store.Take(ctx, wantingMost(most)); !errors.Is(err, context.DeadlineExceeded) {
		x.Fatalf("Take of at most %v: %d tasks, %v, want the error of its context", most, len(ws), err)
	}
}
