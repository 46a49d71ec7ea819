package redolog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Log is a log open for writing. One goroutine calls Append, Flush and Mark. Any goroutine may
// call End, Release and Pressure. After an error other than ErrFull, ErrTooLarge and
// NotWrittenError every call fails with that error.
type Log struct {
	settings Settings

	// Of the goroutine that appends.
	active    *segment // nil: the next frame begins a segment
	seed      uint32   // of active
	buf       []byte   // a head, then the frame
	written   Position // behind the last frame
	group     uint64   // of the last frame
	unflushed bool     // the last frame
	unmarked  bool     // no frame proves that the last one was flushed

	mu      sync.Mutex
	changed *sync.Cond // what follows
	used    []*segment // with frames that no checkpoint has passed, oldest first
	ready   []*segment // prepared, in the order of their numbers
	free    []*segment // to be prepared
	filling bool       // another one, which is neither ready nor free meanwhile
	next    uint64     // number that no segment had yet
	begun   uint64     // number of the newest segment that was ever active
	end     Position
	noSpace bool // to prepare a segment
	loaded  bool // enough was written that filling the next segment with zeros pays
	failed  error
	done    chan struct{} // closed when the preparing goroutine has ended
}

// segment is a file of the log. One without a File has to be created.
type segment struct {
	number uint64
	file   storedir.File
	raw    bool // its space is reserved, but was never filled with zeros
	once   bool // not used again: made larger for its frame, or left by another process
}

// ofSegment names the segment in an error. The name in a *fs.PathError is that of a former use.
func ofSegment(s *segment, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("segment %d: %w", s.number, err)
}

// Room is the size of the largest frame that fits into a segment of the usual size, in bytes: the
// keys, values and contents of its entries, up to 30 bytes for each entry, and 32 bytes.
func (l *Log) Room() int64 { return l.settings.SegmentSize - headSize }

// maxFrame is the size of the largest frame, in bytes.
const maxFrame = math.MaxUint32

// Append writes a frame and returns the position behind it. One that does not fit into a segment
// gets a larger one. The frame is not durable before the next Flush; Append flushes the frame
// before. After ErrFull, ErrTooLarge or a [storedir.NotWrittenError] the frame is not part of the
// log. A crash before the next Flush may still leave a frame for which the latter was returned.
func (l *Log) Append(group uint64, entries []Entry) (Position, error) {
	if err := l.Flush(); err != nil {
		return Position{}, err
	}
	l.buf = appendFrame(l.buffer(entries), group, entries)
	frame := l.buf[headSize:]
	size := int64(len(frame))
	if size > maxFrame {
		return Position{}, ErrTooLarge
	}
	isFirst := l.active == nil || l.written.Offset+size > l.settings.SegmentSize || l.active.raw && l.filled()
	data, offset := frame, l.written.Offset
	if isFirst {
		if err := l.begin(headSize + size); err != nil {
			return Position{}, err
		}
		data, offset = l.buf, 0
	}
	at := offset + int64(len(data)) - size
	sealFrame(frame, l.seed, at)
	if err := l.write(data, offset); err != nil {
		return Position{}, l.notWritten(err, isFirst)
	}
	l.written, l.group = Position{l.active.number, at + size}, group
	l.unflushed, l.unmarked = true, true
	if at > max(l.settings.SegmentSize/loadedPart, loadedLeast) && !l.loaded {
		l.load()
	}
	if l.active.once {
		l.buf = make([]byte, headSize)
	}
	return l.written, nil
}

// buffer returns memory for a head, with room for a frame. That of a large frame is used once.
func (l *Log) buffer(entries []Entry) []byte {
	if int64(cap(l.buf)) > 2*l.settings.SegmentSize {
		l.buf = make([]byte, headSize)
	}
	size := frameHead + align
	for i := range entries {
		e := &entries[i]
		size += len(e.Key) + len(e.Value) + len(e.Content) + 3*binary.MaxVarintLen64
	}
	return slices.Grow(l.buf[:headSize], size)
}

func (l *Log) write(b []byte, at int64) error {
	_, err := l.active.file.WriteAt(b, at)
	return err
}

// Carry makes the last frame that a Replay has found durable in a new segment: after a failed flush
// only the page cache has it. The frame is flushed before the head that makes its old place
// invalid. Nothing was appended before. Every error is final.
func (l *Log) Carry(group uint64, entries []Entry) (end Position, err error) {
	l.buf = appendFrame(l.buffer(entries), group, entries)
	if err := l.begin(int64(len(l.buf))); err != nil {
		return Position{}, err
	}
	sealFrame(l.buf[headSize:], l.seed, headSize)
	err = l.write(l.buf[headSize:], headSize)
	if err == nil {
		err = l.active.file.Datasync()
	}
	if err == nil {
		err = l.write(l.buf[:headSize], 0)
	}
	if err == nil {
		err = l.active.file.Datasync()
	}
	if err != nil {
		return Position{}, l.fail(ofSegment(l.active, err))
	}
	l.written, l.group, l.unmarked = Position{l.active.number, int64(len(l.buf))}, group, true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = l.written
	return l.end, nil
}

