package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
)

// compactions keeps Badger from losing keys: it overlooks that a compaction could not create a
// table, and deletes the tables that were compacted. Badger calls its logger between the steps of a
// compaction and waits for it, so a compaction goes on only when its tables are there. One
// compaction at a time creates tables.
type compactions struct {
	dir      string
	spare    *spare
	fail     func(reason string, err error)
	patience time.Duration   // for a table that is not there
	quit     <-chan struct{} // closed with the database

	building sync.Mutex // one table at a time

	mu      sync.Mutex
	turn    sync.Cond
	tables  func() []badger.TableInfo // that Badger reads; nil until it is open
	running bool
	id      int               // of the compactor
	before  map[uint64]bool   // the tables before it began
	built   []uint64          // the number of keys in each table that it creates
	created map[uint64]uint64 // its whole tables, and their number of keys
	ended   int               // compactions whose tables were found
	once    sync.Once
	stuck   chan struct{} // closed when a compaction must not end
}

func newCompactions(d *DB) *compactions {
	c := &compactions{
		dir: d.indexDir(), spare: d.spare, fail: d.fail, patience: d.o.patience, quit: d.quit,
		stuck: make(chan struct{}),
	}
	c.turn.L = &c.mu
	return c
}

// The lines that Badger logs in the steps of a compaction, and the waits between two looks.
const (
	lineTable  = "[%d] LOG Compact. Added %d keys." // before it creates a table
	lineTables = "Discard stats:"                   // after the last one
	lineDone   = "[Compactor: %d] Compaction for level: %d DONE"
	lineFailed = "[Compactor: %d] LOG Compact FAILED"

	tablePoll = 2 * time.Millisecond
	sparePoll = 50 * time.Millisecond

	settleLooks = 3
)

func (c *compactions) onLogLine(format string, args []any) {
	id, _ := first[int](args)
	switch {
	case strings.HasPrefix(format, lineTable):
		if keys, _ := first[uint64](args); keys > 0 {
			c.begin(id)
			c.build(keys)
		}
	case strings.HasPrefix(format, lineTables):
		c.await()
	case strings.HasPrefix(format, lineDone):
		c.end(id, true)
	case strings.HasPrefix(format, lineFailed):
		c.end(id, false)
	}
}

// first returns the first argument of a type.
func first[T any](args []any) (v T, ok bool) {
	for _, a := range args {
		if v, ok = a.(T); ok {
			return v, true
		}
	}
	return v, false
}

// begin waits until a compactor may create tables.
func (c *compactions) begin(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running && c.id != id {
		c.turn.Wait()
	}
	if c.running {
		return
	}
	c.spare.compacts(true)
	c.running, c.id, c.built, c.created = true, id, nil, map[uint64]uint64{}
	var err error
	if c.before, err = c.files(); err != nil {
		c.stop(err)
	}
}

// build waits until the file of a table can be opened, and before that for the tables so far if
// descriptors are short: whether there are enough cannot be seen while Badger opens one.
func (c *compactions) build(keys uint64) {
	c.building.Lock()
	defer c.building.Unlock()
	for keep := spareLeast; ; {
		if c.spare.isTight() {
			c.await()
			c.spare.compacts(true)
		}
		if c.spare.provide(spareTables, keep) {
			break
		}
		select {
		case <-c.quit: // nothing else opens files any more
			keep = 0
		default:
		}
		time.Sleep(sparePoll)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.built = append(c.built, keys)
}

// await waits until the tables are there that were created so far. Without one the compaction must
// not end: the tables that it has read stay.
func (c *compactions) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var looks looks
	for pause := tablePoll; c.running; pause = min(2*pause, sparePoll) {
		err := c.look()
		if err == nil {
			return
		}
		if looks.waited > c.patience {
			c.stop(err)
		}
		c.mu.Unlock()
		<-looks.next(pause)
		c.mu.Lock()
	}
}

// stop keeps the compaction from ending.
func (c *compactions) stop(err error) {
	c.fail("a compaction cannot create a table", err)
	c.once.Do(func() { close(c.stuck) })
	c.mu.Unlock()
	select {}
}

// look returns why a table is not there. A memory table may be written meanwhile.
func (c *compactions) look() error {
	files, err := c.files()
	if err != nil {
		return err
	}
	var unread error
	left := map[uint64]int{}
	for n := range files {
		if c.before[n] {
			continue
		}
		if c.created[n] == 0 {
			path := table.NewFilename(n, c.dir)
			keys, err := openWith(c.spare, func() (uint32, error) { return badgerfile.TableKeys(path) })
			if err != nil {
				unread = err
				continue
			}
			c.created[n] = uint64(keys)
			c.settle(path)
		}
		left[c.created[n]]++
	}
	for _, keys := range c.built {
		if left[keys]--; left[keys] < 0 {
			return errors.Join(fmt.Errorf("the table with %d keys is missing", keys), unread)
		}
	}
	return nil
}

// settle makes sure that the disk has a table. Badger leaves a table out whose flush has failed,
// and its file looks whole. It looks again in case that another processor still saw the table grow.
func (c *compactions) settle(path string) {
	var err error
	for range settleLooks {
		err = c.spare.open(func() error { return badgerfile.OnDisk(path) })
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(sparePoll)
	}
	c.stop(err)
}

// files returns the numbers of the table files.
func (c *compactions) files() (map[uint64]bool, error) {
	entries, err := openWith(c.spare, func() ([]os.DirEntry, error) { return os.ReadDir(c.dir) })
	numbers := make(map[uint64]bool, len(entries))
	for _, e := range entries {
		if n, ok := table.ParseFileID(e.Name()); ok {
			numbers[n] = true
		}
	}
	return numbers, err
}

// end ends the turn of a compactor. Badger must read the tables that were found.
func (c *compactions) end(id int, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running || c.id != id {
		return
	}
	if done && c.tables != nil {
		read := map[uint64]int{}
		for _, t := range c.tables() {
			if !c.before[t.ID] {
				read[uint64(t.KeyCount)]++
			}
		}
		for _, keys := range c.built {
			if read[keys]--; read[keys] < 0 {
				c.fail("a compaction has lost a table", fmt.Errorf("the table with %d keys cannot be read", keys))
			}
		}
		c.ended++
	}
	c.running = false
	c.spare.compacts(false)
	c.turn.Broadcast()
}

// opened begins to compare the tables with those that Badger reads.
func (c *compactions) opened(db *badger.DB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables = db.Tables
}
