// Package kv is the database of the store: keys and values, with one writer, durable before
// anyone reads them.
//
// A commit is one frame of a redo log, flushed once. Its writes are then in memory (the overlay)
// until the applier puts them at rest: keys and small parts in Badger, larger parts in value
// files. A checkpoint makes what is at rest durable, so that the log before it can be used again. A
// start after a crash first applies what the log has beyond the checkpoint.
//
// What a key holds has two parts. The value changes and is read often; the content is written once,
// is mostly read later or never, and stays where it is while the value is replaced.
//
// Badger does not flush: what only its own write-ahead log has is deleted at a start, because the
// redo log has it as well.
package kv

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// The directories of a database in that of its store.
const (
	logDir    = "redo"
	valuesDir = "values"
	IndexDir  = "index" // Badger's
)

// Entry is one write. A nil Value deletes the key. With Keep the key keeps its content, else it
// gets the one of the entry, or none.
type Entry = redolog.Entry

// Options are the settings of a database. Functions and interfaces are required.
type Options struct {
	Logger *slog.Logger
	// Fail is called when a write has failed for good, possibly more than once, by any goroutine.
	Fail func(reason string, err error)
	// AcceptLoss opens a database with a damaged log, without what is damaged.
	AcceptLoss bool

	// Summary is kept with the checkpoints.
	Summary Summarizer

	// Sizes in bytes: of a memory table (default 8 MiB), a segment of the log (16 MiB), a value
	// file (64 MiB), and Badger's cache of blocks (64 MiB).
	MemTable, Segment, ValueFile, BlockCache int64
	// Segments is the number of segments of the log; at least 3, by default 16.
	Segments int

	// Probe returns why the file system takes no writes. Badger writes through memory maps, where
	// an error would end the process.
	Probe func() error
	// Flush makes the log durable, as [redolog.Log.Flush] does.
	Flush func(*redolog.Log) error
	// OpenSegment and OpenValues open a file of the log and a value file. They may be nil.
	OpenSegment, OpenValues storedir.Open

	filterKeys int64 // of the first filter; 0 is the default

	patience time.Duration // for a memory table that is not deleted

	verified []uint64 // tables
}

// Summarizer keeps what a start needs to know of the whole database, so that it need not be read.
// Open calls Load and Replay; Save is called by any goroutine.
type Summarizer interface {
	// Load gets the content that Save returned for the last checkpoint. It is nil if that is
	// missing, or if it is possible that files were lost or exchanged.
	Load(content []byte)
	// Replay gets every write of the commits after that checkpoint, some of which Save may have
	// known. The entry is valid during the call.
	Replay(e Entry)
	// Save returns the content for a checkpoint behind commit at, and a durable commit that is at
	// least the one before at. Content and later writes together describe the database as every
	// later commit leaves it, and as commit at has left it. Nil is no content.
	Save(at uint64) (commit uint64, content []byte)
}

// DB is an open database.
type DB struct {
	dir        string
	o          Options
	logger     *logger
	spare      *spare
	tables     *compactions
	manifest   *badgerfile.ManifestFile
	index      *index
	overlay    *overlay
	filter     keyFilter
	applier    *applier
	checkpoint *checkpointer
	log        *redolog.Log
	env        commitEnv // of Commit
	background sync.WaitGroup
	quit       chan struct{}
	lost       bool // part of the log was damaged
	tail       redolog.Position
	last       *redolog.Frame // at tail: the last commit, which a start carries to a new segment
	trusted    bool           // the tables are those of the checkpoint and later ones
	failure    atomic.Pointer[error]
}

// Commit makes the writes durable as commit n, in order, all or none. Numbers grow. One goroutine
// calls it. It may wait for the applier or for a checkpoint. A [storedir.NotWrittenError] leaves
// everything as it was; any other error is final.
func (d *DB) Commit(n uint64, entries []Entry) error { return d.env.commit(n, entries) }

// fail makes an error final: no checkpoint is made any more, not even by Close.
func (d *DB) fail(reason string, err error) {
	d.failure.CompareAndSwap(nil, &err)
	d.o.Fail(reason, err)
}

