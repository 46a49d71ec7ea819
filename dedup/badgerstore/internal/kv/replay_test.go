package kv

import (
	"bytes"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestAReplayPutsBackWhatIsAheadOfTheCheckpoint has tables with references to values behind the
// noted ends of the value files. The replay groups the commits in another way than before, and
// must still replace every one of them.
func TestAReplayPutsBackWhatIsAheadOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	options := tiny(t)
	options.Segment, options.ValueFile = 8<<20, 1<<20
	o := create(t, options)
	o.applier.gate.Lock() // all become one changeset
	for n := range 2 * replayBytes / 5000 {
		o.commit(t, Entry{Key: keyOf('e', n), Value: bytes.Repeat([]byte{byte(n)}, 4000)})
	}
	o.applier.gate.Unlock()
	large := o.n
	inTables := func() bool {
		return slices.ContainsFunc(o.Badger().Tables(), func(i badger.TableInfo) bool { return i.MaxVersion > large })
	}
	for n := 0; !inTables(); n++ {
		o.commit(t, Entry{Key: keyOf('s', n), Value: make([]byte, 200)})
	}
	var dir string
	o.still(func() { dir = o.crashed(t) })
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = reopen(t, dir, options, o.n, o.want)
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
