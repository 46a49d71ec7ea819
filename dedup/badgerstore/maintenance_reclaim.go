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

// reclaim gives space back. Files of the value log are rewritten without what was deleted once compaction has dropped
// that from the tables; compaction sees what was deleted once the memory table is a file. Badger turns the memory table
// into a file when it is full, which takes weeks where events are few and large: so it is filled here.
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

// reclaimedOp notes that space was given back.
type reclaimedOp struct{ ticket }

// apply implements op.
func (o *reclaimedOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	b.always, b.reclaimed = true, b.now
	return nil
}

// wasteful reports whether more than half of the value log is of deleted values, beyond some bytes. Files that are
// written to do not count.
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

// checkReclaimSpace says why no space can be given back: it takes some first, for two memory tables, for a file of the
// value log, and for tables that are written anew before the old ones go.
func (m *maintenance) checkReclaimSpace() error {
	o := m.db.Opts()
	need := m.disk.state().hard + 2*o.MemTableSize + o.ValueLogFileSize + m.meter.usage().tables
	if free := m.disk.state().free; free >= 0 && free < need {
		return fmt.Errorf("giving space back takes %s first, and %s are free", mib(need), mib(free))
	}
	return nil
}

// compactable fills memory tables until there is a file that Flatten compacts: it leaves a store alone that has
// files in one level only. That is one filling, but for a store that has never compacted.
func (m *maintenance) makeCompactable() error {
	for range 2 * m.db.Opts().NumLevelZeroTables {
		if err := m.fillMemTable(); err != nil || m.countLevels() > 1 || m.stopping() {
			return err
		}
		if m.db.Levels()[0].NumTables >= m.db.Opts().NumLevelZeroTables {
			time.Sleep(100 * time.Millisecond) // Badger compacts by itself now
		}
		if m.countLevels() == 1 && m.db.Levels()[0].NumTables == 0 {
			return nil // it has just compacted everything
		}
	}
	return nil
}

// levels returns how many levels hold files.
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

// fill writes as many values of no meaning as make Badger begin a new memory table, and waits until
// the old one is a file. The values are the same every time, compress to almost nothing, and expire at once.
func (m *maintenance) fillMemTable() error {
	const valueSize = 240
	value := make([]byte, valueSize)
	options := m.db.Opts()
	perOp := int(min(1000, options.MemTableSize/20/valueSize)) // which fits a transaction
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

// collectShare is the part of a value log file that must be deleted values before the file is rewritten.
const collectShare = 0.5

// valueLog is a file of the value log.
type valueLog struct {
	file uint32
	size int64
}

// valueLogs returns the files of the value log that are no longer written to.
func (m *maintenance) valueLogs() (files []valueLog, err error) {
	names, err := filepath.Glob(filepath.Join(m.dir, "*.vlog")) // by rising numbers of six digits
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

// liveIn adds up the values by the files of the value log that they are in. all counts values that are deleted or
// overwritten as long as compaction has not dropped them from the tables, as rewriting a file keeps those too; else only
// values that can be read count.
func (m *maintenance) liveIn(all bool) (map[uint32]int64, error) {
	live := map[uint32]int64{}
	err := m.view(func(txn *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.PrefetchValues, options.AllVersions = false, all
		it := txn.NewIterator(options)
		defer it.Close()
		n := 0
		for it.Rewind(); it.Valid(); it.Next() {
			if n++; n%pageSize == 0 && m.stopping() {
				return dedup.ErrClosed
			}
			if file, size, ok := pointer(it.Item()); ok {
				live[file] += size
			}
		}
		return nil
	})
	return live, err
}

// pointer returns where the value of an item is in the value log; ok is false for one that is in a table.
func pointer(item *badger.Item) (file uint32, size int64, ok bool) {
	const isPointer = 1 << 1 // Badger's bitValuePointer
	v := reflect.ValueOf(item).Elem()
	at := v.FieldByName("vptr").Bytes()
	if v.FieldByName("meta").Uint()&isPointer == 0 || len(at) < 8 {
		return 0, 0, false
	}
	return binary.NativeEndian.Uint32(at), int64(binary.NativeEndian.Uint32(at[4:])), true
}

// collect gives back the space of value log files that are deleted values for the most part.
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

// collectOp begins the collection of one file of the value log. Badger reads the newest version of its memory table
// when it begins, without a lock against the goroutine that writes it. So a collection begins in the committer,
// where no commit is under way, and the committer goes on as soon as that has been read: the rewriting of the file
// takes as long as it takes, beside commits, which Badger has locks for.
type collectOp struct {
	ticket
	file  uint32
	begun bool
	ended chan error // how the collection ended, once it has begun
}

// apply implements op.
func (o *collectOp) apply(b *batch) error {
	if o.begun {
		return nil // in a batch that was too large
	}
	if b.disk.frozen() {
		return b.disk.err() // rewriting takes space before it gives some
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

// chosen is more deleted bytes than any file of the value log has.
const chosen = 1 << 40

// collectFile rewrites one file of the value log. Badger looks at no other file than the one with the most deleted
// bytes by its own count, and gives up when that is the one being written, or has a little less than its share: the
// file is made that one.
func collectFile(db *badger.DB, file uint32) error {
	count := discards(db)
	if count == nil {
		return errors.New("the count of deleted values is not where this version of Badger should have it")
	}
	var left []uint32 // chosen by a process that ended before it had collected them
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
	err := db.RunValueLogGC(collectShare)
	if err != nil {
		count.Update(file, -1)
		return fmt.Errorf("value log %d: %w", file, err)
	}
	return nil
}

// discardCount is Badger's count of deleted bytes in each file of the value log.
type discardCount interface {
	sync.Locker
	Update(file uint32, by int64) int64
	Iterate(func(file, n uint64))
}

// discards returns Badger's own count; nil where Badger has it no more.
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

// collecting returns Badger's own mark that a collection has begun: it is set right after what is read without a lock,
// and taken back at the end. It is nil where Badger has it no more; then a commit waits for a whole collection.
func collecting(db *badger.DB) *atomic.Bool {
	mark := reflect.ValueOf(db).Elem().FieldByName("gcActive")
	if !mark.IsValid() || mark.Type() != reflect.TypeFor[atomic.Bool]() {
		return nil
	}
	return (*atomic.Bool)(mark.Addr().UnsafePointer())
}
