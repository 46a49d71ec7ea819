package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// filler fills a store with events in every state.
type filler struct {
	testing.TB
	store  dedup.Store
	clock  *deduptest.Clock
	rand   *rand.Rand
	claims []dedup.Claim // all that were made

	copied   uint64                // the last event that was copied
	verdicts map[dedup.Verdict]int // how many claims
}

func newFiller(t testing.TB, s dedup.Store, clock *deduptest.Clock) *filler {
	return &filler{TB: t, store: s, clock: clock, rand: rand.New(rand.NewPCG(1, 2))}
}

func (f *filler) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *filler) close() { f.must(f.store.Close()) }

// claim makes claims, as many in one call as a store takes.
func (f *filler) claim(claims ...dedup.Claim) (all []dedup.Decision) {
	f.Helper()
	for part := range slices.Chunk(claims, 200) {
		got, err := f.store.Claim(f.Context(), part...)
		f.must(err)
		all = append(all, got...)
	}
	f.claims = append(f.claims, claims...)
	return all
}

// plainOf returns a claim with a task for each handler.
func (f *filler) plainOf(id string, handlers ...string) dedup.Claim {
	body := make([]byte, f.rand.IntN(600))
	for i := range body {
		body[i] = byte(f.rand.Uint32())
	}
	c := dedup.Claim{
		Key:         dedup.Key{Principal: "shop", Endpoint: "orders", ID: id},
		Fingerprint: dedup.Fingerprint{1, byte(len(body))},
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "orders", Type: "order.paid", KeyField: `"` + id + `"`, Method: "POST",
			Target: "/webhooks/orders?x=%41", Header: http.Header{"Content-Type": {"text/plain"}, "X": {"a", "b"}},
			Attributes: map[string]string{"source": "till 7", "time": "now"}, Body: body,
		},
		Response: dedup.Response{
			Status: 202, Body: []byte("accepted " + id), Header: http.Header{"Location": {"/" + id}},
		},
		Window: 24 * time.Hour,
	}
	for _, h := range handlers {
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: h})
	}
	return c
}

func named(space, id string) dedup.Key {
	return dedup.Key{Principal: "shop", Endpoint: "orders", Space: space, ID: id}
}

// kinds make the claims of the second round. Handlers are named after the results that end their
// tasks.
var kinds = []func(f *filler, i int, c *dedup.Claim){
	func(*filler, int, *dedup.Claim) {},
	func(_ *filler, _ int, c *dedup.Claim) { c.Tasks[0].Handler = "dead" },
	func(_ *filler, _ int, c *dedup.Claim) { c.Tasks[0].Handler = "retry" },
	func(_ *filler, _ int, c *dedup.Claim) { c.Tasks[0].Handler = "postpone" },
	func(_ *filler, _ int, c *dedup.Claim) { c.Tasks[0].Handler = "wait" },
	func(_ *filler, i int, c *dedup.Claim) {
		c.Tasks[0] = dedup.NewTask{Handler: "wait", Lane: fmt.Sprint(i % 17)}
	},
	func(_ *filler, i int, c *dedup.Claim) {
		c.Tasks[0] = dedup.NewTask{Handler: "wait", Lane: dedup.LaneYields + fmt.Sprint(i%5)}
	},
	func(_ *filler, i int, c *dedup.Claim) { // with fences of their own
		c.Tasks[0].Lane, c.Tasks[0].Version, c.Tasks[0].Unfenced = fmt.Sprint("fenced", i), fmt.Sprint(i), i%5 == 4
	},
	func(_ *filler, _ int, c *dedup.Claim) { c.Tasks, c.Note = nil, "no handler" },
	func(_ *filler, _ int, c *dedup.Claim) { c.DropBody = true },
	func(f *filler, _ int, c *dedup.Claim) {
		*c = f.plainOf(c.Key.ID, "done", "dead", "wait", "retry")
	},
	func(_ *filler, i int, c *dedup.Claim) {
		c.Aliases = []dedup.Key{named(dedup.SpaceNonce, fmt.Sprint(i)), named(dedup.SpaceSigned, fmt.Sprint(i))}
	},
	func(_ *filler, i int, c *dedup.Claim) {
		c.Aliases = []dedup.Key{named(dedup.SpaceSent, fmt.Sprint(i%40))}
	},
	func(_ *filler, i int, c *dedup.Claim) { c.Series = named(dedup.SpaceSeries, fmt.Sprint(i%30)) },
	func(_ *filler, i int, c *dedup.Claim) {
		c.Key.ID = fmt.Sprint("content", i/6)
		c.Payload.VendorID = fmt.Sprint("name", i)
		c.Occurrence = &dedup.Occurrence{Name: c.Payload.VendorID, Max: 3}
	},
	func(_ *filler, _ int, c *dedup.Claim) { c.Remember = &dedup.Remember{Most: 2} },
	func(_ *filler, _ int, c *dedup.Claim) {
		c.Payload.Header = http.Header{"A\x00": {"\xff", ""}}
		c.Payload.Type, c.Payload.Target, c.Payload.VendorID = "\x00type", "/\xfe", "\x01"
		c.Key.ID += "\x00\xff" + strings.Repeat("k", 1000)
		c.Tasks[0] = dedup.NewTask{Handler: "wait", Lane: "\xff\x00"}
	},
	func(_ *filler, _ int, c *dedup.Claim) {
		c.Payload.Body, c.Payload.Header, c.Payload.Attributes = nil, nil, nil
	},
	func(f *filler, i int, c *dedup.Claim) {
		if i%10 == 0 { // in pieces
			c.Payload.Body = []byte(strings.Repeat(fmt.Sprint(i), 700<<10/len(fmt.Sprint(i))))
		}
	},
}

