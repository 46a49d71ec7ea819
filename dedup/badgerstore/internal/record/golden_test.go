package record

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestTheBytesOnDiskDoNotChange encodes a key and a value of every family. A difference means
// that stores written by earlier programs can no longer be read: give the format a new version
// instead of changing the file.
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
	if len(got) != len(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func golden() string {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	key := dedup.Key{Principal: "p", Endpoint: "orders", ID: "evt_1"}
	alias := dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "n"}
	h := HashOf(key)
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
		Occurrences: 4, Sharers: []string{"s-1", "s-2"},
	}
	r.Payload.Endpoint = "orders"
	newest, older, state := Place{Hash: h}, Place{Hash: h, Older: 300}, h.Key(FamilyState)
	inline := NewEvent(c, BodyInline, 0)
	shared := inline.WithoutBody(BodyShared)
	meta := Meta{
		Commit: 1, Seq: 2, Token: 3, Boot: 4, Wall: at, Window: time.Hour, Census: Census{true, 5, 6},
		Gaps: []Gap{{at, time.Hour}, {at.Add(time.Hour), 2 * time.Hour}}, Since: 19000, Evicted: 19001,
		Reclaimed: at, Removed: 300,
	}
	var out strings.Builder
	line := func(name string, b []byte) { fmt.Fprintln(&out, name, hex.EncodeToString(b)) }
	line("key/event", newest.Key())
	line("key/older", older.Key())
	line("key/state", state)
	line("key/alias", h.Key(FamilyAlias))
	line("key/chunk", h.ChunkKey(1<<32|5, 6))
	line("key/trace", h.TraceID().Key())
	line("key/meta", MetaKey)
	fmt.Fprintln(&out, "id", EventID(h, 300))
	line("event/inline", inline.Encode(newest.Key(), r))
	line("event/empty", inline.Encode(newest.Key(), &dedup.Record{}))
	line("event/older", inline.Encode(older.Key(), r))
	line("event/chunks", NewEvent(c, BodyChunks, 9).Encode(newest.Key(), r))
	line("event/without", inline.WithoutBody(BodyDropped).Encode(newest.Key(), r))
	line("event/with", shared.WithBody([]byte("{}"), 0).Encode(newest.Key(), r))
	line("event/withchunks", shared.WithBody(nil, 77).Encode(newest.Key(), r))
	line("event/renamed", inline.WithAliases(&dedup.Record{Key: key, Payload: c.Payload}).Encode(newest.Key(), r))
	line("state", EncodeState(state, r, OutlineOf(r, inline.Size)))
	line("state/empty", EncodeState(state, &dedup.Record{}, Outline{}))
	line("alias", Alias{Hash: h, Seq: 300}.Encode(h.Key(FamilyAlias)))
	line("trace", EncodeTrace(h.TraceID().Key(), dedup.Trace{Day: 19000, Count: 3}))
	line("chunk", EncodeChunk(h.ChunkKey(1, 0), []byte("piece")))
	line("meta/empty", (&Meta{}).Encode())
	line("meta", meta.Encode())
	line("mark", fmt.Append(nil, Mark(FamilyOlder, older, 99)))
	return out.String()
}