func (d *DB) failed() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Applying and Checkpointing return the work of the goroutines that put commits at rest and make
// them durable there.
func (d *DB) Applying() *Work { return &d.index.work }

// Checkpointing is documented at Applying.
func (d *DB) Checkpointing() *Work { return &d.checkpoint.work }

// Work is the work of a goroutine as another one sees it.
type Work struct{ n atomic.Uint64 }

// Begin begins a piece of work, and ends the one before.
func (w *Work) Begin() { w.n.Store(w.n.Load()&^1 + 3) }

// End ends the piece of work, if there is one.
func (w *Work) End() { w.n.Store(w.n.Load()&^1 + 2) }

// Piece returns a number that differs for each piece of work; working is false between them.
func (w *Work) Piece() (n uint64, working bool) { n = w.n.Load(); return n, n&1 == 1 }

// Newest returns the number of the newest commit at rest. After a loss it may be one that is lost.
func (d *DB) Newest() uint64 {
	n, _ := d.overlay.atRest()
	return n
}

// Stalled returns why commits cannot be put at rest at the moment, nil if they can. It does not
// wait for Badger, which may not return from a write.
func (d *DB) Stalled() error { return d.overlay.stalled() }

// Lost reports whether Open has left out a damaged part of the log.
func (d *DB) Lost() bool { return d.lost }

// Mark writes that the last commit is durable, so that later damage to it is noticed.
func (d *DB) Mark() error { return d.log.Mark() }

// Get returns a copy of the newest committed value of a key, nil if it does not exist. Beside the
// goroutine of Commit, others may call it: to them a new key may seem to be missing while the
// filter is replaced, and a value may be unreadable because Reclaim moves it.
func (d *DB) Get(key []byte) ([]byte, error) {
	if w, found := d.overlay.get(key); found {
		return w.value, nil
	}
	if d.filter.lacks(key) {
		return nil, nil
	}
	key = bytes.Clone(key) // the caller's stays on its stack when nothing is read
	value, _, err := d.index.get(key, false)
	return value, err
}

// Lacks reports that a key certainly has no committed value, without reading anything. It is
// subject to the same restriction as Get. A key that is made for the call needs no memory: most
// keys of a claim are new, and are only looked up here.
func (d *DB) Lacks(key []byte) bool {
	_, found := d.overlay.get(key)
	return !found && d.filter.lacks(key)
}

// Read is Get with the content, nil if there is none. If only the content cannot be read, it
// returns the value, and the bytes of a damaged content, with the error.
func (d *DB) Read(key []byte) (value, content []byte, err error) {
	w, found := d.overlay.get(key)
	if found && !w.keep {
		return w.value, w.content, nil
	}
	if !found && d.filter.lacks(key) {
		return nil, nil, nil
	}
	if value, content, err = d.index.get(key, true); found {
		value = w.value
	}
	return value, content, err
}

// Settle waits until everything committed is at rest. The error is a [dedup.ErrUnavailable] while
// the file system has no space for it.
func (d *DB) Settle() error { return d.overlay.settle() }

// Checkpoint makes everything committed before the call durable at rest.
func (d *DB) Checkpoint() error {
	if err := d.Settle(); err != nil {
		return err
	}
	return d.checkpoint.run()
}

// Badger returns the database of the keys, for maintenance.
func (d *DB) Badger() *badger.DB { return d.index.badger }

func (d *DB) indexDir() string { return filepath.Join(d.dir, IndexDir) }

// Descriptors returns why nothing can be written, nil if there are enough file descriptors.
func (d *DB) Descriptors() error { return d.spare.reserve() }

// Flushing returns why a memory table is not written at the moment, Compacting why tables are not
// compacted; nil if they are.
func (d *DB) Flushing() error { return d.logger.flushing.current() }

// Compacting returns why tables are not compacted at the moment, nil if they are.
func (d *DB) Compacting() error { return d.logger.compacting.current() }

// Logger returns what reads the lines that Badger logs.
func (d *DB) Logger() badger.Logger { return d.logger }
