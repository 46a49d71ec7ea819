package deduptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var listChecks = []check{
	{"ItIsNewestFirstAndComplete", listOrder},
	{"EachFieldOfTheFilterSelects", listFilter},
	{"PagesJoinWithoutGapsOrRepeats", listPages},
	{"BodiesAreListedOnRequestOnly", listBodies},
	{"ItCanBeStoppedEarly", listBreak},
	{"TheStoreCanBeUsedWhileItIsRead", listWhile},
	{"ItEndsWithItsContext", listCancelled},
	{"SinceFollowsTheClockOfTheStore", listSince},
}

func ids(rs []dedup.Record) string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Key.ID)
	}
	return strings.Join(out, " ")
}

func listOrder(x *rig) {
	x.count(0)
	for i := range 25 {
		x.accept(delivery(fmt.Sprint("k", i)))
	}
	x.finish(x.take().Lease, done())
	rs := x.list(dedup.Filter{})
	equal(x, "records", len(rs), 25)
	for i, r := range rs {
		if r.Key.ID != fmt.Sprint("k", 24-i) {
			x.Fatalf("record %d is %q", i, r.Key.ID)
		}
		x.same(r, bare(x.get(r.Event)), "listed record")
	}
}

// listed makes records that differ in everything that a filter selects by.
func listed(x *rig) map[string]string {
	x.Helper()
	events := map[string]string{}
	add := func(id string, change func(*dedup.Claim)) {
		c := delivery(id)
		change(&c)
		events[id] = x.accept(c)
	}
	add("done", func(*dedup.Claim) {})
	x.finish(x.take().Lease, done())
	add("dead", func(c *dedup.Claim) { c.Payload.Type = "order.refunded" })
	x.finish(x.take().Lease, dead())
	add("running", func(c *dedup.Claim) { c.Payload.Type = "ping" })
	x.take()
	add("pending", func(c *dedup.Claim) {
		c.Payload.Producer, c.Payload.Endpoint, c.Payload.Type = "github", "hooks", ""
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: "bill"})
	})
	add("aside", func(c *dedup.Claim) {
		c.Key.Space, c.Quarantine = dedup.SpaceQuarantine+"1", &dedup.Quarantine{Reason: "conflict", Of: events["done"]}
	})
	add("held", func(c *dedup.Claim) {
		*c = held("held")
		c.Payload.Type = "order"
	})
	return events
}

func listFilter(x *rig) {
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
		if got := ids(x.list(row.filter)); got != row.want {
			x.Errorf("List(%+v) returned %q, want %q", row.filter, got, row.want)
		}
	}
}

func listPages(x *rig) {
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
}

func listBodies(x *rig) {
	x.accept(delivery("a"))
	if r := x.list(dedup.Filter{})[0]; len(r.Payload.Body) != 0 || r.Payload.Type != "order.paid" {
		x.Errorf("payload %+v", r.Payload)
	}
	if r := x.list(dedup.Filter{Body: true})[0]; string(r.Payload.Body) != "body of a" {
		x.Errorf("body %q", r.Payload.Body)
	}
}

func listBreak(x *rig) {
	x.claims(delivery("a"), delivery("b"), delivery("c"))
	for r, err := range x.store.List(x.ctx, dedup.Filter{}) {
		if err != nil || r.Key.ID != "c" {
			x.Errorf("first: %q, %v", r.Key.ID, err)
		}
		break
	}
	x.accept(delivery("d"))
}

func listWhile(x *rig) {
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
}

func listCancelled(x *rig) {
	x.claims(delivery("a"), delivery("b"))
	ctx, cancel := context.WithCancel(x.ctx)
	cancel()
	var last error
	for _, err := range x.store.List(ctx, dedup.Filter{}) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		x.Errorf("List with a cancelled context: %v", last)
	}
}

func listSince(x *rig) {
	x.accept(delivery("a"))
	x.advance(hour)
	x.accept(delivery("b"))
	x.advance(hour)
	for since, want := range map[time.Duration]string{
		30 * minute: "", 61 * minute: "b", 119 * minute: "b", 121 * minute: "b a",
	} {
		if got := ids(x.list(dedup.Filter{Since: since})); got != want {
			x.Errorf("within %v: %q, want %q", since, got, want)
		}
	}
}
