package deduptest

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

var recordChecks = []check{
	{"EveryByteOfADeliveryIsKept", func(x *rig) { x.checkBytes(exact(x)) }},
	{"LargeAndEmptyBodiesAreKept", func(x *rig) { x.checkBodies(bodies(x)) }},
	{"TheCallerOwnsTheResult", func(x *rig) {
		c := aliased("a", nonce("n"))
		d := x.want(dedup.New, c)
		event := d.Record.Event
		before := text(x.get(event)) // the record itself could share memory with the store
		known := x.want(dedup.Known, c).Record
		known.Tasks[0].Handler, known.Response.Body[0] = "spoilt", 'X'
		x.same(undescribed(x.get(event)), x.want(dedup.Known, c).Record, "record after the caller changed its copy")
		spoils := func(from string, r *dedup.Record) {
			x.Helper()
			spoil(r)
			if got := text(x.get(event)); got != before {
				x.Fatalf("after the caller changed what it got from %s:\n got %s\nwant %s", from, got, before)
			}
		}
		spoils("Claim", &d.Record)
		conflict := x.want(dedup.Conflict, altered(c)).Record
		spoils("Claim of a conflict", &conflict)
		got := x.get(event)
		spoils("Get", &got)
		for r, err := range x.store.List(x.ctx, dedup.Filter{Body: true}) {
			if err != nil {
				x.Fatal(err)
			}
			spoils("List", &r)
		}
		w := x.take()
		before = text(x.get(event))
		spoils("Take", &w.Record)
		x.finish(w.Lease, dead())
		reopened := x.reopenEvent(event)
		before = text(x.get(event))
		spoils("Reopen", &reopened)
		a := answer(200, "ok")
		h := x.want(dedup.New, held("b"))
		x.finish(h.Lease, a)
		a.Response.Body[0] = 'X'
		a.Response.Header.Set("Location", "spoilt")
		got = x.get(h.Record.Event)
		if string(got.Response.Body) != "ok" || got.Response.Header.Get("Location") != "/orders/1" {
			x.Errorf("response after the caller changed its result: %+v", got.Response)
		}
	}},
}

// exact accepts an event with bytes that are easily corrupted, and one with such a response. It
// returns what the store must return.
func exact(x *rig) (event, answered string, c dedup.Claim, a dedup.Response) {
	x.Helper()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	c = delivery("quote \" slash / null \x00 high \xff snow ☃")
	c.Aliases = []dedup.Key{nonce("n\x00\xff"), signed("s ☃")}
	c.Payload.Body = all
	c.Payload.KeyField = "\t\"raw\\field\"; p=?1"
	c.Payload.Target = "/hooks/%2e%2E/%ff?a=b&&c=%00+;"
	c.Payload.Type = "type/☃\xfe"
	c.Payload.Header = http.Header{
		"X-Empty": {""}, "X-Many": {"b", "a", "b"}, "X-Bytes": {"caf\xe9 \xff"}, "x-lower": {"kept as it is"},
	}
	c.Payload.Attributes = map[string]string{
		"": "empty name", "time": "2026-01-02T03:04:05.678+09:00", "bytes": "\xff\x00",
	}
	c.Note = "note ☃"
	c.Tasks = []dedup.NewTask{{Handler: "h/☃", Lane: "l\x00\xff"}}
	header := http.Header{"X-Many": {"2", "1"}, "Content-Type": {"a/b; c=\"\xff\""}}
	a = dedup.Response{Status: 299, Header: header, Body: all}
	event = x.accept(c)
	d := x.want(dedup.New, held("answered"))
	x.finish(d.Lease, dedup.Result{Kind: dedup.ResultDone, Response: a})
	return event, d.Record.Event, c, a
}

// checkBytes compares without any conversion that could hide a difference.
func (x *rig) checkBytes(event, answered string, c dedup.Claim, a dedup.Response) {
	x.Helper()
	r := x.get(event)
	for _, row := range []struct {
		what      string
		got, want any
	}{
		{"key", r.Key, c.Key}, {"aliases", r.Aliases, c.Aliases}, {"fingerprint", r.Fingerprint, c.Fingerprint},
		{"payload", r.Payload, c.Payload}, {"answer body", string(r.Response.Body), string(c.Response.Body)},
		{"note", r.Note, c.Note}, {"handler", r.Tasks[0].Handler, c.Tasks[0].Handler},
		{"lane", r.Tasks[0].Lane, c.Tasks[0].Lane},
		{"stored answer", x.get(answered).Response, a},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			x.Errorf("%s:\n got %q\nwant %q", row.what, fmt.Sprint(row.got), fmt.Sprint(row.want))
		}
	}
	x.about(dedup.Known, event, c)
}

// bodies accepts events with bodies of many sizes.
func bodies(x *rig) map[string][]byte {
	x.Helper()
	want := map[string][]byte{}
	for _, n := range []int{0, 1, 255, 4096, 65_536, 600_000, 1 << 20} {
		body := []byte(strings.Repeat("0123456789abcdef", n/16+1))[:n]
		c := delivery(fmt.Sprint("size ", n))
		c.Payload.Body = body
		want[x.accept(c)] = body
	}
	return want
}

func (x *rig) checkBodies(want map[string][]byte) {
	x.Helper()
	for event, body := range want {
		if got := x.get(event).Payload.Body; !bytes.Equal(got, body) {
			x.Errorf("body of %d bytes came back as %d, or changed", len(body), len(got))
		}
	}
	for _, r := range x.list(dedup.Filter{Body: true}) {
		if body, ok := want[r.Event]; ok && !bytes.Equal(r.Payload.Body, body) {
			x.Errorf("listed body of %d bytes has %d, or changed", len(body), len(r.Payload.Body))
		}
	}
}

func spoil(r *dedup.Record) {
	r.Tasks[0].State, r.Tasks[0].Handler, r.Aliases[0].ID = dedup.Dead, "spoilt", "spoilt"
	r.Payload.Header.Set("Content-Type", "spoilt")
	r.Payload.Attributes["source"] = "spoilt"
	for _, body := range [][]byte{r.Payload.Body, r.Response.Body} {
		for i := range body {
			body[i] = 'X'
		}
	}
}
