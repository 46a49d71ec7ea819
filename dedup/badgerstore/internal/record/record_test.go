package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

// fullRecord returns a record with a value in every field.
func fullRecord() (dedup.Claim, dedup.Record) {
	at := time.Unix(1_700_000_000, 123).UTC()
	c := dedup.Claim{
		Key:     dedup.Key{Principal: "p", Endpoint: "e", Space: "s", ID: "i"},
		Aliases: []dedup.Key{{Principal: "p", Space: "nonce", ID: "n"}, {ID: "x"}},
		Payload: dedup.Payload{
			Producer: "producer", Endpoint: "endpoint", Type: "type", KeyField: `"i"`, Method: "POST", Target: "/x?y",
			Header:     map[string][]string{"A": {"1", "2"}, "Empty": nil},
			Attributes: map[string]string{"k": "v", "": ""}, Body: []byte("the body"),
		},
	}
	r := dedup.Record{
		Key: c.Key, Aliases: c.Aliases, Payload: c.Payload,
		Event: "e", Fingerprint: dedup.Fingerprint{1, 15: 2}, Generation: 3, Seq: 1 << 40,
		Accepted: at, Finished: at.Add(1),
		Window: time.Hour, Expires: at.Add(time.Hour), Hold: true, DropBody: true,
		QuarantineReason: "conflict", Original: "o",
		QuarantineCount: 7, Note: "note",
		Response: dedup.Response{Status: 299, Header: map[string][]string{"Location": {"/"}}, Body: []byte("answer")},
		Tasks: []dedup.Task{
			{Handler: "h", Lane: "l", State: dedup.Dead, Attempt: 4, Postponed: 1, Due: at, Started: at,
				Ended: at, Reason: "r", Err: "e", Token: 9, Until: at},
			{Handler: "h2", State: dedup.Pending},
		},
	}
	r.Payload.Body = nil
	return c, r
}

func TestStoredValuesComeBackWhole(t *testing.T) {
	t.Parallel()
	c, want := fullRecord()
	key := HashOf(c.Key).Key(FamilyEvent)
	content := NewEvent(&c, BodyInline).Encode(key, 1<<40)
	value := EncodeState(nil, key, &want, Outline{Size: 1 << 40, Endpoint: "e"})
	var got dedup.Record
	if o, err := DecodeState(key, value, &got); err != nil || o != (Outline{Size: 1 << 40, Endpoint: "e"}) {
		t.Fatal(o, err)
	}
	f, seq, err := DecodeEvent(key, content)
	if err != nil || seq != 1<<40 || f.Size != 8 {
		t.Fatal(seq, f.Size, err)
	}
	if err := f.Describe(Place{Hash: HashOf(c.Key)}, &got); err != nil {
		t.Fatal(err)
	}
	got.Event = want.Event
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(f.InlineBody()) != "the body" {
		t.Errorf("body %q", f.InlineBody())
	}
	for kind, changed := range map[BodyKind]Event{
		BodyDropped: f.WithoutBody(BodyDropped), BodyApart: NewEvent(&c, BodyApart),
		BodyInline: f.WithAliases(&want),
	} {
		again, seq, err := DecodeEvent(key, changed.Encode(key, 5))
		if err != nil || seq != 5 || again.Kind != kind || again.Size != 8 ||
			(len(again.InlineBody()) > 0) != (kind == BodyInline) {
			t.Errorf("kind %d: %+v, %v", kind, again, err)
		}
	}
}

