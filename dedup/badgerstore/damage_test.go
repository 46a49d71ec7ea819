package badgerstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// spoil changes one byte of the content under a key in the database, or of the value if there is
// none.
func spoil(t *testing.T, s *Store, key []byte) {
	t.Helper()
	value, content := bothOf(t, s, key)
	if value == nil {
		t.Fatalf("no value under %x", key)
	}
	if content != nil {
		content[len(content)/2] ^= 1
	} else {
		value[len(value)/2] ^= 1
	}
	if err := s.write(mutation{Key: key, Value: value, Content: content}); err != nil {
		t.Fatal(err)
	}
}

// spoilState changes one byte of the state of an event.
func spoilState(t *testing.T, s *Store, key []byte) {
	t.Helper()
	value := valueOf(t, s, key)
	value[len(value)/2] ^= 1
	if err := s.write(mutation{Key: key, Value: value, Keep: true}); err != nil {
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
	o := quiet()
	o.rowBytes = 1 // everything is read from disk
	s := open(t, t.TempDir(), o)
	ctx := context.Background()
	bad, good := claimOf("bad"), claimOf("good")
	event := mustClaim(t, s, bad, dedup.New).Record.Event
	mustClaim(t, s, good, dedup.New)
	spoil(t, s, record.HashOf(bad.Key).Key(record.FamilyEvent))
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
	again := open(t, s.dir, o)
	_, err = again.Claim(ctx, bad)
	damagedIs(t, err, "Claim after opening again")
}

// TestADuplicateOfAFinishedEventDoesNotReadItsPayload damages the payload: the state, which has the
// response, is intact.
func TestADuplicateOfAFinishedEventDoesNotReadItsPayload(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("a")
	mustClaim(t, s, c, dedup.New)
	finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone})
	spoil(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	if d := mustClaim(t, s, c, dedup.Known); d.Record.Response.Status != c.Response.Status {
		t.Errorf("response %+v", d.Record.Response)
	}
	if n := s.Damaged(); n != 0 {
		t.Errorf("%d damaged values were read", n)
	}
	c.Fingerprint[0]++
	_, err := s.Claim(t.Context(), c)
	damagedIs(t, err, "Claim of another payload")
}

func TestADamagedStateOrAliasIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("bad")
	c.Tasks = nil
	mustClaim(t, s, c, dedup.New)
	spoilState(t, s, record.HashOf(c.Key).Key(record.FamilyEvent))
	_, err := s.Claim(context.Background(), c)
	damagedIs(t, err, "Claim")

	alias := dedup.Key{Principal: "p", Space: dedup.SpaceNonce, ID: "n"}
	c = claimOf("with alias")
	c.Aliases = []dedup.Key{alias}
	mustClaim(t, s, c, dedup.New)
	spoil(t, s, record.HashOf(alias).Key(record.FamilyAlias))
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
	value := valueOf(t, s, record.HashOf(a.Key).Key(record.FamilyEvent))
	if err := s.write(mutation{Key: record.HashOf(b.Key).Key(record.FamilyEvent), Value: value}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Claim(context.Background(), b)
	damagedIs(t, err, "Claim")
}

func TestADamagedTaskDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	o.rowBytes = 1 // everything is read from disk
	s := open(t, dir, o)
	bad := claimOf("bad")
	mustClaim(t, s, bad, dedup.New)
	mustClaim(t, s, claimOf("good"), dedup.New)
	spoil(t, s, record.HashOf(bad.Key).Key(record.FamilyEvent))
	for range 2 {
		work, err := s.Take(context.Background(), dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
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

// TestOneDamagedRecordDoesNotRefuseTheOthersOfItsBatch claims five events, two of which have
// damaged records.
func TestOneDamagedRecordDoesNotRefuseTheOthersOfItsBatch(t *testing.T) {
	t.Parallel()
	s := filled(t, 5, smallClaim)
	for _, i := range []int{1, 3} {
		spoil(t, s, record.HashOf(smallClaim(i).Key).Key(record.FamilyEvent))
	}
	onCommitter(t, s, func(c *committer) { c.cache.rows = map[record.Place]*row{} })
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
	held.Hold, held.Response, held.Lease = true, dedup.Response{}, time.Minute
	held.Tasks = []dedup.NewTask{{Handler: "a"}}
	_, err = s.Claim(context.Background(), smallClaim(1), held)
	damagedIs(t, err, "Claim")
	mustClaim(t, s, held, dedup.New) // its caller would not have got the lease
}
