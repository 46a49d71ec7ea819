package redolog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// model is a log on a disk and what a Replay of it must visit.
type model struct {
	t          *testing.T
	r          *rand.Rand
	disk       *disk
	settings   Settings
	log        *Log
	checkpoint Position
	flushed    []frame // behind the checkpoint
	possible   []frame // at most one of them may follow
	group      uint64
	acked      int // frames
}

func init() { retryAfter = time.Millisecond }

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), disk: newDisk(seed), settings: tiny(t)}
	m.settings.Segments = 3 + m.r.IntN(3)
	if m.settings.OpenFile = m.disk.open; seed%2 == 1 {
		m.settings.OpenFile = m.disk.reserving // and segments are filled
	}
	return m
}

// start replays the log, moves the checkpoint and opens the log.
func (m *model) start() {
	m.t.Helper()
	for range 1 + m.r.IntN(2) { // a crash during the start repeats it
		got, end := readAll(m.t, m.settings, m.checkpoint)
		m.check(got)
		m.flushed, m.possible = got, nil
		if m.r.IntN(4) > 0 {
			m.checkpoint, m.flushed = end, nil
		}
	}
	_, m.checkpoint = readAll(m.t, m.settings, m.checkpoint)
	m.flushed = nil
	m.log = open(m.t, m.settings, m.checkpoint)
	m.log.load()
}

// check compares visited frames with those that were flushed, and maybe one more.
func (m *model) check(got []frame) {
	m.t.Helper()
	if n := len(m.flushed); len(got) == n+1 {
		last := got[n]
		if !slices.ContainsFunc(m.possible, func(p frame) bool {
			last.at, last.end = p.at, p.end
			return last.equal(p)
		}) {
			m.t.Fatalf("frame %d of group %d was neither flushed nor written last", n, last.group)
		}
		got = got[:n]
	}
	checkFrames(m.t, got, m.flushed)
}

// append writes a frame and mostly flushes it.
func (m *model) append() (ok bool) {
	m.t.Helper()
	m.group++
	size := 3000
	switch m.r.IntN(40) {
	case 0, 1, 2, 3:
		size = 12000
	case 4:
		size = int(3 * m.settings.SegmentSize)
	}
	f := frame{group: m.group, entries: randomEntries(m.r, size)}
	before := m.log.End()
	end, err := m.log.Append(m.group, f.entries)
	if before != m.log.End() { // Append flushed the frame before
		m.confirm()
	}
	notWritten := (*storedir.NotWrittenError)(nil)
	switch {
	case errors.Is(err, ErrFull):
		return false
	case errors.As(err, &notWritten):
		m.possible = append(m.possible, f)
		return false
	case err != nil:
		m.t.Fatal(err)
	}
	f.end = end
	f.at = Position{end.Segment, end.Offset - int64(len(appendFrame(nil, m.group, f.entries)))}
	m.possible = append(m.possible, f)
	if m.r.IntN(5) > 0 {
		m.flush()
	}
	return true
}

// confirm notes that the last frame was flushed.
func (m *model) confirm() {
	f := m.possible[len(m.possible)-1]
	if f.end != m.log.End() {
		m.t.Fatalf("the log ends at %v, the last frame at %v", m.log.End(), f.end)
	}
	m.flushed, m.possible = append(m.flushed, f), nil
	m.acked++
}

func (m *model) mark() {
	m.t.Helper()
	m.flush()
	before := m.log.End()
	err := m.log.Mark()
	if end := m.log.End(); end != before {
		m.flushed = append(m.flushed, frame{m.log.group, Position{end.Segment, end.Offset - frameHead}, end, nil})
		m.possible = nil
	}
	notWritten := (*storedir.NotWrittenError)(nil)
	if errors.As(err, &notWritten) {
		m.possible = append(m.possible, frame{group: m.log.group})
	} else if err != nil && !errors.Is(err, ErrFull) {
		m.t.Fatal(err)
	}
}

// flush flushes the last frame if it was written.
func (m *model) flush() {
	m.t.Helper()
	before := m.log.End()
	if err := m.log.Flush(); err != nil {
		m.t.Fatal(err)
	}
	if m.log.End() != before {
		m.confirm()
	}
}

// advance moves the checkpoint to one of the flushed frames.
func (m *model) advance(n int) {
	m.t.Helper()
	if n == 0 {
		return
	}
	m.checkpoint, m.flushed = m.flushed[n-1].end, m.flushed[n:]
	if err := m.log.Release(m.checkpoint); err != nil {
		m.t.Fatal(err)
	}
}

// live runs a number of steps.
func (m *model) live(steps int) {
	m.t.Helper()
	full := false
	for range steps {
		switch n := m.r.IntN(100); {
		case n < 2:
			full = !full
			m.disk.set(func(d *disk) { d.full = full })
		case n < 8:
			m.mark()
		case n < 20:
			m.advance(m.r.IntN(len(m.flushed) + 1))
		default:
			if !m.append() && !full {
				m.advance(len(m.flushed))
				settle(m.log) // files of large frames are made again, for which there was no space before
				if !m.append() {
					m.t.Fatal("the log is full although a checkpoint passed everything")
				}
			}
		}
	}
}

func TestFlushedFramesSurviveCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for range 10 {
				m.start()
				m.live(m.r.IntN(150))
				if m.r.IntN(4) == 0 {
					m.failFlush()
				}
				m.log.mu.Lock()
				failed := m.log.failed != nil
				m.log.mu.Unlock()
				if err := m.log.Close(); (err != nil) != failed {
					t.Fatalf("Close of a log that has failed (%t): %v", failed, err)
				}
				m.disk.crash(t, m.r.IntN(2) == 0)
			}
			if m.acked < 50 {
				t.Errorf("only %d frames were flushed", m.acked)
			}
		})
	}
}

// failFlush ends a life with a failed flush, after which the frame may exist.
func (m *model) failFlush() {
	m.t.Helper()
	m.disk.set(func(d *disk) { d.full = false })
	if !m.append() {
		return
	}
	m.flush()
	m.disk.set(func(d *disk) { d.noFlush = true })
	m.group++
	f := frame{group: m.group, entries: randomEntries(m.r, 100)}
	if _, err := m.log.Append(m.group, f.entries); errors.Is(err, ErrFull) || errors.Is(err, syscall.EIO) {
		return // the latter of a segment that was being filled
	} else if err != nil {
		m.t.Fatal(err)
	}
	m.possible = append(m.possible, f)
	if err := m.log.Flush(); !errors.Is(err, syscall.EIO) {
		m.t.Fatalf("Flush: %v, want EIO", err)
	}
	m.disk.set(func(d *disk) { d.noFlush = false })
	if _, err := m.log.Append(0, nil); !errors.Is(err, syscall.EIO) {
		m.t.Fatalf("Append after a failed flush: %v, want EIO", err)
	}
}
