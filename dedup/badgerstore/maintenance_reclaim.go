package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// reclaim reclaims disk space. Badger rewrites a value log file once compaction has dropped its
// deleted values, and compaction sees deletions once the memory table is a file. With few large
// events it takes weeks to fill one, so reclaim fills it.
func (m *maintenance) reclaim() error {
	if err := m.checkReclaimSpace(); err != nil {
		return err
	}
	worth := m.removed.Load() > 0
	if !worth {
		var err error
		if worth, err = m.wasteful(0); err != nil {
			return err
		}
	}
	if worth {
		if err := m.makeCompactable(); err != nil {
			return err
		}
	}
	if err := m.db.Flatten(1); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	m.meter.forget()
	return m.submit(&reclaimedOp{newTicket(false)})
}

type reclaimedOp struct{ ticket }

func (o *reclaimedOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	b.always, b.reclaimed = true, b.now
	return nil
}

// wasteful reports whether deleted values occupy more than half of the complete value log files,
// and more than beyond bytes.
func (m *maintenance) wasteful(beyond int64) (bool, error) {
	files, err := m.valueLogs()
	size := sizeOf(files)
	if size <= beyond || err != nil {
		return false, err
	}
	live, err := m.liveIn(false)
	for _, f := range files {
		size -= 2 * live[f.file]
	}
	return size > beyond, err
}

// checkReclaimSpace returns why there is not enough space to reclaim: it first needs space for
// two memory tables, a value log file, and tables that are rewritten before the old ones go.
func (m *maintenance) checkReclaimSpace() error {
	o := m.db.Opts()
	need := m.disk.state().hard + 2*o.MemTableSize + o.ValueLogFileSize + m.meter.usage().tables
	if free := m.disk.state().free; free >= 0 && free < need {
		return fmt.Errorf("reclaiming space needs %s, and %s are free", mib(need), mib(free))
	}
	return nil
}

// makeCompactable fills memory tables until Flatten has something to compact: it skips a store with
// files in only one level. One table is enough, except for a store that was never compacted.
func (m *maintenance) makeCompactable() error {
	for range 2 * m.db.Opts().NumLevelZeroTables {
		if err := m.fillMemTable(); err != nil || m.countLevels() > 1 || m.stopping() {
			return err
		}
		if m.db.Levels()[0].NumTables >= m.db.Opts().NumLevelZeroTables {
			time.Sleep(100 * time.Millisecond) // Badger is compacting
		}
		if m.countLevels() == 1 && m.db.Levels()[0].NumTables == 0 {
			return nil // everything was just compacted
		}
	}
	return nil
}

func (m *maintenance) countLevels() (n int) {
	for _, l := range m.db.Levels() {
		if l.NumTables > 0 {
			n++
		}
	}
	return n
}

func (m *maintenance) stopping() bool {
	select {
	case <-m.stopped:
		return true
	default:
		return false
	}
}

// fillMemTable fills the memory table and waits until it is a file. The values are always the same,
// compress to almost nothing, and expire at once.
func (m *maintenance) fillMemTable() error {
	const valueSize = 240
	value := make([]byte, valueSize)
	options := m.db.Opts()
	perOp := int(min(1000, options.MemTableSize/20/valueSize)) // fits a transaction
	for n := uint32(0); int64(n)*valueSize < options.MemTableSize; {
		o := &chunkOp{ticket: newTicket(false), frees: true}
		o.bytes = perOp * valueSize
		for range perOp {
			o.writes = append(o.writes, mutation{key: record.FillKey(n), value: value, filler: true})
			n++
		}
		if err := m.submit(o); err != nil {
			return err
		}
	}
	for range 600 {
		files, err := filepath.Glob(filepath.Join(m.dir, "*.mem"))
		if err != nil || len(files) <= 1 || m.stopping() {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("memory table is not written")
}

// collectShare is the share of deleted values above which a value log file is rewritten.
const collectShare = 0.5

type valueLog struct {
	file uint32
	size int64
}

// valueLogs returns the files of the value log that are complete.
func (m *maintenance) valueLogs() (files []valueLog, err error) {
	names, err := filepath.Glob(filepath.Join(m.dir, "*.vlog")) // by ascending numbers of six digits
	for _, name := range names[:max(0, len(names)-1)] {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".vlog"), 10, 32)
		info, missing := os.Stat(name)
		if err == nil && missing == nil {
			files = append(files, valueLog{file: uint32(number), size: info.Size()})
		}
	}
	return files, err
}

func sizeOf(files []valueLog) (size int64) {
	for _, f := range files {
		size += f.size
	}
	return size
}

