package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

func badgerSource(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dgraph-io/badger/v4").Output()
	if err != nil {
		t.Skip("the sources of Badger are not here: ", err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// spoil changes one byte of the value under key, in the database.
func spoil(t *testing.T, s *Store, key []byte) {
	t.Helper()
	err := s.db.Update(func(txn *badger.Txn) error {
		value, err := readValue(txn, key)
		if err != nil || value == nil {
			return fmt.Errorf("no value under %x: %w", key, err)
		}
		value[len(value)/2] ^= 1
		return txn.Set(key, value)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func damagedIs(t *testing.T, err error, what string) {
	t.Helper()
	var d *DamagedError
	if !errors.As(err, &d) {
		t.Errorf("%s: %v, want a DamagedError", what, err)
	}
}

func TestADamagedEventIsAnErrorAndNeverNew(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	bad, good := claimOf("bad"), claimOf("good")
	bad.Tasks, good.Tasks = nil, nil // finished, so that nothing is in memory
	event := mustClaim(t, s, bad, dedup.New).Record.Event
	mustClaim(t, s, good, dedup.New)
	spoil(t, s, hashOf(bad.Key).key(familyEvent))
	_, err := s.Claim(ctx, bad)
	damagedIs(t, err, "Claim")
	_, err = s.Claim(ctx, claimOf("third"), bad)
	damagedIs(t, err, "Claim of two")
	_, err = s.Get(ctx, event)
	damagedIs(t, err, "Get")
	mustClaim(t, s, claimOf("third"), dedup.Known) // it does not wait for the repair of another
	mustClaim(t, s, good, dedup.Known)
	n := 0
	for _, err := range s.List(ctx, dedup.Filter{}) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 2 || s.Damaged() == 0 {
		t.Errorf("%d events listed, damage met %d times", n, s.Damaged())
	}
	shut(t, s)
	again := open(t, s.dir, quiet())
	_, err = again.Claim(ctx, bad)
	damagedIs(t, err, "Claim after opening again")
}

func TestADamagedStateOrAliasIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("bad")
	c.Tasks = nil
	mustClaim(t, s, c, dedup.New)
	spoil(t, s, hashOf(c.Key).key(familyState))
	_, err := s.Claim(context.Background(), c)
	damagedIs(t, err, "Claim")

	alias := dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "n"}
	c = claimOf("with alias")
	c.Aliases = []dedup.Key{alias}
	mustClaim(t, s, c, dedup.New)
	spoil(t, s, hashOf(alias).key(familyAlias))
	c.Key.ID = "other"
	_, err = s.Claim(context.Background(), c)
	damagedIs(t, err, "Claim with the alias")
}

func TestAValueUnderAnotherKeyIsDamaged(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	a, b := claimOf("a"), claimOf("b")
	a.Tasks = nil
	mustClaim(t, s, a, dedup.New)
	err := s.db.Update(func(txn *badger.Txn) error {
		value, err := readValue(txn, hashOf(a.Key).key(familyEvent))
		if err != nil {
			return err
		}
		return txn.Set(hashOf(b.Key).key(familyEvent), value)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Claim(context.Background(), b)
	damagedIs(t, err, "Claim")
}

func TestADamagedTaskDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.CacheBytes = 1 // everything is read from the disk
	s := open(t, dir, o)
	bad := claimOf("bad")
	mustClaim(t, s, bad, dedup.New)
	mustClaim(t, s, claimOf("good"), dedup.New)
	spoil(t, s, hashOf(bad.Key).key(familyEvent))
	for range 2 {
		work, err := s.Take(context.Background(), 1, 1<<20, time.Minute)
		if err != nil || work[0].Record.Key.ID != "good" {
			t.Fatalf("Take: %v, %v", work, err)
		}
		if err := s.Finish(context.Background(), work[0].Lease, dedup.Result{Kind: dedup.ResultRelease}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADamagedTableIsFound(t *testing.T) {
	t.Parallel()
	s := filled(t, 200, smallClaim)
	shut(t, s)
	for _, f := range logs(t, s.dir, ".sst") {
		flip(t, f, 500)
	}
	if again, err := Open(s.dir, quiet()); err == nil {
		t.Error("a store with a damaged table was opened", again.Close())
	}
}

func TestCheckOnOpenFindsADamagedBody(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("a")
	c.Tasks = nil
	mustClaim(t, s, c, dedup.New)
	shut(t, s)
	for _, f := range logs(t, s.dir, ".vlog") {
		flip(t, f, 400)
	}
	o := quiet()
	o.CheckOnOpen = true
	if again, err := Open(s.dir, o); err == nil {
		t.Error("a store with a damaged body was opened", again.Close())
	} else if !strings.Contains(err.Error(), "restore a backup") {
		t.Error(err)
	}
	again := open(t, s.dir, quiet())
	_, err := again.Claim(context.Background(), c)
	damagedIs(t, err, "Claim")
}

// fullRecord is a record with something in every field.
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
		Event: "e", Fingerprint: dedup.Fingerprint{1, 31: 2}, Generation: 3, Seq: 1 << 40, Accepted: at, Finished: at.Add(1),
		Window: time.Hour, Expires: at.Add(time.Hour), Hold: true, DropBody: true, QuarantineReason: "conflict", Original: "o",
		QuarantineCount: 7, Note: "note",
		Response: dedup.Response{Status: 299, Header: map[string][]string{"Location": {"/"}}, Body: []byte("answer")},
		Tasks: []dedup.Task{
			{Handler: "h", Lane: "l", State: dedup.Dead, Attempt: 4, Postponed: 1, Due: at, Started: at, Ended: at, Reason: "r", Err: "e", Token: 9, Until: at},
			{Handler: "h2", State: dedup.Pending},
		},
	}
	r.Payload.Body = nil
	return c, r
}

func TestStoredValuesComeBackWhole(t *testing.T) {
	t.Parallel()
	c, want := fullRecord()
	key := hashOf(c.Key).key(familyEvent)
	value := encodeEvent(key, encodeFixed(&c, bodyInline, 0), &want)
	var got dedup.Record
	f, err := decodeEvent(key, value, &got)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.describe(place{hash: hashOf(c.Key)}, &got); err != nil {
		t.Fatal(err)
	}
	got.Event = want.Event
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(f.inline()) != "the body" {
		t.Errorf("body %q", f.inline())
	}
	var state dedup.Record
	about := outline{size: 1 << 40, endpoint: "e"}
	if o, outlined, err := decodeState(key, encodeState(key, &want, about), &state); err != nil || !outlined || o != about {
		t.Fatal(o, outlined, err)
	}
	want.Key, want.Aliases, want.Payload, want.Event = dedup.Key{}, nil, dedup.Payload{}, ""
	if diff := cmp.Diff(want, state); diff != "" {
		t.Error(diff)
	}
	bare := f.without(bodyDropped)
	if again, err := decodeEvent(key, encodeEvent(key, bare, &want), &got); err != nil || len(again.inline()) != 0 || again.size != 8 {
		t.Errorf("without its body: %+v, %v", again, err)
	}
}

func TestEverySingleByteOfAValueIsChecked(t *testing.T) {
	t.Parallel()
	c, rec := fullRecord()
	key := hashOf(c.Key).key(familyEvent)
	value := encodeEvent(key, encodeFixed(&c, bodyInline, 0), &rec)
	var r dedup.Record
	for i := range value {
		bad := bytes.Clone(value)
		bad[i] ^= 1 << rand.IntN(8)
		if _, err := decodeEvent(key, bad, &r); err == nil {
			t.Errorf("byte %d is not checked", i)
		}
	}
	for n := range value {
		if _, err := decodeEvent(key, value[:n], &r); err == nil {
			t.Errorf("the first %d bytes pass", n)
		}
	}
}

func TestEventIDsFindTheirRecord(t *testing.T) {
	t.Parallel()
	h := hashOf(dedup.Key{ID: "x"})
	for _, seq := range []uint64{1, 35, 36, 1 << 63} {
		id := eventID(h, seq)
		if gotHash, gotSeq, ok := parseEventID(id); !ok || gotHash != h || gotSeq != seq {
			t.Errorf("%s: %x %d %v", id, gotHash, gotSeq, ok)
		}
	}
	id := eventID(h, 77)
	for _, bad := range []string{"", "-", id + "0", strings.ToUpper(id), "0" + id, "0-" + id[3:], strings.Replace(id, "-", "--", 1)} {
		if _, _, ok := parseEventID(bad); ok {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	c, rec := fullRecord()
	key := hashOf(c.Key).key(familyEvent)
	whole := encodeEvent(key, encodeFixed(&c, bodyInline, 0), &rec)
	f.Add(whole[:len(whole)-sumSize])
	f.Add(encodeEvent(key, encodeFixed(&dedup.Claim{}, bodyChunks, 5), &dedup.Record{})[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		// The checksum is put right, so that what stands behind it is tried.
		value := seal(key, bytes.Clone(content))
		var r dedup.Record
		fix, err := decodeEvent(key, value, &r)
		if err == nil {
			err = fix.describe(place{}, &r)
		}
		var d *DamagedError
		if err != nil {
			if !errors.As(err, &d) {
				t.Fatalf("%T", err)
			}
			return
		}
		again := encodeEvent(key, fix, &r)
		var r2 dedup.Record
		if _, err := decodeEvent(key, again, &r2); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	_, rec := fullRecord()
	key := []byte("skey")
	whole := encodeState(key, &rec, outline{size: 7, endpoint: "e"})
	f.Add(whole[:len(whole)-sumSize])
	f.Add([]byte{codecVersion})
	f.Fuzz(func(t *testing.T, content []byte) {
		var r dedup.Record
		o, _, err := decodeState(key, seal(key, bytes.Clone(content)), &r)
		if err != nil {
			return
		}
		var again dedup.Record
		if got, _, err := decodeState(key, encodeState(key, &r, o), &again); err != nil || got != o {
			t.Fatalf("what was read cannot be read again: %v, %v", got, err)
		}
	})
}

func FuzzParseEventID(f *testing.F) {
	f.Add(eventID(hashOf(dedup.Key{ID: "x"}), 5))
	f.Fuzz(func(t *testing.T, id string) {
		if h, seq, ok := parseEventID(id); ok && eventID(h, seq) != id {
			t.Fatalf("%q is not the only name of its event", id)
		}
	})
}

// TestOneDamagedRecordDoesNotRefuseTheOthersOfItsBatch has two of five claims meet damaged records.
func TestOneDamagedRecordDoesNotRefuseTheOthersOfItsBatch(t *testing.T) {
	t.Parallel()
	s := filled(t, 5, smallClaim)
	for _, i := range []int{1, 3} {
		spoil(t, s, hashOf(smallClaim(i).Key).key(familyEvent))
	}
	s.cache.rows = map[place]*row{}
	var claims []dedup.Claim
	for i := range 8 {
		claims = append(claims, smallClaim(i))
	}
	_, err := s.Claim(context.Background(), claims...)
	damagedIs(t, err, "Claim")
	for i := 5; i < 8; i++ {
		mustClaim(t, s, smallClaim(i), dedup.Known)
	}
	_, err = s.Claim(context.Background(), smallClaim(3))
	damagedIs(t, err, "Claim")
	held := claimOf("held")
	held.Hold, held.Response, held.Lease, held.Tasks = true, dedup.Response{}, time.Minute, []dedup.NewTask{{Handler: "a"}}
	_, err = s.Claim(context.Background(), smallClaim(1), held)
	damagedIs(t, err, "Claim")
	mustClaim(t, s, held, dedup.New) // its caller would not have had the lease
}
