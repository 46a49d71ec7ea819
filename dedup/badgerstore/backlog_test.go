package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

func TestAFullBacklogRefusesNewEventsUntilAFifthIsFree(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		bounds func(o *Options)
	}{
		{"by number", func(o *Options) { o.MaxBacklogRecords = 10 }},
		{"by bytes", func(o *Options) { o.MaxBacklogBytes = 10 * 1024 }}, // claimOf has bodies of 1 KiB
		{"by the first of both", func(o *Options) { o.MaxBacklogBytes, o.MaxBacklogRecords = 1<<30, 10 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := quiet()
			tc.bounds(&o)
			s := open(t, t.TempDir(), o)
			ctx := context.Background()
			for i := range 10 {
				mustClaim(t, s, claimOf(fmt.Sprint(i)), dedup.New)
			}
			refused := func(s *Store) {
				t.Helper()
				_, err := s.Claim(ctx, claimOf("more"))
				if u := unavailable(t, err, "backlog full: 1"); u.RetryAfter <= 0 {
					t.Error("no RetryAfter")
				}
				unavailable(t, s.Health(ctx), "backlog full")
			}
			refused(s)
			mustClaim(t, s, claimOf("3"), dedup.Known)
			quarantined, held, untasked := claimOf("quarantined"), claimOf("held"), claimOf("no task")
			quarantined.Quarantine, untasked.Tasks = &dedup.Quarantine{Reason: "conflict"}, nil
			held.Hold, held.Lease, held.Response = true, time.Minute, dedup.Response{}
			for _, c := range []dedup.Claim{quarantined, held, untasked} {
				mustClaim(t, s, c, dedup.New) // none of these waits for workers
			}
			shut(t, s)
			s = open(t, s.dir, o)
			unavailable(t, s.Health(ctx), "backlog full") // a restart keeps it
			finish := func() {
				t.Helper()
				work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
					t.Fatal(err)
				}
			}
			finish() // 9 are left
			_, err := s.Claim(ctx, claimOf("more"))
			unavailable(t, err, "backlog full: 9")
			finish() // 8: at 80 %
			_, err = s.Claim(ctx, claimOf("more"))
			unavailable(t, err, "backlog full: 8")
			finish()
			if err := s.Health(ctx); err != nil {
				t.Fatalf("with 7 of 10: %v", err)
			}
			for i := range 3 {
				mustClaim(t, s, claimOf(fmt.Sprint("new ", i)), dedup.New)
			}
			refused(s)
		})
	}
}

func TestABatchDoesNotPassTheBoundOfTheBacklog(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.MaxBacklogRecords = 5
	s := open(t, t.TempDir(), o)
	var claims []dedup.Claim
	for i := range 6 {
		claims = append(claims, claimOf(fmt.Sprint(i)))
	}
	_, err := s.Claim(context.Background(), claims...)
	unavailable(t, err, "backlog full")
	if st, err := s.Stats(context.Background()); err != nil || st.Records != 0 {
		t.Errorf("%d records of a refused batch, %v", st.Records, err)
	}
	if _, err := s.Claim(context.Background(), claims[:5]...); err != nil {
		t.Error(err)
	}
}

func TestAFullBacklogStoresNoLargeBody(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.MaxBacklogRecords = 1
	s := open(t, t.TempDir(), o)
	mustClaim(t, s, claimOf("a"), dedup.New)
	_, err := s.Claim(context.Background(), largeClaim("large", 3*record.InlineMost))
	unavailable(t, err, "backlog full")
	if n := stored(t, s, record.FamilyBody); n != 0 {
		t.Errorf("%d bodies were stored", n)
	}
	mustClaim(t, s, claimOf("a"), dedup.Known)
}

func TestTheDefaultBoundOfTheBacklogFollowsTheMemory(t *testing.T) {
	t.Parallel()
	has := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	unknown := func() (uint64, error) { return 0, errors.New("not here") }
	for name, tc := range map[string]struct {
		goLimit int64
		others  []func() (uint64, error)
		want    int64
	}{
		"GOMEMLIMIT":  {2400 << 10, []func() (uint64, error){has(1 << 40)}, 1 << 10},
		"a cgroup":    {math.MaxInt64, []func() (uint64, error){has(2400 << 20), has(1 << 40)}, 1 << 20},
		"no cgroup":   {math.MaxInt64, []func() (uint64, error){unknown, has(4800 << 20)}, 2 << 20},
		"no limit":    {math.MaxInt64, []func() (uint64, error){has(math.MaxUint64), has(2400)}, 1},
		"it is small": {1, nil, 1},
		"nothing":     {math.MaxInt64, []func() (uint64, error){unknown, unknown}, 1_000_000},
	} {
		if got := backlogRecords(tc.goLimit, tc.others...); got != tc.want {
			t.Errorf("%s: %d events, want %d", name, got, tc.want)
		}
	}
	if s := open(t, t.TempDir(), quiet()); s.backlog.maxRecords <= 0 {
		t.Errorf("a store has the bound %d", s.backlog.maxRecords)
	}
}
