package badgerstore

import (
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// collectShare is the part of a value log file that must be deleted values before the file is rewritten.
const collectShare = 0.5

// collectOp begins the collection of one file of the value log. Badger reads the newest version of its memory table
// when it begins, without a lock against the goroutine that writes it. So a collection begins in the committer,
// where no commit is under way, and the committer goes on as soon as that has been read: the rewriting of the file
// takes as long as it takes, beside commits, which Badger has locks for.
type collectOp struct {
	ticket
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
	db, over := b.s.db, make(chan struct{})
	go func() {
		err := db.RunValueLogGC(collectShare)
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

// collecting returns Badger's own mark that a collection has begun: it is set right after what is read without a lock,
// and taken back at the end. It is nil where Badger has it no more; then a commit waits for a whole collection.
func collecting(db *badger.DB) *atomic.Bool {
	mark := reflect.ValueOf(db).Elem().FieldByName("gcActive")
	if !mark.IsValid() || mark.Type() != reflect.TypeFor[atomic.Bool]() {
		return nil
	}
	return (*atomic.Bool)(mark.Addr().UnsafePointer())
}

// collect gives back the space of value log files that are deleted values for the most part.
func (s *Store) collect() error {
	for !s.ending() {
		o := &collectOp{ticket: newTicket(false), ended: make(chan error, 1)}
		if err := s.queue.push(o); err != nil {
			return err
		}
		<-o.done
		err := o.err
		if o.begun {
			err = errors.Join(err, <-o.ended)
		}
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
