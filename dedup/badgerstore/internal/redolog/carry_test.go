package redolog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// steps are the writes and flushes until the power is cut.
type steps struct{ left int }

type stepFile struct {
	storedir.File
	*steps
}

func (s *steps) next(do func() error) error {
	if s.left--; s.left < 0 {
		return syscall.EIO
	}
	return do()
}

func (f stepFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.next(func() error { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

func (f stepFile) Datasync() error { return f.next(f.File.Datasync) }

// TestACarriedFrameReplacesItsOldPlace cuts the power before and after each step of a Carry. The
// frame is there once, at its old place or at the new one.
func TestACarriedFrameReplacesItsOldPlace(t *testing.T) {
	t.Parallel()
	for cut := range 6 {
		moved := 0
		for seed := range uint64(20) {
			s, d, left := tiny(t), newDisk(seed), &steps{1 << 20}
			s.OpenFile = func(name string, flag int, perm fs.FileMode) (storedir.File, error) {
				f, err := d.open(name, flag, perm)
				return stepFile{f, left}, err
			}
			l := open(t, s, Position{})
			write(t, l, 1, Entry{Key: []byte("a")})
			want := write(t, l, 2, randomEntries(rand.New(rand.NewPCG(seed, 2)), 9000)...)
			settle(l)
			_ = l.Close()
			l = open(t, s, want.at)
			settle(l)
			left.left = cut
			end, err := l.Carry(want.group, want.entries)
			if whole := cut >= 4; whole != (err == nil) || !whole && !errors.Is(err, syscall.EIO) {
				t.Fatalf("power cut after %d steps: %v", cut, err)
			}
			left.left = 1 << 20
			if err == nil && cut == 5 { // the log continues
				next := write(t, l, 3, Entry{Key: []byte("b")})
				if next.at != end {
					t.Errorf("the next frame is at %v, want %v", next.at, end)
				}
			}
			_ = l.Close()
			d.crash(t, true)
			got, _ := readAll(t, s, want.at)
			if len(got) == 0 || len(got) != 1+cut/5 {
				t.Fatalf("power cut after %d steps, seed %d: %d frames", cut, seed, len(got))
			}
			if got[0].at != want.at {
				moved++
				want.at, want.end = got[0].at, got[0].end
			}
			checkFrames(t, got[:1], []frame{want})
		}
		if moved == 0 && cut >= 4 || moved > 0 && cut < 3 {
			t.Errorf("after %s, %d frames have moved", fmt.Sprint(cut, " steps"), moved)
		}
	}
}
