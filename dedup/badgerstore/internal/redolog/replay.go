package redolog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Frame is one frame of the log. Its entries are valid during the visit.
type Frame struct {
	Group   uint64
	At, End Position
	Entries []Entry
}

// Clone returns a frame whose entries stay valid.
func (f Frame) Clone() *Frame {
	f.Entries = slices.Clone(f.Entries)
	for i := range f.Entries {
		e := &f.Entries[i]
		e.Key, e.Value, e.Content = bytes.Clone(e.Key), bytes.Clone(e.Value), bytes.Clone(e.Content)
	}
	return &f
}

// Replay visits the frames from a position on in order, and returns where they end: the position
// behind the last one, or from if there is none. Marks are visited as frames without entries. A
// write that a crash tore is the end of the log. A place that is damaged although it was flushed is
// a *DamagedError. With AcceptLoss it is returned as damage, the frames behind it are visited too,
// and the end is behind all segments. Replay stops at the first error of visit. The log must not be
// open for writing.
func Replay(s Settings, from Position, visit func(Frame) error) (
	end Position, damage []*DamagedError, err error,
) {
	r := &replay{settings: s, visit: visit, end: from}
	err = r.run(from)
	return r.end, r.damage, err
}

type replay struct {
	settings Settings
	visit    func(Frame) error
	damage   []*DamagedError
	end      Position
	files    []storedir.File

	part    part // that is read
	seed    uint32
	window  window
	head    [frameHead]byte
	entries []Entry
}

// part is a segment with a head.
type part struct {
	head
	file storedir.File
	size int64 // of the file
	end  int64 // of the frames, 0 if no later segment names it
}

