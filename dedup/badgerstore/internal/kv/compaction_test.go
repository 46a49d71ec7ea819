package kv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4/table"
)

// TestCompactionsWaitForTheirTables fails if Badger logs other lines than this package knows.
func TestCompactionsWaitForTheirTables(t *testing.T) {
	t.Parallel()
	o := create(t, tiny(t))
	o.load(t, rand.New(rand.NewPCG(19, 20)), 1000)
	if _, err := o.Compact(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	o.tables.mu.Lock()
	ended := o.tables.ended
	o.tables.mu.Unlock()
	if ended == 0 {
		t.Error("no compaction waited for its tables")
	}
	o.check(t)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// blockedDirEnv is the directory of the database of a child whose compaction cannot create a table.
const blockedDirEnv = "EYELET_BLOCKED_DIR"

// blockedKeys is how many keys the child commits.
const blockedKeys = 3000

// blocker is a log handler that takes the name of the next table before a compaction creates it,
// once it is on.
type blocker struct {
	slog.Handler
	dir string
	on  atomic.Bool
}

func (b *blocker) Enabled(context.Context, slog.Level) bool { return b.on.Load() }

func (b *blocker) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if !strings.Contains(a.Value.String(), "LOG Compact. Added") {
			return true
		}
		paths, _ := filepath.Glob(filepath.Join(b.dir, "*.sst"))
		newest, _ := table.ParseFileID(slices.Max(paths))
		if err := os.WriteFile(table.NewFilename(newest+1, b.dir), nil, 0o600); err != nil {
			fmt.Println("error", err)
		}
		return true
	})
	return nil
}

// blocked is the child. While a compaction is blocked, no memory table is written. Badger's
// goroutines that wait for the compaction end with the process.
func blocked(dir string) {
	reasons := make(chan string, 100)
	b := &blocker{Handler: slog.DiscardHandler, dir: filepath.Join(dir, IndexDir)}
	o := tiny(nil)
	o.Logger, o.Segment, o.patience = slog.New(b), 0, 500*time.Millisecond
	o.Fail = func(reason string, err error) { reasons <- reason + ": " + err.Error() }
	d, err := Open(dir, o)
	for i := range blockedKeys {
		value := binary.BigEndian.AppendUint64(make([]byte, 100), uint64(i))
		err = errors.Join(err, d.Commit(uint64(i+1), []Entry{{Key: keyOf('e', i), Value: value}}))
	}
	fmt.Println("committed", errors.Join(err, d.Checkpoint()))
	b.on.Store(true) // tables are in level 0, which has too many, or in two levels
	go func() {
		for n := d.Newest() + 1; err == nil; n++ { // Badger may have nothing to compact before it
			if err = d.Badger().Flatten(1); err == nil {
				err = d.Commit(n, []Entry{{Key: keyOf('s', 0), Value: []byte{1}}})
			}
			if err == nil {
				err = d.Checkpoint()
			}
		}
	}()
	fmt.Println("failed", <-reasons)
	fmt.Println("closed", d.Close())
}

// TestACompactionWithoutItsTableDoesNotEnd takes the name of each table that a compaction creates,
// which Badger does not notice. No key may be lost.
func TestACompactionWithoutItsTableDoesNotEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), blockedDirEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"committed <nil>", "failed a compaction cannot create a table: the table with"} {
		if !strings.Contains(string(out), want) {
			t.Fatalf("no %q in the output: %v\n%s", want, err, out)
		}
	}
	o := reopen(t, dir, tiny(t), blockedKeys, nil)
	for i := range blockedKeys {
		if value, err := o.Get(keyOf('e', i)); err != nil || len(value) != 108 ||
			binary.BigEndian.Uint64(value[100:]) != uint64(i) {
			t.Fatalf("key %d: %x, %v", i, value, err)
		}
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
