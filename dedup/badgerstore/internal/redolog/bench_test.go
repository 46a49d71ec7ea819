package redolog

import (
	"math/rand/v2"
	"os"
	"testing"
)

// batch is the writes of 32 events with bodies of 1 KiB.
func batch() []Entry {
	r := rand.New(rand.NewPCG(1, 1))
	var entries []Entry
	for range 32 {
		entries = append(entries, Entry{Key: randomBytes(r, 20), Value: randomBytes(r, 1300)})
		entries = append(entries, Entry{Key: randomBytes(r, 24), Value: randomBytes(r, 40)})
	}
	return entries
}

// BenchmarkAppend writes batches without flushing them, which would measure the disk.
func BenchmarkAppend(b *testing.B) {
	s := Settings{Dir: b.TempDir() + "/redo", SegmentSize: 16 << 20}
	s.OpenFile = func(name string, flag int, perm os.FileMode) (File, error) {
		f, err := os.OpenFile(name, flag, perm)
		return unflushedFile{osFile{f}}, err
	}
	l := open(b, s, Position{})
	entries := batch()
	end, err := l.Append(0, entries)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(end.Offset - headSize)
	b.ReportAllocs()
	for group := uint64(1); b.Loop(); group++ {
		if _, err := l.Append(group, entries); err != nil {
			b.Fatal(err)
		}
		if err := l.Release(l.End()); err != nil {
			b.Fatal(err)
		}
	}
}

type unflushedFile struct{ osFile }

func (unflushedFile) Datasync() error { return nil }

func BenchmarkReplay(b *testing.B) {
	s := Settings{Dir: b.TempDir() + "/redo", SegmentSize: 16 << 20}
	l := open(b, s, Position{})
	entries := batch()
	for l.End().Offset < 15<<20 {
		write(b, l, 1, entries...)
	}
	b.SetBytes(16 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Replay(s, Position{}, func(Frame) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSearch looks for frames behind the end of the log: in zeros, and in the frames of a
// former use of the file.
func BenchmarkSearch(b *testing.B) {
	for name, fill := range map[string]bool{"zeros": false, "remnants": true} {
		b.Run(name, func(b *testing.B) {
			s := Settings{Dir: b.TempDir() + "/redo", SegmentSize: 16 << 20, Segments: 3}
			l := open(b, s, Position{})
			for entries := batch(); fill && l.End().Segment < 4; {
				write(b, l, 1, entries...)
				if err := l.Release(l.End()); err != nil {
					b.Fatal(err)
				}
			}
			if !fill {
				write(b, l, 1)
			}
			b.SetBytes(16 << 20)
			for b.Loop() {
				if _, err := Replay(s, l.End(), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