// liveIn returns the size of the live values in each file of the value log. With all it includes
// deleted ones that compaction has not dropped yet: rewriting a file keeps those too.
func (m *maintenance) liveIn(all bool) (map[uint32]int64, error) {
	live := map[uint32]int64{}
	err := m.view(func(txn *badger.Txn) error {
		options := keysOnly()
		options.AllVersions = all
		n := 0
		for item := range items(txn, options) {
			if n++; n%pageSize == 0 && m.stopping() {
				return dedup.ErrClosed
			}
			if file, size, ok := pointer(item); ok {
				live[file] += size
			}
		}
		return nil
	})
	return live, err
}

// pointer returns where the value of an item is in the value log; ok is false if it is in a table.
func pointer(item *badger.Item) (file uint32, size int64, ok bool) {
	const isPointer = 1 << 1 // Badger's bitValuePointer
	v := reflect.ValueOf(item).Elem()
	at := v.FieldByName("vptr").Bytes()
	if v.FieldByName("meta").Uint()&isPointer == 0 || len(at) < 8 {
		return 0, 0, false
	}
	return binary.NativeEndian.Uint32(at), int64(binary.NativeEndian.Uint32(at[4:])), true
}

// collect rewrites the value log files that mostly hold deleted values.
func (m *maintenance) collect() error {
	files, err := m.valueLogs()
	if err != nil {
		return err
	}
	live, err := m.liveIn(true)
	if err != nil {
		return err
	}
	for _, f := range files {
		if float64(live[f.file]) > (1-collectShare)*float64(f.size) {
			continue
		}
		if m.stopping() {
			return nil
		}
		o := &collectOp{ticket: newTicket(false), file: f.file, ended: make(chan error, 1)}
		err := m.submit(o)
		if o.begun {
			err = errors.Join(err, <-o.ended)
		}
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collectOp starts the collection of a value log file. Badger first reads the newest version of its
// memory table without a lock, so the committer starts it between commits and waits for that read.
// The rewriting runs concurrently with commits.
type collectOp struct {
	ticket
	file  uint32
	begun bool
	ended chan error // receives the result of a collection that has begun
}

func (o *collectOp) apply(b *batch) error {
	if o.begun {
		return nil // in a batch that was too large
	}
	if b.disk.frozen() {
		return b.disk.err() // rewriting needs space before it frees some
	}
	o.begun = true
	db, over := b.c.db, make(chan struct{})
	go func() {
		err := collectFile(db, o.file)
		close(over)
		o.ended <- err
	}()
	for begun := collecting(db); begun == nil || !begun.Load(); {
		select {
		case <-over:
			return nil
		case <-time.After(50 * time.Microsecond):
		}
	}
	return nil
}

// chosen exceeds the deleted bytes of any value log file.
const chosen = 1 << 40

// collectFile rewrites one value log file. Badger considers only the file with the most deleted
// bytes by its own count, and stops if it is being written or below its share: raise that count.
func collectFile(db *badger.DB, file uint32) error {
	count := discards(db)
	if count == nil {
		return errors.New("this version of Badger has no count of deleted values")
	}
	var left []uint32 // by a process that ended before it collected them
	count.Lock()
	count.Iterate(func(other, n uint64) {
		if n >= chosen {
			left = append(left, uint32(other)) //nolint:gosec // files have numbers of 32 bits
		}
	})
	count.Unlock()
	for _, other := range append(left, file) {
		count.Update(other, -1) // to zero
	}
	count.Update(file, chosen)
	if err := db.RunValueLogGC(collectShare); err != nil {
		count.Update(file, -1)
		return fmt.Errorf("value log %d: %w", file, err)
	}
	return nil
}

// discardCount is Badger's count of deleted bytes per value log file.
type discardCount interface {
	sync.Locker
	Update(file uint32, by int64) int64
	Iterate(func(file, n uint64))
}

// discards returns Badger's count, nil if this version has none.
func discards(db *badger.DB) discardCount {
	vlog := reflect.ValueOf(db).Elem().FieldByName("vlog")
	if !vlog.IsValid() || vlog.Kind() != reflect.Struct {
		return nil
	}
	field := vlog.FieldByName("discardStats")
	if !field.IsValid() || field.Kind() != reflect.Pointer || field.IsNil() {
		return nil
	}
	count, _ := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(discardCount)
	return count
}

// collecting returns the flag that Badger sets after the unlocked read and clears at the end. It is
// nil if this version has none; a commit then waits for the whole collection.
func collecting(db *badger.DB) *atomic.Bool {
	mark := reflect.ValueOf(db).Elem().FieldByName("gcActive")
	if !mark.IsValid() || mark.Type() != reflect.TypeFor[atomic.Bool]() {
		return nil
	}
	return (*atomic.Bool)(mark.Addr().UnsafePointer())
}
