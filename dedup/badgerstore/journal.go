package badgerstore

import (
	"errors"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// mutation changes one key; a nil value deletes it.
type mutation = kv.Entry

// step is a step of a commit. Tests end the process before each of them.
type step int

// The steps in their order. A batch is durable after stepFlush; the later steps publish it.
const (
	stepStage step = iota
	stepCommit
	stepFlush
	stepPublish
	stepAnswer
	stepEnd

	stepConvert // before each step of a conversion of the store
)

// notWritten reports a batch that was not tried or whose write the file system refused.
type notWritten struct{ err error }

func (e *notWritten) Error() string { return e.err.Error() }
func (e *notWritten) Unwrap() error { return e.err }

// write makes the staged writes durable as commit n. kv.ErrTooLarge and notWritten leave everything
// as it was; any other error is final.
func (c *committer) write(n uint64) error {
	if err := c.db.Descriptors(); err != nil {
		return &notWritten{err}
	}
	c.options.step(stepCommit)
	err := c.lock.Probe() // a failed write of the log would be final
	if err != nil {
		err = &redolog.NotWrittenError{Err: err}
	} else {
		err = c.db.Commit(n, c.writes)
	}
	switch {
	case err == nil || errors.Is(err, kv.ErrTooLarge):
		return err
	case errors.As(err, new(*redolog.NotWrittenError)):
		c.disk.recheck()
		return &notWritten{diskState{unwritable: err}.err()}
	}
	return c.fail("a commit failed", err)
}
