package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// reclaim gives space back. Files of the value log are rewritten without what was deleted once compaction has dropped
// that from the tables; compaction sees what was deleted once the memory table is a file. Badger turns the memory table
// into a file when it is full, which takes weeks where events are few and large: so it is filled here.
func (s *Store) reclaim() error {
	if err := s.roomToReclaim(); err != nil {
		return err
	}
	worth := s.removed.Load() > 0
	if !worth {
		var err error
		if worth, err = s.wasteful(0); err != nil {
			return err
		}
	}
	if worth {
		if err := s.compactable(); err != nil {
			return err
		}
	}
	if err := s.db.Flatten(1); err != nil {
		return err
	}
	if err := s.collect(); err != nil {
		return err
	}
	s.meter.forget()
	o := &reclaimedOp{newTicket(false)}
	if err := s.queue.push(o); err != nil {
		return err
	}
	<-o.done
	return o.err
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
func (s *Store) wasteful(beyond int64) (bool, error) {
	files, err := s.valueLogs()
	size := sizeOf(files)
	if size <= beyond || err != nil {
		return false, err
	}
	live, err := s.liveIn(false)
	for _, f := range files {
		size -= 2 * live[f.file]
	}
	return size > beyond, err
}

// roomToReclaim says why no space can be given back: it takes some first, for two memory tables, for a file of the
// value log, and for tables that are written anew before the old ones go.
func (s *Store) roomToReclaim() error {
	o := s.db.Opts()
	need := s.disk.state().hard + 2*o.MemTableSize + o.ValueLogFileSize + s.meter.usage().tables
	if free := s.disk.state().free; free >= 0 && free < need {
		return fmt.Errorf("giving space back takes %s first, and %s are free", mib(need), mib(free))
	}
	return nil
}

// compactable fills memory tables until there is a file that Flatten compacts: it leaves a store alone that has
// files in one level only. That is one filling, but for a store that has never compacted.
func (s *Store) compactable() error {
	for range 2 * s.db.Opts().NumLevelZeroTables {
		if err := s.fill(); err != nil || s.levels() > 1 || s.ending() {
			return err
		}
		if s.db.Levels()[0].NumTables >= s.db.Opts().NumLevelZeroTables {
			time.Sleep(100 * time.Millisecond) // Badger compacts by itself now
		}
		if s.levels() == 1 && s.db.Levels()[0].NumTables == 0 {
			return nil // it has just compacted everything
		}
	}
	return nil
}

// levels returns how many levels hold files.
func (s *Store) levels() (n int) {
	for _, l := range s.db.Levels() {
		if l.NumTables > 0 {
			n++
		}
	}
	return n
}

func (s *Store) ending() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// fill writes as many values of no meaning as make Badger begin a new memory table, and waits until
// the old one is a file. The values are the same every time, compress to almost nothing, and expire at once.
func (s *Store) fill() error {
	const valueSize = 240
	value := make([]byte, valueSize)
	options := s.db.Opts()
	perOp := int(min(1000, options.MemTableSize/20/valueSize)) // which fits a transaction
	for n := uint32(0); int64(n)*valueSize < options.MemTableSize; {
		o := &chunkOp{ticket: newTicket(false), frees: true}
		o.bytes = perOp * valueSize
		for range perOp {
			o.writes = append(o.writes, rawWrite{key: binary.BigEndian.AppendUint32([]byte{record.FamilyFill}, n), value: value, passing: true})
			n++
		}
		if err := s.queue.push(o); err != nil {
			return err
		}
		<-o.done
		if o.err != nil {
			return o.err
		}
	}
	for range 600 {
		files, err := filepath.Glob(filepath.Join(s.dir, "*.mem"))
		if err != nil || len(files) <= 1 || s.ending() {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("memory table is not written")
}
