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
)

func largeClaim(id string, size int) dedup.Claim {
	c := claimOf(id)
	c.Payload.Body = randomBody(rand.New(rand.NewPCG(7, uint64(size))), size)
	return c
}

// storedBodies counts the large bodies.
func storedBodies(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.view(func(txn *kv.View) error {
		for range txn.Items(nil, record.FamilyBody) {
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
	sizes := []int{record.InlineMost, record.InlineMost + 1, 2 * record.InlineMost, 5*record.InlineMost - 1, 25 << 20}
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
	before := storedBodies(t, s)
	if before != len(sizes)-1 {
		t.Errorf("%d bodies are stored apart", before)
	}
	for i, size := range sizes {
		mustClaim(t, s, largeClaim(fmt.Sprint(i), size), dedup.Known)
	}
	if n := storedBodies(t, s); n != before {
		t.Errorf("duplicates left %d bodies", n-before)
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
			ds, err := s.Claim(context.Background(), largeClaim("same", 3*record.InlineMost))
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
	if n := storedBodies(t, s); n != 1 {
		t.Errorf("%d bodies are left, want one", n)
	}
}

func TestALargeBodyGoesWithItsEvent(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	dropped, purged := largeClaim("dropped", 2*record.InlineMost), largeClaim("purged", 2*record.InlineMost)
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
		if n := storedBodies(t, s); n != 0 {
			t.Errorf("%s: %d bodies are left", c.Key.ID, n)
		}
	}
}

// TestALargeBodyFollowsItsOccurrence stores a body under the key of the second occurrence.
func TestALargeBodyFollowsItsOccurrence(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	first := claimOf("digest")
	first.Tasks, first.Window, first.Occurrence = nil, time.Hour, &dedup.Occurrence{Name: "a", Max: 2}
	mustClaim(t, s, first, dedup.New)
	second := largeClaim("digest", 3*record.InlineMost)
	second.Occurrence = &dedup.Occurrence{Name: "b", Max: 2}
	d := mustClaim(t, s, second, dedup.New)
	if d.Record.Key == first.Key {
		t.Errorf("the key is %v", d.Record.Key)
	}
	r, err := s.Get(t.Context(), d.Record.Event)
	if err != nil {
		t.Fatal(err)
	}
	sameBody(t, r.Payload.Body, second.Payload.Body)
}

// TestALargeClaimThatFailsLeavesNothing refuses a call whose claims do not all fit the backlog, and
// a claim on a low disk.
func TestALargeClaimThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	fs, o := diskOf(10 << 30)
	o.MaxBacklogRecords = 2
	s := openManual(t, t.TempDir(), o)
	large := func(id string) dedup.Claim { return largeClaim(id, 2*record.InlineMost) }
	failed, first := claimOpOf(t, large("a"), claimOf("b"), large("c")), claimOpOf(t, large("d"))
	s.writer.process([]op{failed, first, claimOpOf(t, large("d"))})
	unavailable(t, failed.err, "backlog full")
	if n := storedBodies(t, s.Store); first.err != nil || n != 1 {
		t.Errorf("%d bodies are stored, want 1; %v", n, first.err)
	}
	fs.leave(s.Store, s.disk.state().want+1)
	small, low := claimOpOf(t, claimOf("small")), claimOpOf(t, large("e"))
	s.writer.process([]op{small, low})
	unavailable(t, low.err, "disk low")
	if small.err != nil {
		t.Error(small.err)
	}
	fs.leave(s.Store, 400<<20)
	low = claimOpOf(t, large("e"))
	s.writer.process([]op{low})
	unavailable(t, low.err, "disk low")
	if n := storedBodies(t, s.Store); n != 1 {
		t.Errorf("%d bodies are stored, want 1", n)
	}
}

// TestLargeClaimsWaitForEachOther looks at a large claim in the queue: the bodies of others wait,
// and small ones find room even beside one that is larger than the queue.
func TestLargeClaimsWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := openManual(t, t.TempDir(), quiet())
	var claimed sync.WaitGroup
	claimed.Go(func() {
		if _, err := s.Claim(t.Context(), largeClaim("waits", 2*record.InlineMost)); err != nil {
			t.Error(err)
		}
	})
	ops, _ := s.queue.wait(nil, 0, time.Time{}, nil)
	if free := int64(largeBytes - 2*record.InlineMost); s.large.TryAcquire(free+1) || !s.large.TryAcquire(free) {
		t.Error("the body in the queue is not counted")
	}
	ops[0].self().answer(nil)
	claimed.Wait()
	if !s.large.TryAcquire(2 * record.InlineMost) {
		t.Error("the body that is answered is still counted")
	}
	for _, c := range []dedup.Claim{claimOf("before"), largeClaim("large", queueBytes+1), claimOf("behind")} {
		if err := s.queue.push(claimOpOf(t, c)); err != nil {
			t.Errorf("%s: %v", c.Key.ID, err)
		}
	}
}

func TestClaimsThatDoNotFitOneCommitAreTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var claims []dedup.Claim
	body := make([]byte, queueBytes/7)
	for i := range 7 {
		claims = append(claims, claimOf(fmt.Sprint(i)))
		claims[i].Payload.Body = body
	}
	if _, err := s.Claim(context.Background(), claims...); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("claims of %d bytes: %v", 7*len(body), err)
	}
	if _, err := s.Claim(context.Background(), make([]dedup.Claim, batchOps+1)...); err == nil {
		t.Error("too many claims pass")
	}
	for i := range claims {
		claims[i].OnlyKnown = true
	}
	if ds, err := s.Claim(t.Context(), claims...); err != nil || ds[6].Verdict != dedup.New {
		t.Errorf("bodies that are not stored: %v, %v", ds, err)
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
