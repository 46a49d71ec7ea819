package kv

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// TestACommitTakesItsStepsInOrder commits without a disk. Each step may fail, the first time or the
// second: then none of the later ones is done, above all nothing is published unflushed.
func TestACommitTakesItsStepsInOrder(t *testing.T) {
	t.Parallel()
	type errs map[string][]error // of each step, in the order of its times
	full, refused, final := redolog.ErrFull, &dedup.ErrUnavailable{Reason: "no space"}, syscall.EIO
	for _, tc := range []struct {
		steps string
		errs  errs
		used  int // of 16 segments
		err   error
		tried bool // not a NotWrittenError
	}{
		{steps: "room append flush publish reached", used: 7, tried: true},
		{steps: "room append flush publish reached request", used: 8, tried: true},
		{steps: "room append checkpoint append flush publish reached", errs: errs{"append": {full}}, tried: true},

		{steps: "room", errs: errs{"room": {refused}}, err: refused},
		{steps: "room", errs: errs{"room": {final}}, err: final, tried: true},
		{steps: "room append", errs: errs{"append": {final}}, err: final, tried: true},
		{
			steps: "room append checkpoint", errs: errs{"append": {full}, "checkpoint": {syscall.EMFILE}},
			err: syscall.EMFILE,
		},
		{
			steps: "room append checkpoint", errs: errs{"append": {full}, "checkpoint": {final}},
			err: final, tried: true,
		},
		{steps: "room append checkpoint append", errs: errs{"append": {full, full}}, err: full},
		{steps: "room append checkpoint append", errs: errs{"append": {full, final}}, err: final, tried: true},
		{steps: "room append flush", errs: errs{"flush": {final}}, err: final, tried: true},
	} {
		var done []string
		step := func(name string) (err error) {
			done = append(done, name)
			if errs := tc.errs[name]; len(errs) > 0 {
				err, tc.errs[name] = errs[0], errs[1:]
			}
			return err
		}
		entries, at := []Entry{{Key: []byte("k")}}, redolog.Position{Segment: 3, Offset: 4}
		given := func(n uint64, e []Entry, end redolog.Position) {
			if n != 5 || len(e) != 1 || &e[0] != &entries[0] || end != at {
				t.Errorf("%q: commit %d with %d entries at %v", tc.steps, n, len(e), end)
			}
		}
		e := commitEnv{
			makeRoom: func() error { return step("room") },
			append: func(n uint64, e []Entry) (redolog.Position, error) {
				given(n, e, at)
				return at, step("append")
			},
			checkpoint: func() error { return step("checkpoint") },
			flush:      func() error { return step("flush") },
			publish: func(n uint64, e []Entry, end redolog.Position) {
				given(n, e, end)
				_ = step("publish") // cannot fail
			},
			pressure: func() (used, total int) { return tc.used, 16 },
			request:  func() { done = append(done, "request") },
			reached:  func() { done = append(done, "reached") },
		}
		err := e.commit(5, entries)
		if got := strings.Join(done, " "); got != tc.steps {
			t.Errorf("%q: %s", tc.steps, got)
		}
		if !errors.Is(err, tc.err) || errors.As(err, new(*storedir.NotWrittenError)) == tc.tried {
			t.Errorf("%q: %v", tc.steps, err)
		}
	}
}
