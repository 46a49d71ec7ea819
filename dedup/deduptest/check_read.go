package deduptest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var listChecks = []check{
	{"EachFieldOfTheFilterSelects", func(x *rig) {
		events := listed(x)
		all := "held aside pending running dead done"
		for _, row := range []struct {
			filter dedup.Filter
			want   string
		}{
			{dedup.Filter{}, all},
			{dedup.Filter{Event: events["running"]}, "running"},
			{dedup.Filter{Event: "unknown"}, ""},
			{dedup.Filter{ID: "dead"}, "dead"},
			{dedup.Filter{ID: "dea"}, ""},
			{dedup.Filter{Ref: "dead"}, "dead"},
			{dedup.Filter{Ref: "dea"}, ""},
			{dedup.Filter{Ref: events["running"]}, "running"},
			{dedup.Filter{Ref: events["running"][:12]}, "running"},
			{dedup.Filter{Ref: events["running"][1:4]}, ""},
			{dedup.Filter{Ref: number(events["running"])}, "running"},
			{dedup.Filter{Ref: number(events["running"]) + "-"}, "running"},
			{dedup.Filter{Ref: "unknown"}, ""},
			{dedup.Filter{Producer: "github"}, "pending"},
			{dedup.Filter{Endpoint: "hooks"}, "pending"},
			{dedup.Filter{Endpoint: "orders"}, "held aside running dead done"},
			{dedup.Filter{Type: "order.paid"}, "aside done"},
			{dedup.Filter{Type: "order"}, "held"},
			{dedup.Filter{Type: "order*"}, "held aside dead done"},
			{dedup.Filter{Type: "order.*"}, "aside dead done"},
			{dedup.Filter{Type: "*"}, all},
			{dedup.Filter{Type: "*.paid"}, ""},
			{dedup.Filter{Handler: "bill"}, "pending"},
			{dedup.Filter{Handler: "ship"}, all},
			{dedup.Filter{Reason: "conflict"}, "aside"},
			{dedup.Filter{Reason: dead().Reason}, "dead"},
			{dedup.Filter{Reason: dead().Reason, Handler: "ship"}, "dead"},
			{dedup.Filter{Reason: dead().Reason, Handler: "bill"}, ""},
			{dedup.Filter{Reason: "nothing"}, ""},
			{dedup.Filter{States: []dedup.State{dedup.Pending}}, "pending"},
			{dedup.Filter{States: []dedup.State{dedup.Running}}, "held running"},
			{dedup.Filter{States: []dedup.State{dedup.Done}}, "done"},
			{dedup.Filter{States: []dedup.State{dedup.Dead}}, "aside dead"},
			{dedup.Filter{States: []dedup.State{dedup.Done, dedup.Dead}}, "aside dead done"},
			{dedup.Filter{Quarantined: true}, "aside"},
			{dedup.Filter{States: []dedup.State{dedup.Dead}, Type: "order.r*"}, "dead"},
			{dedup.Filter{Limit: 2}, "held aside"},
			{dedup.Filter{Limit: 2, Type: "order.*"}, "aside dead"},
			{dedup.Filter{Before: x.get(events["pending"]).Seq}, "running dead done"},
			{dedup.Filter{Before: x.get(events["pending"]).Seq, Limit: 1}, "running"},
			{dedup.Filter{Before: x.get(events["done"]).Seq}, ""},
		} {
			x.lists(row.filter, row.want)
		}
	}},
	{"PagesJoinWithoutGapsOrRepeats", func(x *rig) {
		var want []string
		for i := range 23 {
			c := delivery(fmt.Sprint("k", i))
			if i%3 == 0 {
				c.Payload.Type = "other"
			} else {
				want = append(want, c.Key.ID)
			}
			x.accept(c)
		}
		slices.Reverse(want)
		f := dedup.Filter{Type: "order.*", Limit: 4}
		var got []string
		for {
			page := x.list(f)
			for _, r := range page {
				got = append(got, r.Key.ID)
			}
			x.accept(delivery(fmt.Sprint("later", len(got)))) // new records do not shift the pages
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].Seq
		}
		if !slices.Equal(got, want) {
			x.Errorf("pages gave %v, want %v", got, want)
		}
	}},
	{"ItCanBeStoppedEarly", func(x *rig) {
		x.claims(delivery("a"), delivery("b"), delivery("c"))
		for r, err := range x.store.List(x.ctx, dedup.Filter{}) {
			if err != nil || r.Key.ID != "c" {
				x.Errorf("first: %q, %v", r.Key.ID, err)
			}
			break
		}
		x.accept(delivery("d"))
	}},
	{"TheStoreCanBeUsedWhileItIsRead", func(x *rig) {
		x.claims(delivery("a"), delivery("b"), delivery("c"))
		n := 0
		for r, err := range x.store.List(x.ctx, dedup.Filter{}) {
			if err != nil {
				x.Fatal(err)
			}
			n++
			x.get(r.Event)
			x.accept(delivery("while " + r.Key.ID))
			x.finish(x.take().Lease, done())
		}
		if n < 3 {
			x.Errorf("%d records, want the 3 from before", n)
		}
		x.count(3 + n)
	}},
	{"ItEndsWithItsContext", func(x *rig) {
		x.claims(delivery("a"), delivery("b"))
		ctx, cancel := context.WithCancel(x.ctx)
		cancel()
		var last error
		for _, last = range x.store.List(ctx, dedup.Filter{}) {
		}
		x.fails(last, context.Canceled, "List with a cancelled context")
	}},
	{"TextIsSearchedEverywhereInARecord", func(x *rig) {
		x.accept(delivery("alpha"))
		typed, attributed, vendor, binary := delivery("b"), delivery("c"), delivery("d"), delivery("e")
		typed.Payload.Type, typed.Payload.Body = "Needle.paid", nil
		attributed.Payload.Attributes = map[string]string{"subject": "a needle"}
		vendor.Payload.VendorID = "needle-7"
		binary.Payload.Body = []byte("\x00\xffNEEDLE\xfe")
		x.claims(typed, attributed, vendor, binary)
		for text, want := range map[string]string{
			"needle": "e d c b", "Needle": "e d c b", "ALPHA": "alpha", "body of a": "alpha", "till 7": "e d b alpha",
			"nothing": "", "\"source\"": "",
		} {
			x.lists(dedup.Filter{Text: text}, want)
		}
		x.lists(dedup.Filter{Text: "needle", Type: "order.*"}, "e d c")
		if r := x.list(dedup.Filter{Text: "body of"})[0]; len(r.Payload.Body) != 0 {
			x.Errorf("a search returned the body %q", r.Payload.Body)
		}
		if r := x.list(dedup.Filter{Text: "body of", Body: true})[0]; string(r.Payload.Body) != "body of d" {
			x.Errorf("body %q", r.Payload.Body)
		}
	}},
	{"ASearchReportsHowFarItLooked", func(x *rig) {
		first := x.get(x.accept(delivery("a")))
		dropped := delivery("b")
		dropped.DropBody = true
		x.finish(x.takeOf(first.Event).Lease, done())
		x.finished(dropped, done())
		third := x.get(x.accept(delivery("c")))
		var got dedup.Searched
		f := dedup.Filter{Text: "body of", Searched: &got}
		x.lists(f, "c a")
		equal(x, "a whole search", got, dedup.Searched{Records: 3, Dropped: 1, Back: first.Accepted})
		f.Limit = 1
		x.lists(f, "c")
		equal(x, "a search to its limit", got, dedup.Searched{Records: 1, Back: third.Accepted, Before: third.Seq})
		f.Before = got.Before
		x.lists(f, "a")
	}},
}