// TestEveryStateComesBackWhole changes each field of a record to values that are stored in
// different ways.
func TestEveryStateComesBackWhole(t *testing.T) {
	t.Parallel()
	_, full := fullRecord()
	full.Key, full.Aliases, full.Payload, full.Event = dedup.Key{}, nil, dedup.Payload{}, ""
	at, late := full.Accepted, time.Unix(0, 1<<63-1).UTC()
	task := func(change func(t *dedup.Task)) func(r *dedup.Record) {
		return func(r *dedup.Record) { change(&r.Tasks[0]) }
	}
	for i, change := range []func(r *dedup.Record){
		func(*dedup.Record) {}, func(r *dedup.Record) { *r = dedup.Record{} },
		func(r *dedup.Record) { r.Finished, r.Expires = time.Time{}, time.Time{} },
		func(r *dedup.Record) { r.Finished = at; r.Expires = at.Add(r.Window) },
		func(r *dedup.Record) { r.Tasks = nil; r.Finished = at; r.Expires = at.Add(r.Window) },
		func(r *dedup.Record) { r.Window = 1<<63 - 1 }, func(r *dedup.Record) { r.Window = time.Second + 1 },
		func(r *dedup.Record) { r.Expires = late }, func(r *dedup.Record) { r.Accepted = time.Time{} },
		func(r *dedup.Record) { r.Generation = 0 }, func(r *dedup.Record) { r.Generation = 2 },
		func(r *dedup.Record) { r.Generation = 1 },
		func(r *dedup.Record) { r.Occurrences, r.Newest = 9, true },
		func(r *dedup.Record) { r.Fingerprint, r.Response = dedup.Fingerprint{}, dedup.Response{} },
		task(func(t *dedup.Task) { t.Due = time.Time{} }), task(func(t *dedup.Task) { t.Due = at.Add(-1) }),
		task(func(t *dedup.Task) { t.Started, t.Ended = at.Add(5), at.Add(3) }),
		task(func(t *dedup.Task) { t.Started, t.Ended = at.Add(-5), at.Add(-3) }),
		task(func(t *dedup.Task) { t.Started = time.Time{} }), task(func(t *dedup.Task) { t.Ended = late }),
		task(func(t *dedup.Task) { t.Token = 0 }), task(func(t *dedup.Task) { t.Token = 1<<64 - 1 }),
		task(func(t *dedup.Task) { t.Attempt = 0 }), task(func(t *dedup.Task) { t.Attempt = 1 }),
		task(func(t *dedup.Task) { t.Attempt = -1 }), task(func(t *dedup.Task) { t.Err = "" }),
	} {
		want := full.Clone()
		change(&want)
		key, got := []byte("ekey"), dedup.Record{Tasks: make([]dedup.Task, 3)}
		o, err := DecodeState(key, EncodeState(nil, key, &want, Outline{}), &got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || o != (Outline{}) {
			t.Errorf("change %d: %s, %v, %v", i, diff, o, err)
		}
	}
}

// TestAPartIsNotTakenForTheOther decodes the state of an event as its content, and the other way
// round, and both under another key.
func TestALargeBodyIsNotCopied(t *testing.T) {
	key := Hash{}.BodyKey(1)
	value := NewBody(make([]byte, InlineMost+1)).Encode(key)
	read := func() {
		if _, err := DecodeBody(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(3, read); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAPartIsNotTakenForTheOther(t *testing.T) {
	t.Parallel()
	c, r := fullRecord()
	key, another := HashOf(c.Key).Key(FamilyEvent), HashOf(c.Key).Key(FamilyAlias)
	value, content := EncodeState(nil, key, &r, Outline{}), NewEvent(&c, BodyInline).Encode(key, 1)
	var d *DamagedError
	for _, err := range []error{
		third(DecodeEvent(key, value)), third(DecodeEvent(another, content)),
		second(DecodeState(key, content, &r)), second(DecodeState(another, value, &r)),
		second(DecodeState(key, Seal(key, []byte{2, 0}), &r)),
	} {
		if !errors.As(err, &d) {
			t.Error(err)
		}
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestEverySingleByteOfAnEventIsChecked(t *testing.T) {
	t.Parallel()
	c, rec := fullRecord()
	key := HashOf(c.Key).Key(FamilyEvent)
	var r dedup.Record
	for what, part := range map[string]struct {
		bytes  []byte
		decode func(b []byte) error
	}{
		"content": {
			NewEvent(&c, BodyInline).Encode(key, 7),
			func(b []byte) error { return third(DecodeEvent(key, b)) },
		},
		"body": {
			NewBody([]byte("large")).Encode(HashOf(c.Key).BodyKey(7)),
			func(b []byte) error { return second(DecodeBody(HashOf(c.Key).BodyKey(7), b)) },
		},
		"value": {
			EncodeState(nil, key, &rec, Outline{}),
			func(b []byte) error { return second(DecodeState(key, b, &r)) },
		},
	} {
		for i := range part.bytes {
			bad := bytes.Clone(part.bytes)
			bad[i] ^= 1 << rand.IntN(8)
			if part.decode(bad) == nil {
				t.Errorf("byte %d of the %s is not checked", i, what)
			}
			if part.decode(part.bytes[:i]) == nil {
				t.Errorf("the first %d bytes of the %s pass", i, what)
			}
		}
	}
}

func TestEventIDsFindTheirRecord(t *testing.T) {
	t.Parallel()
	h := HashOf(dedup.Key{ID: "x"})
	for _, seq := range []uint64{1, 35, 36, 1 << 63} {
		id := EventID(h, seq)
		if gotHash, gotSeq, ok := ParseEventID(id); !ok || gotHash != h || gotSeq != seq {
			t.Errorf("%s: %x %d %v", id, gotHash, gotSeq, ok)
		}
	}
	id := EventID(h, 77)
	for _, bad := range []string{"", "-", id + "0", strings.ToUpper(id), "0" + id, "0-" + id[3:],
		strings.Replace(id, "-", "--", 1)} {
		if _, _, ok := ParseEventID(bad); ok {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	c, _ := fullRecord()
	key := HashOf(c.Key).Key(FamilyEvent)
	f.Add(NewEvent(&c, BodyInline).Encode(key, 9))
	f.Add(NewEvent(&dedup.Claim{}, BodyApart).Encode(key, 1<<63))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		// The checksum is corrected so that what is before it is tested.
		var r dedup.Record
		e, seq, err := DecodeEvent(key, ResealContent(key, content))
		if err == nil {
			err = e.Describe(Place{}, &r)
		}
		var d *DamagedError
		if err != nil {
			if !errors.As(err, &d) {
				t.Fatalf("%T", err)
			}
			return
		}
		if _, again, err := DecodeEvent(key, e.Encode(key, seq)); err != nil || again != seq {
			t.Fatalf("what was read cannot be read again: %d, %v", again, err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	_, rec := fullRecord()
	key := []byte("ekey")
	whole := EncodeState(nil, key, &rec, Outline{Size: 7, Endpoint: "e"})
	f.Add(whole[:len(whole)-sumSize])
	f.Add([]byte{eventVersion})
	f.Fuzz(func(t *testing.T, content []byte) {
		var r dedup.Record
		o, err := DecodeState(key, Seal(key, bytes.Clone(content)), &r)
		if err != nil {
			return
		}
		var again dedup.Record
		if got, err := DecodeState(key, EncodeState(nil, key, &r, o), &again); err != nil || got != o {
			t.Fatalf("what was read cannot be read again: %v, %v", got, err)
		}
	})
}

func FuzzParseEventID(f *testing.F) {
	f.Add(EventID(HashOf(dedup.Key{ID: "x"}), 5))
	f.Fuzz(func(t *testing.T, id string) {
		if h, seq, ok := ParseEventID(id); ok && EventID(h, seq) != id {
			t.Fatalf("%q is not the only name of its event", id)
		}
	})
}

func TestTheCountersComeBackWhole(t *testing.T) {
	t.Parallel()
	want := Meta{Commit: 1 << 60, Seq: 2, Token: 3, Boot: 4, Wall: time.Unix(1_700_000_000, 5).UTC(), Window: time.Hour,
		Census: Census{true, 6, 7}, Gaps: []Gap{{time.Unix(5, 0).UTC(), time.Hour},
			{time.Unix(9, 0).UTC(), time.Minute}}}
	got, err := DecodeMeta(want.Encode())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
	if got, err := DecodeMeta((&Meta{}).Encode()); err != nil || !cmp.Equal(got, Meta{}) {
		t.Errorf("zero: %+v, %v", got, err)
	}
	whole := want.Encode()
	whole = whole[:len(whole)-sumSize]
	for name, b := range map[string][]byte{
		"more": append(slices.Clip(whole), 0), "less": whole[:len(whole)-1], "nothing": whole[:1],
		"an older version": append([]byte{version - 1}, whole[1:]...),
		"a newer version":  append([]byte{version + 1}, whole[1:]...),
	} {
		value := Seal(MetaKey, slices.Clone(b))
		if m, err := DecodeMeta(value); err == nil {
			t.Errorf("%s is read as %+v", name, m)
		}
	}
}