// loadedPart is the part of a segment behind which it pays to fill the next one with zeros, and
// loadedLeast the least offset.
const (
	loadedPart  = 16
	loadedLeast = 64 << 10
)

// load starts the filling of segments with zeros.
func (l *Log) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loaded = true
	l.changed.Broadcast()
}

// begin makes a prepared segment with room for a number of bytes the active one and encodes its
// head.
func (l *Log) begin(size int64) error {
	if err := l.activate(); err != nil {
		return err
	}
	if size = max(size, l.settings.SegmentSize); size > l.settings.SegmentSize {
		if err := l.active.extend(size); err != nil {
			return l.notWritten(err, true)
		}
	}
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	h := head{l.active.number, binary.LittleEndian.Uint64(salt[:]), size, l.End()}
	h.encode(l.buf[:headSize], l.settings.Store)
	l.seed = h.seed(l.settings.Store)
	return nil
}

// filled reports whether the next segment was filled with zeros, and there is another one. A raw
// segment is then left early, because each of its flushes changes metadata and costs two.
func (l *Log) filled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ready) > 1 && !l.ready[0].raw
}

// activate makes a prepared segment the active one.
func (l *Log) activate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) == 0 && (l.filling || len(l.free) > 0 && !l.noSpace) && l.failed == nil {
		l.changed.Wait()
	}
	switch {
	case l.failed != nil:
		return l.failed
	case len(l.ready) == 0:
		return ErrFull
	}
	l.active, l.ready = l.ready[0], l.ready[1:]
	l.begun = l.active.number
	l.used = append(l.used, l.active)
	l.changed.Broadcast() // the one behind it may have to be filled
	return nil
}

// notWritten ends the use of the active segment after a failed write. Its file may hold any part of
// the frame, so nothing is written there again. A segment without another frame is prepared again
// at once: checkpoints do not pass it before the log continues.
func (l *Log) notWritten(err error, isFirst bool) error {
	err = ofSegment(l.active, err)
	if !storedir.IsNoSpace(err) {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if isFirst {
		l.used = l.used[:len(l.used)-1]
		l.free = append(l.free, l.active)
		l.changed.Broadcast()
	}
	l.active = nil
	return &storedir.NotWrittenError{Err: err}
}

// Flush makes the last frame durable. Every error is final: after a failed flush the kernel may
// report the next one as successful without writing the bytes.
func (l *Log) Flush() error {
	l.mu.Lock()
	err := l.failed
	l.mu.Unlock()
	if err != nil || !l.unflushed {
		return err
	}
	if err := l.active.file.Datasync(); err != nil {
		return l.fail(ofSegment(l.active, err))
	}
	l.unflushed = false
	l.mu.Lock()
	l.end = l.written
	l.mu.Unlock()
	return nil
}

// Mark writes an empty frame and flushes it. It proves to a later Replay that the frame before was
// flushed, so damage of that frame is not mistaken for a torn write. Mark does nothing if the last
// frame is a mark. Its frame has the group of the frame before.
func (l *Log) Mark() error {
	if !l.unmarked {
		return l.Flush()
	}
	if _, err := l.Append(l.group, nil); err != nil {
		return err
	}
	l.unmarked = false
	return l.Flush()
}

// End returns the position behind the last flushed frame.
func (l *Log) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Release reports that a checkpoint at p is durable. Segments before that of p are used again.
func (l *Log) Release(p Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return l.failed
	case p.Compare(l.end) > 0:
		return fmt.Errorf("redo log: checkpoint at %v is behind the flushed end %v", p, l.end)
	}
	for len(l.used) > 0 && l.used[0].number < p.Segment {
		l.free = append(l.free, l.used[0])
		l.used = l.used[1:]
	}
	l.changed.Broadcast()
	return nil
}

// Pressure returns how many segments hold frames that no checkpoint has passed, and how many there
// are. At used = total, Append returns ErrFull as soon as the active segment is full.
func (l *Log) Pressure() (used, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.used), l.settings.Segments
}

// fail makes an error final.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("redo log: %w", err)
		l.changed.Broadcast()
	}
	return l.failed
}

// Close closes the files. It does not flush. It returns an error if the log has failed before.
// Later calls return fs.ErrClosed.
func (l *Log) Close() error {
	err := l.fail(fs.ErrClosed)
	<-l.done
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	return errors.Join(err, l.closeFiles())
}