// fill adds about n events. Half of them are accepted two hours before the rest.
func (f *filler) fill(n int) {
	f.Helper()
	f.clock.Advance(1234567 * time.Nanosecond)
	var old []dedup.Claim
	for i := range n / 4 {
		c := f.plainOf(fmt.Sprint("old", i), []string{"done", "dead"}[i%2])
		c.Window = []time.Duration{time.Hour, 3*time.Hour + 1, 48 * time.Hour}[i%3]
		if i%5 == 0 {
			c.Remember = &dedup.Remember{}
		}
		if i%4 == 1 {
			c.Aliases = []dedup.Key{named(dedup.SpaceNonce, fmt.Sprint("old", i))}
		}
		old = append(old, c)
	}
	f.claim(old...)
	f.work()
	f.held(n / 40)
	f.clock.Advance(2*time.Hour + 890*time.Nanosecond)
	var fresh []dedup.Claim
	for i := range n / 8 { // some keys are new again, and leave dead letters as older generations
		fresh = append(fresh, old[2*i])
		if i%2 == 0 {
			fresh = append(fresh, old[2*i+1])
		}
	}
	for i := range n / 2 {
		c := f.plainOf(fmt.Sprint("new", i), "done")
		kinds[i%len(kinds)](f, i/len(kinds), &c)
		fresh = append(fresh, c)
	}
	accepted := f.claim(fresh...)
	f.work()
	f.quarantine(accepted, n/40)
	f.clock.Advance(time.Minute)
	f.held(n / 40)
	f.edit(n / 40)
	for i := range n / 50 { // these are running at the end
		f.claim(f.plainOf(fmt.Sprint("run", i), "run"))
	}
	f.take(n/50, "run")
}

// take takes tasks of handlers.
func (f *filler) take(n int, handlers ...string) (all []dedup.Work) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	for len(all) < n {
		got, err := f.store.Take(ctx, dedup.Want{
			Tasks: n - len(all), Bytes: 1 << 30, Lease: time.Minute, Handlers: handlers, OrphanAfter: 1000 * time.Hour,
		})
		if err != nil {
			f.Fatalf("%d of %d tasks: %v", len(all), n, err)
		}
		all = append(all, got...)
	}
	return all
}

// results end the tasks of the handlers that are named after them.
var results = map[string]dedup.Result{
	"done":     {Kind: dedup.ResultDone},
	"dead":     {Kind: dedup.ResultDead, Reason: "exhausted", Err: "no more \x00 attempts"},
	"retry":    {Kind: dedup.ResultRetry, After: time.Hour, Reason: "failed", Err: "connection refused"},
	"postpone": {Kind: dedup.ResultRetry, After: 30 * time.Minute, Postponed: true, Reason: "postponed"},
}

