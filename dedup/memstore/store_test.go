package memstore_test

import (
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	deduptest.Run(t, deduptest.Harness{
		Open: func(_ *testing.T, clock *deduptest.Clock) dedup.Store {
			return memstore.New(memstore.Options{Clock: clock})
		},
	})
}

func TestAMemoryStoreForgetsTheOldestDays(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	s := memstore.New(memstore.Options{Clock: clock, Remember: dedup.Retention{Max: 10}})
	deduptest.ForgetsTheOldestDays(t, s, clock, func() {})
}

func TestAMemoryStoreWithoutRetentionRemembersNothing(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	s := memstore.New(memstore.Options{Clock: clock, Remember: dedup.Retention{For: -1}})
	deduptest.RemembersNothing(t, s, clock)
}
