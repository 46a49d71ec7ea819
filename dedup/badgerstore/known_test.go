package badgerstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// finishedClaims returns claims whose events are finished in the store: without and with a name, in
// the overlay or at rest.
func finishedClaims(t *testing.T, s *Store) []dedup.Claim {
	t.Helper()
	named := claimOf("named")
	named.Occurrence = &dedup.Occurrence{Name: "n", Max: 1}
	claims := []dedup.Claim{claimOf("unnamed"), named}
	for _, c := range claims {
		mustClaim(t, s, c, dedup.New)
	}
	finishNext(t, s, len(claims), dedup.Result{Kind: dedup.ResultDone})
	return claims
}

// TestADuplicateOfAFinishedEventWaitsForNoCommit hangs the disk during the commit of another event.
// Its own duplicate is not answered meanwhile, because it may not be durable.
func TestADuplicateOfAFinishedEventWaitsForNoCommit(t *testing.T) {
	t.Parallel()
	d := openStuck(t)
	defer shut(t, d.Store)
	claims := finishedClaims(t, d.Store)
	idle(t, d.Store)
	commits := commitsOf(t, d.Store)
	slow := claimOf("slow")
	slow.Tasks = nil // finished once it is committed
	claimed, release := d.hang(slow)
	for _, c := range claims {
		mustClaim(t, d.Store, c, dedup.Known)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if ds, err := d.Claim(ctx, slow); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a duplicate of an event that is not durable: %v, %v", ds, err)
	}
	d.pass(d.Store, 5*time.Second)
	for _, c := range claims {
		_, err := d.Claim(t.Context(), c)
		unavailable(t, err, "the disk does not respond")
	}
	<-claimed
	release()
	rest(d.Store)
	d.pass(d.Store, 2*beatEvery)
	mustClaim(t, d.Store, slow, dedup.Known)
	if n := commitsOf(t, d.Store) - commits; n != 1 {
		t.Errorf("%d commits, want that of the slow event", n)
	}
}

// TestOnlyDuplicatesOfFinishedEventsAreAnsweredAtOnce asks without the committer, which then
// decides the same.
func TestOnlyDuplicatesOfFinishedEventsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	claims := finishedClaims(t, s)
	renamed, other, pending := claims[1], claims[0], claimOf("pending")
	renamed.Occurrence = &dedup.Occurrence{Name: "m", Max: 1}
	other.Fingerprint[0]++
	mustClaim(t, s, pending, dedup.New)
	for _, row := range []struct {
		what   string
		claim  dedup.Claim
		atOnce bool
		want   dedup.Verdict
	}{
		{"a duplicate without a name", claims[0], true, dedup.Known},
		{"a duplicate with its name", claims[1], true, dedup.Known},
		{"known content under another name", renamed, false, dedup.Repeated},
		{"another payload", other, false, dedup.Conflict},
		{"a duplicate of an open event", pending, false, dedup.Known},
		{"a new event", claimOf("new"), false, dedup.New},
	} {
		d, ok := s.known(t.Context(), &row.claim, record.HashOf(row.claim.Key))
		if ok != row.atOnce || ok && d.Verdict != row.want {
			t.Errorf("%s: %v, decided at once: %t", row.what, d.Verdict, ok)
		}
		mustClaim(t, s, row.claim, row.want)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := s.known(canceled, &claims[0], record.HashOf(claims[0].Key)); ok {
		t.Error("a duplicate was answered although its context had ended")
	}
	s.closed.Store(true)
	if _, ok := s.known(t.Context(), &claims[0], record.HashOf(claims[0].Key)); ok {
		t.Error("a duplicate was answered although the store is closed")
	}
	s.closed.Store(false)
}