var statsChecks = []check{
	{"TheyCountTasks", func(x *rig) {
		x.counts("an empty store", dedup.Stats{})
		c := handled("a", "ship", "bill")
		held := x.claims(c, delivery("b"), held("c"))[2]
		x.want(dedup.Known, c)
		s := x.counts("accepted", dedup.Stats{Pending: 3, Running: 1, Accepted: 3})
		if s.Backlog < int64(len("body of a")*3) {
			x.Errorf("backlog of three events: %d bytes", s.Backlog)
		}
		if !x.harness.OwnClock && !s.Oldest.Equal(x.clock.Now()) {
			x.Errorf("oldest %v, want %v", s.Oldest, x.clock.Now())
		}
		first, second := x.take(), x.take()
		x.finish(first.Lease, dead())
		x.finish(second.Lease, retry(hour))
		x.counts("one dead, one waits", dedup.Stats{Pending: 2, Running: 1, Dead: 1, Accepted: 3})
		x.finish(x.take().Lease, done())
		s = x.counts("one done", dedup.Stats{Pending: 1, Running: 1, Dead: 1, Accepted: 3})
		if s.Commits == 0 {
			x.Errorf("no commits: %+v", s)
		}
		x.finish(held.Lease, release())
		x.counts("a claim is released", dedup.Stats{Pending: 2, Dead: 1, Accepted: 3})
	}},
	{"TheOldestIsTheOldestEventWithAnOpenTask", func(x *rig) {
		oldest := func(want time.Time) {
			x.Helper()
			x.stats("oldest of "+want.String(), func(s dedup.Stats) bool { return s.Oldest.Equal(want) })
		}
		oldest(time.Time{})
		x.want(dedup.New, held("held"))
		first := x.get(x.accept(delivery("a")))
		x.advance(minute)
		second := x.get(x.accept(delivery("b")))
		oldest(first.Accepted)
		w := x.takeOf(first.Event)
		oldest(first.Accepted)
		x.finish(w.Lease, dead())
		oldest(second.Accepted)
		x.reopenEvent(first.Event)
		oldest(first.Accepted)
		x.finish(x.take().Lease, done())
		x.finish(x.take().Lease, done())
		oldest(time.Time{})
	}},
	{"AHealthyStoreReportsNoError", func(x *rig) {
		if err := x.store.Health(x.ctx); err != nil {
			x.Errorf("Health: %v", err)
		}
	}},
	{"GuaranteesHaveAName", func(x *rig) {
		g := x.store.Guarantees()
		if g.Durability < dedup.DurableNone || g.Durability > dedup.DurableReplicated {
			x.Errorf("guarantees: %+v", g)
		}
		if g.Durability > dedup.DurableNone && x.harness.Reopen == nil {
			x.Errorf("a store with durability %v needs Harness.Reopen", g.Durability)
		}
	}},
}

func ids(rs []dedup.Record) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Key.ID)
	}
	return strings.Join(out, " ")
}

// listed makes records that differ in everything that a filter selects by.
func listed(x *rig) map[string]string {
	x.Helper()
	events := map[string]string{}
	typed := func(c dedup.Claim, name string) dedup.Claim { c.Payload.Type = name; return c }
	events["done"] = x.finished(delivery("done"), done())
	events["dead"] = x.finished(typed(delivery("dead"), "order.refunded"), dead())
	events["running"], _ = x.started(typed(delivery("running"), "ping"))
	pending := typed(handled("pending", "ship", "bill"), "")
	pending.Payload.Producer, pending.Payload.Endpoint = "github", "hooks"
	events["pending"] = x.accept(pending)
	aside := delivery("aside")
	aside.Key.Space = dedup.SpaceQuarantine + "1"
	aside.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: events["done"]}
	events["aside"] = x.accept(aside)
	events["held"] = x.accept(typed(held("held"), "order"))
	return events
}

// number returns the part of an event id that is short enough to type.
func number(event string) string {
	short, _, _ := strings.Cut(event, "-")
	return short
}
