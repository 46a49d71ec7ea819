package forward

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
)

// sharedNotes is a Shared in memory.
type sharedNotes struct {
	*memstore.Store
	fails error
}

func inMemory() *sharedNotes { return &sharedNotes{Store: memstore.New(memstore.Options{})} }

func (m *sharedNotes) Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error] {
	if m.fails != nil {
		return func(yield func(dedup.Note, error) bool) { yield(dedup.Note{}, m.fails) }
	}
	return m.Store.Notes(ctx, space)
}

func (m *sharedNotes) ChangeNote(ctx context.Context, k dedup.Key, change func(string) (string, error)) error {
	if m.fails != nil {
		return m.fails
	}
	return m.Store.ChangeNote(ctx, k, change)
}

// shared makes a target that shares its state, and forgets when it was read.
func shared(t *testing.T, address string, with *sharedNotes, change func(*Config)) (*Target, *State) {
	t.Helper()
	target := to(t, address, change)
	check(t, target.cfg.State.Share(with, nil))
	return target, target.cfg.State
}

func (s *State) age() { s.read = time.Time{} }

func TestWhatProcessesShareIsKnownToAll(t *testing.T) {
	t.Parallel()
	f := plain(t, says(404), says(404), says(404), says(200))
	with := inMemory()
	limit := func(c *Config) { c.TerminalLimit = 3 }
	a, stateA := shared(t, f.URL, with, limit)
	b, stateB := shared(t, f.URL, with, limit)
	want(t, deliver(t, a, "1"), Terminal, 404)
	want(t, deliver(t, b, "2"), Terminal, 404)
	want(t, deliver(t, a, "3"), Terminal, 404) // the third in a row, of both together
	want(t, deliver(t, a, "4"), Deferred, 0)
	stateB.age()
	want(t, deliver(t, b, "4"), Deferred, 0)
	c, _ := shared(t, f.URL, with, limit) // a start
	want(t, deliver(t, c, "4"), Deferred, 0)
	other, _ := shared(t, f.URL+"/other", with, limit) // a receiver whose configuration is newer
	if other.cfg.State.List()[0].Off {
		t.Error("the state of one URL is that of another")
	}
	check(t, stateB.SwitchOn("shop"))
	stateA.age()
	want(t, deliver(t, a, "5"), Accepted, 200)
}

func TestAChangeThatIsNotSharedIsNotMade(t *testing.T) {
	t.Parallel()
	f := plain(t, says(200))
	with := inMemory()
	target, state := shared(t, f.URL, with, nil)
	with.fails = errors.New("the database is gone")
	if err := state.SwitchOff("shop", "", time.Now()); err == nil || !strings.Contains(err.Error(), "it is not done") {
		t.Errorf("switched off: %v", err)
	}
	state.age()
	want(t, deliver(t, target, "1"), Accepted, 200) // by what was known before
	with.fails = nil
	if err := state.SwitchOff("none", "", time.Now()); !errors.Is(err, ErrUnknownTarget) {
		t.Errorf("an unknown target: %v", err)
	}
	check(t, state.SwitchOff("shop", "", time.Now()))
	want(t, deliver(t, target, "2"), Deferred, 0)
}
