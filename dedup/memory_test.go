package dedup_test

import (
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	deduptest.Run(t, deduptest.Harness{
		Open: func(_ *testing.T, clock *deduptest.Clock) dedup.Store {
			return dedup.NewMemory(dedup.MemoryOptions{Clock: clock})
		},
	})
}