func (r *replay) run(from Position) error {
	if err := r.settings.complete(); err != nil {
		return err
	}
	numbers, err := segmentsIn(r.settings.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parts, err := r.partsFrom(from, numbers)
	defer r.closeFiles()
	if err != nil {
		return err
	}
	for _, r.part = range parts {
		if err := r.readPart(from); err != nil {
			return err
		}
	}
	if len(r.damage) > 0 {
		r.end = Position{Segment: 1 + max(from.Segment, slices.Max(append(numbers, 0)))}
	}
	return nil
}

func (r *replay) closeFiles() {
	for _, f := range r.files {
		_ = f.Close() // they were only read
	}
}

// damaged returns damage, or notes it if the replay continues behind it.
func (r *replay) damaged(segment uint64, offset int64, reason string) error {
	d := &DamagedError{segment, offset, reason}
	if r.settings.AcceptLoss {
		r.damage = append(r.damage, d)
		return nil
	}
	return d
}

// partsFrom returns the segments that hold the log from a position on. Segments with zeros or the
// head of a former use are prepared ones.
func (r *replay) partsFrom(from Position, numbers []uint64) (parts []part, err error) {
	if from.Offset > 0 && !slices.Contains(numbers, from.Segment) {
		err = r.damaged(from.Segment, from.Offset, "the segment is missing")
	}
	for _, number := range numbers {
		if number < from.Segment || err != nil {
			continue
		}
		p, ours, e := r.openPart(number)
		damage := (*DamagedError)(nil)
		if err = e; errors.As(err, &damage) {
			err = r.damaged(damage.Segment, damage.Offset, damage.Reason)
		}
		if ours {
			parts = append(parts, p)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.chain(from, parts)
}

// chain links each segment to the one before. The newest decides: each head names the segment with
// the last flushed frame before it. A segment in between has only writes that failed.
func (r *replay) chain(from Position, parts []part) ([]part, error) {
	var chain []part
	before := Position{} // the position that the segment after names
	for _, p := range slices.Backward(parts) {
		switch {
		case len(chain) == 0:
		case p.number > before.Segment:
			continue
		case p.number == before.Segment:
			p.end = before.Offset
		default:
			if err := r.damaged(before.Segment, headSize, "the segment or its head is missing"); err != nil {
				return nil, err
			}
		}
		chain, before = append(chain, p), p.before
	}
	slices.Reverse(chain)
	if len(chain) == 0 {
		return nil, nil
	}
	first := chain[0]
	switch {
	case first.number > from.Segment && first.before != from:
		reason := fmt.Sprintf("the log up to segment %d is missing", first.number)
		return chain, r.damaged(from.Segment, from.Offset, reason)
	case first.number == from.Segment && first.end > 0 && first.end < from.Offset:
		return chain, r.damaged(from.Segment, from.Offset, "the segment ends before the checkpoint")
	}
	return chain, nil
}

// openPart opens a segment and reads its head.
func (r *replay) openPart(number uint64) (p part, ours bool, err error) {
	p.file, err = r.settings.OpenFile(r.settings.path(number), os.O_RDONLY, 0)
	if err != nil {
		return p, false, err
	}
	r.files = append(r.files, p.file)
	info, err := p.file.Stat()
	if err != nil {
		return p, false, err
	}
	p.size = info.Size()
	p.head, ours, err = readHead(p.file, r.settings.Store, number)
	if ours && p.size < p.head.size {
		err = &DamagedError{number, p.size, "the file is shorter than it was"}
	}
	return p, ours, err
}

// readHead reads the head of a segment from either copy. ours is false if there is none yet.
func readHead(f io.ReaderAt, store [16]byte, number uint64) (h head, ours bool, err error) {
	both := true
	for _, at := range []int64{0, headCopy} {
		var b [headBytes]byte
		if _, err := f.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
			return h, false, err
		}
		h, ours, torn := decodeHead(b[:], store, number)
		if ours {
			return h, true, nil
		}
		both = both && torn
	}
	if both {
		err = &DamagedError{number, 0, "both copies of its head are damaged"}
	}
	return h, false, err
}

// readPart visits the frames of a segment.
func (r *replay) readPart(from Position) error {
	p := &r.part
	r.seed = p.seed(r.settings.Store)
	r.window = window{file: p.file, buf: r.window.buf[:0], limit: p.size}
	if p.end > 0 {
		r.window.limit = min(p.end, p.size)
	}
	at := int64(headSize)
	if p.number == from.Segment {
		at = max(at, from.Offset)
	}
	for at < r.window.limit {
		frame, ok, err := r.frameAt(at)
		if err != nil {
			return err
		}
		if !ok {
			at, err = r.skip(at)
		} else if err = r.visit(frame); err == nil {
			r.end, at = frame.End, frame.End.Offset
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skip returns where the log continues behind a place without a frame. Such a place is damaged if
// a later segment or a later frame proves that it was flushed. Else it is the end of the log.
func (r *replay) skip(at int64) (next int64, err error) {
	next, limit := at, r.window.limit
	if r.part.end == 0 || r.settings.AcceptLoss {
		for ok := false; next < limit && !ok; {
			if next, err = r.window.search(next + align); err == nil {
				_, ok, err = r.frameAt(next)
			}
			if err != nil {
				return 0, err
			}
		}
		if r.part.end == 0 && next >= limit {
			return limit, nil
		}
	}
	return next, r.damaged(r.part.number, at, "the frame is not what was flushed")
}

// frameAt decodes the frame at an offset. ok is false if there is none.
func (r *replay) frameAt(at int64) (f Frame, ok bool, err error) {
	if r.window.limit-at < frameHead {
		return f, false, nil
	}
	b, err := r.window.bytes(at, frameHead)
	if err != nil || !isPossible(b, r.window.limit-at) {
		return f, false, err
	}
	copy(r.head[:], b)
	length, n := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	sum, size := binary.LittleEndian.Uint32(b[16:]), frameSize(b)
	ofHead := headSum(r.head[:], r.seed, at)
	if ofHead != binary.LittleEndian.Uint32(b[20:]) {
		return f, false, nil
	}
	if b, err = r.window.bytes(at, size); err != nil {
		return f, false, err
	}
	b = b[frameHead : frameHead+length]
	if crc32.Update(ofHead, castagnoli, b) != sum {
		return f, false, nil
	}
	r.entries, ok = decodeEntries(r.entries[:0], n, b)
	number := r.part.number
	f = Frame{binary.LittleEndian.Uint64(r.head[8:]), Position{number, at}, Position{number, at + size}, r.entries}
	return f, ok, nil
}

// window is the part of a file that is in memory.
type window struct {
	file  io.ReaderAt
	limit int64 // of the bytes to read
	at    int64
	buf   []byte
}

// bytes returns n bytes, which are valid until the next call. They end before the limit.
func (w *window) bytes(at, n int64) ([]byte, error) {
	if at < w.at || at+n > w.at+int64(len(w.buf)) {
		size := min(max(n, 1<<20), w.limit-at)
		w.at, w.buf = at, slices.Grow(w.buf[:0], int(size))[:size]
		if read, err := w.file.ReadAt(w.buf, at); int64(read) < size {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	return w.buf[at-w.at:][:n], nil
}

var zeros [512]byte

// search returns the next offset at which the head of a frame is possible, or the limit.
func (w *window) search(at int64) (int64, error) {
	for w.limit-at >= frameHead {
		if _, err := w.bytes(at, frameHead); err != nil {
			return 0, err
		}
		for b := w.buf[at-w.at:]; len(b) >= frameHead; {
			if isPossible(b, w.limit-at) {
				return at, nil
			}
			step := align
			if b[0] == 0 && bytes.HasPrefix(b, zeros[:]) {
				step += len(zeros) - frameHead // as no head begins in zeros, unless it ends behind them
			}
			b, at = b[step:], at+int64(step)
		}
	}
	return w.limit, nil
}
