package badgerstore

import (
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// mutation changes one key.
type mutation struct {
	key, value []byte // a nil value deletes the key
	filler     bool   // without meaning: may expire at once
}

// journal makes batches durable. Only it writes to an open store, and only the committer calls it:
// batches read nothing but what commit has made durable.
type journal struct {
	*core
	unopened bool // the last commit failed because a new value log could not be opened
}

// step is a step of a commit. Tests end the process before each of them.
type step int

// The steps in their order. A batch is durable after stepCommit; the later steps publish it.
const (
	stepStage step = iota
	stepCommit
	stepHighWater
	stepPublish
	stepAnswer
	stepEnd
)

// notWritten reports a batch that was not tried because the file system takes no writes.
type notWritten struct{ err error }

func (e *notWritten) Error() string { return e.err.Error() }
func (e *notWritten) Unwrap() error { return e.err }

func (j *journal) begin() *badger.Txn { return j.db.NewTransaction(true) }

// commit makes the writes durable as commit n. badger.ErrTxnTooBig and notWritten leave everything
// as it was; any other error is final.
func (j *journal) commit(txn *badger.Txn, writes []mutation, n uint64) error {
	err := stage(txn, writes)
	if errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err != nil {
		return j.fail("a write was refused", err)
	}
	if err := j.writable(); err != nil {
		return &notWritten{err}
	}
	j.options.step(stepCommit)
	err = j.options.commit(txn)
	if j.unopened = err != nil && unopened(err); j.unopened {
		return &notWritten{errNoDescriptors}
	}
	if err != nil {
		return j.fail("a commit failed", err)
	}
	if text := j.logger.unsynced.Load(); text != nil {
		return j.fail("the value log could not be synced", errors.New(*text))
	}
	j.options.step(stepHighWater)
	if err := j.highWater.Write(n); err != nil {
		return j.fail("the high-water file could not be written", err)
	}
	return nil
}

func stage(txn *badger.Txn, writes []mutation) error {
	for _, w := range writes {
		var err error
		switch {
		case w.filler:
			err = txn.SetEntry(badger.NewEntry(w.key, w.value).WithTTL(time.Second))
		case w.value == nil:
			err = txn.Delete(w.key)
		default:
			err = txn.SetEntry(badger.NewEntry(w.key, w.value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writable returns why nothing can be written. Badger would find out in the middle of a commit.
func (j *journal) writable() error {
	if !j.spare.fill() {
		return errNoDescriptors
	}
	if err := j.highWater.Probe(); err != nil {
		j.disk.recheck()
		return diskState{unwritable: err}.err()
	}
	if j.unopened {
		j.spare.release(spareOpens)
	}
	return nil
}