// work ends all tasks that have a result.
func (f *filler) work() {
	f.Helper()
	due := map[string]int{}
	for r, err := range f.store.List(f.Context(), dedup.Filter{States: []dedup.State{dedup.Pending, dedup.Dead}}) {
		f.must(err)
		for _, t := range r.Tasks {
			if t.State == dedup.Pending && !t.Due.After(f.clock.Now()) && !r.Hold {
				due[t.Handler]++
			}
		}
	}
	for h, result := range results {
		f.clock.Advance(time.Second + 7*time.Nanosecond)
		f.finish(f.take(due[h], h), result)
	}
}

func (f *filler) finish(work []dedup.Work, result dedup.Result) {
	f.Helper()
	for part := range slices.Chunk(work, 200) {
		var all []dedup.LeaseResult
		for _, w := range part {
			all = append(all, dedup.LeaseResult{Lease: w.Lease, Result: result})
		}
		for _, err := range f.store.FinishMany(f.Context(), all...) {
			f.must(err)
		}
	}
}

// held makes claims whose handlers answer: answered, late, refused, released, claimed again, held
// for a minute, and for two hours.
func (f *filler) held(n int) {
	f.Helper()
	for i := range n {
		c := f.plainOf(fmt.Sprintf("held%d-%d", f.clock.Now().Unix(), i), "answer")
		c.Response, c.Hold, c.Lease = dedup.Response{}, true, time.Minute
		c.Aliases = []dedup.Key{named(dedup.SpaceNonce, c.Key.ID)}
		if i%2 == 0 {
			c.Remember = &dedup.Remember{}
		}
		d := f.claim(c)[0]
		answer := dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{
			Status: 200 + i%7, Header: http.Header{"X-N": {"1", "2"}}, Body: []byte(strings.Repeat("a", i%50)),
		}}
		end := func(r dedup.Result) { f.must(f.store.Finish(f.Context(), d.Lease, r)) }
		switch i % 7 {
		case 0:
			end(answer)
		case 1:
			f.clock.Advance(61 * time.Second)
			end(answer)
		case 2:
			answer.Kind = dedup.ResultDead
			end(answer)
		case 3:
			end(dedup.Result{Kind: dedup.ResultRelease, Reason: "failed", Err: "try again"})
		case 4:
			end(dedup.Result{Kind: dedup.ResultRelease})
			c.Aliases = []dedup.Key{named(dedup.SpaceNonce, c.Key.ID+"again")}
			d = f.claim(c)[0]
		case 5:
			f.clock.Advance(30 * time.Second)
		case 6:
			f.must(f.store.Extend(f.Context(), d.Lease, 2*time.Hour))
		}
	}
}

// quarantine adds deliveries that belong to events.
func (f *filler) quarantine(of []dedup.Decision, n int) {
	f.Helper()
	for i, d := range of[:min(n, len(of))] {
		if d.Verdict != dedup.New {
			continue
		}
		for k := range 3 {
			c := f.plainOf(fmt.Sprint("quarantined", i), "done")
			c.Key.Space = dedup.SpaceQuarantine + fmt.Sprint(k)
			c.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: d.Record.Event, Max: 2}
			if k == 2 && i%3 == 0 {
				c.Tasks = nil
			}
			f.claim(c)
		}
	}
}

// edit reopens and purges events.
func (f *filler) edit(n int) {
	f.Helper()
	var dead, over []string
	for r, err := range f.store.List(f.Context(), dedup.Filter{}) {
		f.must(err)
		switch {
		case r.State() == dedup.Dead && !r.Open():
			dead = append(dead, r.Event)
		case r.State() == dedup.Done:
			over = append(over, r.Event)
		}
	}
	f.rand.Shuffle(len(dead), func(i, k int) { dead[i], dead[k] = dead[k], dead[i] })
	for i, event := range dead[:min(n, len(dead))] {
		var more []dedup.NewTask
		if i%2 == 0 {
			more = []dedup.NewTask{{Handler: "wait", Lane: "more"}}
		}
		_, err := f.store.Reopen(f.Context(), event, more...)
		f.must(err)
	}
	for i, event := range over[:min(n, len(over))] {
		if i%2 == 0 {
			f.must(f.store.Purge(f.Context(), event))
		}
	}
}
