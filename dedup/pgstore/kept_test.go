package pgstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestAKeptRecordIsTheStoredOne compares what the receiver that accepted an event knows with what
// another one reads. The claim is changed after it is stored.
func TestAKeptRecordIsTheStoredOne(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	full := event("full", "ship")
	full.Aliases = []dedup.Key{{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceNonce, ID: "n"}}
	full.Fingerprint, full.Note, full.DropBody, full.Window = dedup.Fingerprint{7}, "a note", true, time.Hour
	full.Response = dedup.Response{Status: 202, Header: map[string][]string{"A": {"b"}}, Body: []byte("ok")}
	full.Payload = dedup.Payload{
		Producer: "shop", Endpoint: "orders", Type: "order\x00paid", VendorID: "\xff", KeyField: "Idempotency-Key",
		Method: "POST", Target: "/webhooks/orders?a=b", Body: []byte("body"),
		Header: map[string][]string{"X-A": {"1", "2"}}, Attributes: map[string]string{"source": "x"},
	}
	plain := event("plain", "ship")
	plain.Payload.Body = nil
	for _, c := range []dedup.Claim{full, plain} {
		d := claim(t, stores[0], c, dedup.New)
		if d.Record.Payload.Body != nil {
			t.Error("a decision with a body")
		}
		if c.Payload.Header != nil {
			c.Payload.Header["X-A"][0], c.Payload.Attributes["source"], c.Payload.Body[0] = "changed", "changed", 'x'
			c.Aliases[0].ID = "changed"
		}
		p := pick{seq: int64(d.Record.Seq), fresh: true, due: d.Record.Accepted}
		var got [2]*row
		for i, s := range stores {
			found, err := s.take.records(t.Context(), s.db.pool, []pick{p})
			if err != nil || found[p.seq] == nil || found[p.seq].damage != nil {
				t.Fatalf("store %d: %v, %v", i, found[p.seq], err)
			}
			got[i] = found[p.seq]
		}
		if n := len(stores[0].kept.events); n != 0 {
			t.Errorf("%d events are left", n)
		}
		if diff := cmp.Diff(got[1].rec, got[0].rec); diff != "" {
			t.Errorf("%s (-stored +kept):\n%s", c.Key.ID, diff)
		}
	}
}

// TestOnlyUnchangedTasksOfThisProcessAreNotRead makes reading impossible.
func TestOnlyUnchangedTasksOfThisProcessAreNotRead(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	s := stores[0]
	read := s.db.sql(workSQL)
	unread := func(blocked bool) {
		text := read
		if blocked {
			text = "SELECT 1/0 WHERE $1::int8[] IS NOT NULL"
		}
		s.db.texts.Store(workSQL, text)
	}
	want := dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute}
	unread(true)
	claim(t, s, event("own", "ship"), dedup.New)
	if w := takeOne(t, s); w.Record.Key.ID != "own" {
		t.Errorf("took %q", w.Record.Key.ID)
	}
	for name, c := range map[string]dedup.Claim{
		"two tasks": event("two", "ship", "bill"), "lane": inLane(event("lane", "ship")),
		"given back": event("back", "ship"),
	} {
		claim(t, s, c, dedup.New)
		if name == "given back" {
			later := dedup.Result{Kind: dedup.ResultRetry, After: time.Second}
			if err := stores[1].Finish(t.Context(), takeOne(t, stores[1]).Lease, later); err != nil {
				t.Fatal(err)
			}
			clock.Advance(2 * time.Second)
		}
		if works, err := s.Take(t.Context(), want); err == nil {
			t.Errorf("%s: %d tasks are not read", name, len(works))
		}
		unread(false)
		for range c.Tasks {
			if err := s.Finish(t.Context(), takeOne(t, s).Lease, done); err != nil {
				t.Error(err)
			}
		}
		unread(true)
	}
}

// TestATaskThatChangedIsNotKept has the task of another event with the same number.
func TestATaskThatChangedIsNotKept(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	k := &stores[0].kept
	for name, change := range map[string]func(*pick){
		"started": func(p *pick) { p.fresh = false },
		"moved":   func(p *pick) { p.due = p.due.Add(time.Microsecond) },
		"same":    func(*pick) {},
	} {
		r := claim(t, stores[0], event(name, "ship"), dedup.New).Record
		p := pick{seq: int64(r.Seq), fresh: true, due: r.Accepted}
		change(&p)
		if w := k.take(&p); (w != nil) != (name == "same") {
			t.Errorf("%s: %+v", name, w)
		}
		if len(k.events) != 0 || k.bytes != 0 {
			t.Errorf("%s: %d events are left", name, len(k.events))
		}
	}
}

func inLane(c dedup.Claim) dedup.Claim {
	c.Tasks[0].Lane = "a"
	return c
}

// TestKeptEventsAreBounded leaves events for another receiver.
func TestKeptEventsAreBounded(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	s := stores[0]
	for i := range 20 {
		c := event(fmt.Sprint("large ", i), "ship")
		c.Payload.Body = bytes.Repeat([]byte("x"), 1<<20)
		claim(t, s, c, dedup.New)
	}
	if n, bytes := len(s.kept.events), s.kept.bytes; n != 15 || s.kept.order.Len() != n || bytes > maxKept {
		t.Errorf("%d events of %d bytes", n, bytes)
	}
	seen := map[string]bool{}
	for range 20 {
		w := takeOne(t, s)
		if seen[w.Record.Key.ID] = true; len(w.Record.Payload.Body) != 1<<20 {
			t.Errorf("%s has %d bytes", w.Record.Key.ID, len(w.Record.Payload.Body))
		}
	}
	if len(seen) != 20 || s.kept.bytes != 0 || s.kept.order.Len() != 0 {
		t.Errorf("%d events, %d bytes are left", len(seen), s.kept.bytes)
	}
}
