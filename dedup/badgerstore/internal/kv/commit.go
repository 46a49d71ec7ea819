package kv

import (
	"errors"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// commitEnv is what a commit needs of its surroundings: a test commits without a disk.
type commitEnv struct {
	makeRoom   func() error // waits for the applier
	append     func(n uint64, entries []Entry) (end redolog.Position, err error)
	checkpoint func() error // frees segments of the log
	flush      func() error
	publish    func(n uint64, entries []Entry, end redolog.Position)
	pressure   func() (used, total int) // segments of the log
	request    func()                   // asks for a checkpoint soon
	reached    func()                   // has the new segment noted

	segment uint64 // of the last commit
}

// commit is [DB.Commit].
func (e *commitEnv) commit(n uint64, entries []Entry) error {
	// 1. Wait while too much is not at rest.
	if err := e.makeRoom(); err != nil {
		return notWritten(err)
	}
	// 2. Append one frame to the log. If all segments are in use, a checkpoint frees some.
	end, err := e.append(n, entries)
	if errors.Is(err, redolog.ErrFull) {
		if err := e.checkpoint(); err != nil {
			return notWritten(err)
		}
		if end, err = e.append(n, entries); errors.Is(err, redolog.ErrFull) { // no segment can be prepared
			return &storedir.NotWrittenError{Err: err}
		}
	}
	if err != nil {
		return err
	}
	// 3. Flush it. After an error the commit may exist, or not: only a start finds out.
	if err := e.flush(); err != nil {
		return err
	}
	// 4. Publish it: from here on it can be read.
	e.publish(n, entries, end)
	// 5. Have a new segment noted: without its file the next start is refused.
	if end.Segment != e.segment {
		e.segment = end.Segment
		e.reached()
	}
	// 6. Have the log used again in time.
	if used, total := e.pressure(); 2*used >= total {
		e.request()
	}
	return nil
}

// notWritten returns the error of a commit that was not tried.
func notWritten(err error) error {
	if errors.As(err, new(*dedup.ErrUnavailable)) || isExhausted(err) {
		return &storedir.NotWrittenError{Err: err}
	}
	return err
}

// newCommitEnv returns the surroundings of the commits of a database.
func newCommitEnv(d *DB) commitEnv {
	return commitEnv{
		makeRoom:   d.overlay.makeRoom,
		append:     d.log.Append,
		checkpoint: d.Checkpoint,
		flush:      func() error { return d.o.Flush(d.log) },
		publish:    d.overlay.add,
		pressure:   d.log.Pressure,
		request:    d.checkpoint.request,
		reached:    func() { notify(d.checkpoint.reached) },
	}
}
