package record

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

var update = flag.Bool("update", false, "write testdata/golden.txt")

// TestTheBytesOnDiskDoNotChange encodes a key and a value of every family. A difference means
// that stores written by earlier programs can no longer be read: give the format a new number,
// then -update writes the file.
func TestTheBytesOnDiskDoNotChange(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := golden()
	lines := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(lines) || line != lines[i] {
			t.Errorf("line %d is %s", i+1, line)
		}
	}
	if *update {
		err = os.WriteFile("testdata/golden.txt", []byte(got), 0o644)
	}
	if len(got) != len(want) || err != nil {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// goldenAt is when the golden events are accepted.
var goldenAt = time.Unix(1_700_000_000, 123456789).UTC()

// goldenEvent returns a claim, and a record of its event with a value in every field.
func goldenEvent() (*dedup.Claim, *dedup.Record) {
	at := goldenAt
	key := dedup.Key{Principal: "p", Endpoint: "orders", ID: "evt_1"}
	alias := dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "n"}
	c := &dedup.Claim{Key: key, Aliases: []dedup.Key{alias}, Payload: dedup.Payload{
		Producer: "shop", Endpoint: "orders", Type: "order.paid", KeyField: "id", VendorID: "v1",
		Method: "POST", Target: "/t", Header: map[string][]string{"Content-Type": {"application/json", "b"}},
		Attributes: map[string]string{"a": "b"}, Body: []byte("{}"),
	}}
	r := &dedup.Record{
		Seq: 300, Generation: 2, Hold: true, DropBody: true, Newest: true, Fingerprint: dedup.Fingerprint{1, 2, 3},
		Accepted: at, Finished: at.Add(time.Second), Window: 24 * time.Hour, Expires: at.Add(24 * time.Hour),
		QuarantineCount: 3, QuarantineReason: "conflict", Original: "o-1", Note: "note",
		Response: dedup.Response{
			Status: 201, Header: map[string][]string{"Location": {"/1"}}, Body: []byte("made"),
		},
		Tasks: []dedup.Task{{
			State: dedup.Running, Handler: "h", Lane: "l", Attempt: 2, Postponed: 1, Due: at, Started: at,
			Until: at.Add(time.Minute), Reason: "why", Err: "err", Token: 7,
		}},
		Occurrences: 4,
	}
	r.Payload.Endpoint = "orders"
	return c, r
}

func golden() string {
	at := goldenAt
	c, r := goldenEvent()
	key := c.Key
	h := HashOf(key)
	newest, older := Place{Hash: h}, Place{Hash: h, Older: 300}
	inline := NewEvent(c, BodyInline)
	meta := Meta{
		Commit: 1, Seq: 2, Token: 3, Boot: 4, Wall: at, Window: time.Hour, Census: Census{true, 5, 6},
		Gaps: []Gap{{at, time.Hour}, {at.Add(time.Hour), 2 * time.Hour}}, Since: 19000, Evicted: 19001,
		Reclaimed: at, Removed: 300,
	}
	var out strings.Builder
	line := func(name string, b []byte) { fmt.Fprintln(&out, name, hex.EncodeToString(b)) }
	line("key/event", newest.Key())
	line("key/older", older.Key())
	line("key/alias", h.Key(FamilyAlias))
	line("key/body", h.BodyKey(300))
	line("key/trace", h.TraceID().Key())
	line("key/note", NoteHash(c.Aliases[0]).Key(FamilyNote))
	line("key/meta", MetaKey)
	fmt.Fprintln(&out, "id", EventID(h, 300))
	done := &dedup.Record{
		Seq: 300, Generation: 1, Fingerprint: dedup.Fingerprint{1, 2, 3}, Accepted: at, Window: 24 * time.Hour,
		Finished: at.Add(2 * time.Millisecond), Expires: at.Add(24*time.Hour + 2*time.Millisecond),
		Tasks: []dedup.Task{{
			State: dedup.Done, Handler: "h", Attempt: 1, Due: at, Started: at.Add(time.Millisecond),
			Ended: at.Add(2 * time.Millisecond), Token: 301,
		}},
	}
	line("content/inline", inline.Encode(newest.Key(), 300))
	line("content/older", inline.Encode(older.Key(), 300))
	line("content/apart", NewEvent(c, BodyApart).Encode(newest.Key(), 300))
	line("content/without", inline.WithoutBody(BodyDropped).Encode(newest.Key(), 300))
	line("content/renamed", inline.WithAliases(&dedup.Record{Key: key, Payload: c.Payload}).Encode(newest.Key(), 300))
	line("state", EncodeState(nil, newest.Key(), r, OutlineOf(r, inline.Size)))
	line("state/older", EncodeState(nil, older.Key(), r, OutlineOf(r, inline.Size)))
	line("state/done", EncodeState(nil, newest.Key(), done, OutlineOf(done, inline.Size)))
	failed := dedup.Attempt{
		Number: 1, Started: at, Ended: at.Add(time.Second), State: dedup.Dead, Reason: "why", Err: "err",
	}
	again, other := failed, failed
	again.Number, again.Started, again.Ended, again.State = 7, at.Add(time.Minute), at.Add(time.Hour), dedup.Pending
	other.Number, other.Started, other.Ended, other.Err = 8, at.Add(2*time.Hour), at.Add(3*time.Hour), "other"
	tried := *r
	tried.Tasks = []dedup.Task{r.Tasks[0], {Handler: "i", State: dedup.Pending, Due: at}}
	tried.Tasks[1].Version, tried.Tasks[1].Unfenced = "17", true
	tried.Tasks[0].History = []dedup.Attempt{failed, again, other}
	tried.Tasks[1].History = []dedup.Attempt{failed}
	line("state/history", EncodeState(nil, newest.Key(), &tried, OutlineOf(&tried, inline.Size)))
	line("state/named", EncodeState(nil, newest.Key(), done, Outline{Name: h.Name()}))
	line("state/empty", EncodeState(nil, newest.Key(), &dedup.Record{}, Outline{}))
	line("alias", Alias{Hash: h, Seq: 300}.Encode(nil, h.Key(FamilyAlias)))
	note := dedup.Note{Key: c.Aliases[0], Text: "text", At: goldenAt}
	line("note", EncodeNote(nil, NoteHash(note.Key).Key(FamilyNote), note))
	line("trace", EncodeTrace(nil, h.TraceID().Key(), dedup.Trace{Day: 19000, Count: 3}))
	line("body", NewBody([]byte("body")).Encode(h.BodyKey(300)))
	line("meta/empty", (&Meta{}).Encode())
	line("meta", meta.Encode())
	line("mark", fmt.Append(nil, Digest(FamilyOlder, older, 99)))
	return out.String()
}
