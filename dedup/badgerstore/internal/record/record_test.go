package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
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
		Event: "e", Fingerprint: dedup.Fingerprint{1, 31: 2}, Generation: 3, Seq: 1 << 40,
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
	value := NewEvent(&c, BodyInline, 0).Encode(key, &want)
	var got dedup.Record
	f, err := DecodeEvent(key, value, &got)
	if err != nil {
		t.Fatal(err)
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
	var state dedup.Record
	about := Outline{Size: 1 << 40, Endpoint: "e"}
	if o, outlined, err := DecodeState(key, EncodeState(key, &want, about), &state); err != nil || !outlined ||
		o != about {
		t.Fatal(o, outlined, err)
	}
	want.Key, want.Aliases, want.Payload, want.Event = dedup.Key{}, nil, dedup.Payload{}, ""
	if diff := cmp.Diff(want, state); diff != "" {
		t.Error(diff)
	}
	bare := f.WithoutBody(BodyDropped)
	if again, err := DecodeEvent(key, bare.Encode(key, &want), &got); err != nil ||
		len(again.InlineBody()) != 0 || again.Size != 8 {
		t.Errorf("without its body: %+v, %v", again, err)
	}
}

func TestEverySingleByteOfAValueIsChecked(t *testing.T) {
	t.Parallel()
	c, rec := fullRecord()
	key := HashOf(c.Key).Key(FamilyEvent)
	value := NewEvent(&c, BodyInline, 0).Encode(key, &rec)
	var r dedup.Record
	for i := range value {
		bad := bytes.Clone(value)
		bad[i] ^= 1 << rand.IntN(8)
		if _, err := DecodeEvent(key, bad, &r); err == nil {
			t.Errorf("byte %d is not checked", i)
		}
	}
	for n := range value {
		if _, err := DecodeEvent(key, value[:n], &r); err == nil {
			t.Errorf("the first %d bytes pass", n)
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
	c, rec := fullRecord()
	key := HashOf(c.Key).Key(FamilyEvent)
	whole := NewEvent(&c, BodyInline, 0).Encode(key, &rec)
	f.Add(whole[:len(whole)-sumSize])
	f.Add(NewEvent(&dedup.Claim{}, BodyChunks, 5).Encode(key, &dedup.Record{})[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		// The checksum is corrected so that the content after it is tested.
		value := Seal(key, bytes.Clone(content))
		var r dedup.Record
		fix, err := DecodeEvent(key, value, &r)
		if err == nil {
			err = fix.Describe(Place{}, &r)
		}
		var d *DamagedError
		if err != nil {
			if !errors.As(err, &d) {
				t.Fatalf("%T", err)
			}
			return
		}
		again := fix.Encode(key, &r)
		var r2 dedup.Record
		if _, err := DecodeEvent(key, again, &r2); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	_, rec := fullRecord()
	key := []byte("skey")
	whole := EncodeState(key, &rec, Outline{Size: 7, Endpoint: "e"})
	f.Add(whole[:len(whole)-sumSize])
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, content []byte) {
		var r dedup.Record
		o, _, err := DecodeState(key, Seal(key, bytes.Clone(content)), &r)
		if err != nil {
			return
		}
		var again dedup.Record
		if got, _, err := DecodeState(key, EncodeState(key, &r, o), &again); err != nil || got != o {
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

func TestTheCountersOfBothVersionsAreRead(t *testing.T) {
	t.Parallel()
	want := Meta{Commit: 1 << 60, Seq: 2, Token: 3, Boot: 4, Wall: time.Unix(1_700_000_000, 5).UTC(), Window: time.Hour,
		Census: Census{true, 6, 7}, Gaps: []Gap{{time.Unix(5, 0).UTC(), time.Hour},
			{time.Unix(9, 0).UTC(), time.Minute}}}
	got, err := DecodeMeta(want.Encode())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("version 2: %s, %v", diff, err)
	}
	if got, err := DecodeMeta((&Meta{}).Encode()); err != nil || !cmp.Equal(got, Meta{}) {
		t.Errorf("zero: %+v, %v", got, err)
	}
	sealed := func(b ...byte) []byte { return Seal(MetaKey, b) }
	for name, value := range map[string][]byte{
		"an unknown field":   sealed(2, 99, 1, 1),
		"a field twice":      sealed(2, 1, 1, 1, 1, 1, 1),
		"a wrong order":      sealed(2, 2, 1, 1, 1, 1, 1),
		"a field cut off":    sealed(2, 1, 2, 1),
		"a field too long":   sealed(2, 1, 2, 1, 1),
		"an unknown version": sealed(3),
	} {
		if m, err := DecodeMeta(value); err == nil {
			t.Errorf("%s is read as %+v", name, m)
		}
	}
}

func TestEveryTypeOfFieldComesBack(t *testing.T) {
	t.Parallel()
	type values struct {
		N uint64
		B bool
		S string
		T time.Time
	}
	for _, want := range []values{
		{}, {N: 1<<64 - 1, B: true, S: "text", T: time.Unix(1, 0).UTC()}, {S: "only"}, {T: time.Unix(-5, 0).UTC()},
	} {
		all := func(f *fields, v *values) []byte {
			uintField(f, 1, &v.N)
			f.bool(4, &v.B)
			f.string(5, &v.S)
			f.time(600, &v.T)
			return f.out
		}
		d := decoder{s: string(all(&fields{}, &want))}
		f := fields{in: &d}
		got := values{N: 7, B: true, S: "before", T: time.Now()}
		all(&f, &got)
		f.end()
		if diff := cmp.Diff(want, got); diff != "" || !d.whole() {
			t.Errorf("%s, whole: %v", diff, d.whole())
		}
	}
}
