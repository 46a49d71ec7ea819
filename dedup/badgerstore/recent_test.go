package badgerstore

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

func TestListsGoBeyondWhatIsRemembered(t *testing.T) {
	t.Parallel()
	s := filled(t, 10, smallClaim)
	ids := func(s *Store, f dedup.Filter) (out string) {
		t.Helper()
		for r, err := range s.List(context.Background(), f) {
			if err != nil {
				t.Fatal(err)
			}
			out += r.Key.ID
		}
		return out
	}
	check := func(s *Store) {
		t.Helper()
		for _, tc := range []struct {
			filter dedup.Filter
			want   string
		}{
			{dedup.Filter{}, "9876543210"},
			{dedup.Filter{Limit: 3}, "987"},
			{dedup.Filter{Limit: 8}, "98765432"},
			{dedup.Filter{Before: 5, Limit: 2}, "32"},
			{dedup.Filter{ID: "1"}, "1"},
		} {
			if got := ids(s, tc.filter); got != tc.want {
				t.Errorf("%+v: %s, want %s", tc.filter, got, tc.want)
			}
		}
	}
	check(s)
	s.mu.Lock()
	s.recent.events, s.recent.truncated = s.recent.events[6:], true
	s.mu.Unlock()
	check(s)
	shut(t, s)
	check(open(t, s.dir, quiet()))
}

func TestTheNewestAreRemembered(t *testing.T) {
	t.Parallel()
	const n = 2*recentMax + 100
	var r recent
	for _, seq := range rand.Perm(n) {
		r.add(record.Recent{Seq: uint64(seq)})
	}
	r.trim()
	if !r.truncated || len(r.events) != recentMax ||
		r.events[0].Seq != n-recentMax || r.events[recentMax-1].Seq != n-1 {
		t.Errorf("%d events from %d to %d", len(r.events), r.events[0].Seq, r.events[len(r.events)-1].Seq)
	}
	r = recent{}
	for seq := range n {
		r.add(record.Recent{Seq: uint64(seq)})
	}
	if last := r.events[len(r.events)-1]; !r.truncated || len(r.events) < recentMax || last.Seq != n-1 {
		t.Errorf("%d events up to %d", len(r.events), last.Seq)
	}
}

func TestAListReadsEveryPage(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	for i := range pageSize/64 + 1 {
		var claims []dedup.Claim
		for n := range 64 {
			claims = append(claims, smallClaim(64*i+n))
		}
		if _, err := s.Claim(t.Context(), claims...); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	s.recent.events, s.recent.truncated = nil, true
	s.mu.Unlock()
	if n := len(everything(t, s)); n != pageSize+64 {
		t.Errorf("%d events are listed", n)
	}
}
