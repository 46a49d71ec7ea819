package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func largeClaim(id string, size int) dedup.Claim {
	c := claimOf(id)
	c.Payload.Body = randomBody(rand.New(rand.NewPCG(7, uint64(size))), size)
	return c
}

// storedChunks counts the chunks of large bodies.
func storedChunks(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.view(func(txn *kv.View) error {
		for range txn.Items(record.FamilyChunk) {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sameBody(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("body of %d bytes is not that of %d bytes", len(got), len(want))
	}
}

func TestLargeBodiesAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, quiet())
	ctx := context.Background()
	sizes := []int{record.ChunkSize, record.ChunkSize + 1, 2 * record.ChunkSize, 5*record.ChunkSize - 1, 25 << 20}
	events := make([]string, len(sizes))
	for i, size := range sizes {
		d := mustClaim(t, s, largeClaim(fmt.Sprint(i), size), dedup.New)
		if len(d.Record.Payload.Body) != 0 {
			t.Error("the decision has the body")
		}
		events[i] = d.Record.Event
	}
	check := func(s *Store) {
		for i, size := range sizes {
			r, err := s.Get(ctx, events[i])
			if err != nil {
				t.Fatal(err)
			}
			sameBody(t, r.Payload.Body, largeClaim(fmt.Sprint(i), size).Payload.Body)
		}
	}
	check(s)
	before := storedChunks(t, s)
	for i, size := range sizes {
		mustClaim(t, s, largeClaim(fmt.Sprint(i), size), dedup.Known)
	}
	if n := storedChunks(t, s); n != before {
		t.Errorf("duplicates left %d chunks", n-before)
	}
	for i := range sizes {
		work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		sameBody(t, work[0].Record.Payload.Body, largeClaim(fmt.Sprint(i), sizes[i]).Payload.Body)
	}
	shut(t, s)
	check(open(t, dir, quiet()))
}

func TestOneOfManyLargeClaimsIsStored(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var wg sync.WaitGroup
	var news atomic.Int32
	for range 8 {
		wg.Go(func() {
			ds, err := s.Claim(context.Background(), largeClaim("same", 3*record.ChunkSize))
			if err != nil {
				t.Error(err)
			} else if ds[0].Verdict == dedup.New {
				news.Add(1)
			}
		})
	}
	wg.Wait()
	if news.Load() != 1 {
		t.Errorf("%d were new", news.Load())
	}
	if n := storedChunks(t, s); n != 3 {
		t.Errorf("%d chunks are left, want those of one body", n)
	}
}

func TestALargeBodyGoesWithItsEvent(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	dropped, purged := largeClaim("dropped", 2*record.ChunkSize), largeClaim("purged", 2*record.ChunkSize)
	dropped.DropBody = true
	for _, c := range []dedup.Claim{dropped, purged} {
		event := mustClaim(t, s, c, dedup.New).Record.Event
		finishNext(t, s, 1, dedup.Result{Kind: dedup.ResultDone})
		if c.Key == purged.Key {
			if err := s.Purge(ctx, event); err != nil {
				t.Fatal(err)
			}
		} else if r, err := s.Get(ctx, event); err != nil || r.Payload.Body != nil {
			t.Errorf("dropped body: %d bytes, %v", len(r.Payload.Body), err)
		}
		if n := storedChunks(t, s); n != 0 {
			t.Errorf("%s: %d chunks are left", c.Key.ID, n)
		}
	}
}

// TestALargeBodyFollowsItsOccurrence stores a body under the key of the second occurrence. The
// window of the first one ends before the claim is decided, which is then under its key.
func TestALargeBodyFollowsItsOccurrence(t *testing.T) {
	t.Parallel()
	clock, o := deduptest.NewClock(), quiet()
	o.Clock = clock
	s := open(t, t.TempDir(), o)
	first := claimOf("digest")
	first.Tasks, first.Window, first.Occurrence = nil, time.Hour, &dedup.Occurrence{Name: "a", Max: 2}
	mustClaim(t, s, first, dedup.New)
	second := largeClaim("digest", 3*record.ChunkSize)
	second.Occurrence = &dedup.Occurrence{Name: "b", Max: 2}
	var commits atomic.Int32
	s.options.flush = func(l *redolog.Log) error {
		if commits.Add(1) == 3 {
			clock.Advance(2 * time.Hour)
		}
		return l.Flush()
	}
	d := mustClaim(t, s, second, dedup.New)
	if d.Record.Key != first.Key {
		t.Errorf("the key is %v", d.Record.Key)
	}
	r, err := s.Get(t.Context(), d.Record.Event)
	if err != nil {
		t.Fatal(err)
	}
	sameBody(t, r.Payload.Body, second.Payload.Body)
	mustClaim(t, s, claimOf("later"), dedup.New)
	if n := storedChunks(t, s); n != 3 {
		t.Errorf("%d chunks are stored", n)
	}
}

func TestChunksWithoutARecordAreDeletedAtTheNextStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, quiet())
	kept := largeClaim("kept", 2*record.ChunkSize)
	event := mustClaim(t, s, kept, dedup.New).Record.Event
	o := claimOpOf(t, largeClaim("orphan", 3*record.ChunkSize))
	// The process dies between the chunks and the record.
	if err := s.storeBodies(context.Background(), o, []record.Hash{o.claims[0].hash}); err != nil {
		t.Fatal(err)
	}
	if n := storedChunks(t, s); n != 5 {
		t.Fatalf("%d chunks", n)
	}
	onCommitter(t, s, func(c *committer) {
		if err := (&recovery{committer: c}).sweepChunks(); err != nil { // of this boot: a record may still follow
			t.Error(err)
		}
	})
	if n := storedChunks(t, s); n != 5 {
		t.Fatalf("%d chunks after a sweep of the same boot", n)
	}
	shut(t, s)
	again := open(t, dir, quiet())
	if n := storedChunks(t, again); n != 2 {
		t.Errorf("%d chunks, want those of the kept event", n)
	}
	r, err := again.Get(context.Background(), event)
	if err != nil {
		t.Fatal(err)
	}
	sameBody(t, r.Payload.Body, kept.Payload.Body)
}

func TestALargeClaimThatIsRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	s := open(t, t.TempDir(), o)
	// The disk runs low after the third chunk.
	var commits atomic.Int32
	s.options.flush = func(l *redolog.Log) error {
		if commits.Add(1) == 3 {
			fs.leave(s, 400<<20)
		}
		return l.Flush()
	}
	_, err := s.Claim(context.Background(), largeClaim("a", 6*record.ChunkSize))
	unavailable(t, err, "disk low")
	fs.leave(s, 10<<30)
	mustClaim(t, s, claimOf("b"), dedup.New)
	if n := storedChunks(t, s); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
}

func TestClaimsThatDoNotFitOneCommitAreTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var claims []dedup.Claim
	for i := range 7 {
		claims = append(claims, largeClaim(fmt.Sprint(i), record.ChunkSize))
	}
	if _, err := s.Claim(context.Background(), claims...); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("claims of %d bytes: %v", 7*record.ChunkSize, err)
	}
	if _, err := s.Claim(context.Background(), make([]dedup.Claim, batchOps+1)...); err == nil {
		t.Error("too many claims pass")
	}
	for i := range claims {
		claims[i].OnlyKnown = true
		mustClaim(t, s, claims[i], dedup.New)
	}
}

// TestATransactionThatBadgerRefusesIsSplit brings more keys into one batch than a transaction
// takes.
func TestATransactionThatBadgerRefusesIsSplit(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var wg sync.WaitGroup
	for c := range 900 {
		wg.Go(func() {
			claim := claimOf(fmt.Sprint(c))
			claim.Payload.Body = nil
			for a := range 64 {
				claim.Aliases = append(claim.Aliases, dedup.Key{Principal: "p", Space: "nonce",
					ID: fmt.Sprintf("%d-%d", c, a)})
			}
			if _, err := s.Claim(context.Background(), claim); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st, err := s.Stats(context.Background()); err != nil || st.Accepted != 900 {
		t.Errorf("%+v, %v", st, err)
	}
}
