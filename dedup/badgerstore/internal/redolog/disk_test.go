package redolog

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

const sectorSize = 512

// disk opens files whose unflushed sectors may be lost, and injects errors.
type disk struct {
	mu      sync.Mutex
	r       *rand.Rand
	files   []*diskFile
	full    bool // writes end early with ENOSPC
	broken  bool // writes fail with EIO
	noFlush bool // flushes fail with EIO
	written int  // calls
}

// diskFile is a file with what was in its unflushed sectors, and with its size before.
type diskFile struct {
	*os.File
	disk    *disk
	flushed map[int64][]byte
	size    int64 // before the last change, -1 if that was flushed
}

func newDisk(seed uint64) *disk { return &disk{r: rand.New(rand.NewPCG(seed, 0))} }

func (d *disk) open(name string, flag int, perm fs.FileMode) (storedir.File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	df := &diskFile{f, d, map[int64][]byte{}, -1}
	d.files = append(d.files, df)
	return df, nil
}

func (d *disk) set(change func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written++
	if d.broken {
		return 0, syscall.EIO
	}
	if d.full {
		b = b[:d.r.IntN(len(b)+1)]
	}
	for sector := at / sectorSize; sector*sectorSize < at+int64(len(b)); sector++ {
		if f.flushed[sector] == nil {
			before := make([]byte, sectorSize)
			_, _ = f.ReadAt(before, sector*sectorSize)
			f.flushed[sector] = before
		}
	}
	n, err := f.File.WriteAt(b, at)
	if err == nil && d.full {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// reserving is a disk that reserves space, unless it is full.
func (d *disk) reserving(name string, flag int, perm fs.FileMode) (storedir.File, error) {
	f, err := d.open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return reservingFile{f.(*diskFile)}, nil
}

type reservingFile struct{ *diskFile }

func (f reservingFile) Allocate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.full {
		return syscall.ENOSPC
	}
	info, err := f.Stat()
	if err == nil {
		f.size = info.Size()
	}
	return errors.Join(err, f.Truncate(size))
}

func (f *diskFile) Allocate(int64) error { return errors.ErrUnsupported }

func (f *diskFile) Datasync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.noFlush {
		return syscall.EIO
	}
	clear(f.flushed)
	f.size = -1
	return nil
}

func (f *diskFile) Raw() bool                    { return false }
func (f *diskFile) Sync() error                  { return f.Datasync() }
func (f *diskFile) WriteBack(int64, int64) error { return nil } // a power cut may undo it
func (f *diskFile) Close() error                 { return nil } // until the crash

// crash closes the files. A power cut loses a random part of the unflushed sectors.
func (d *disk) crash(t testing.TB, powerCut bool) {
	t.Helper()
	var err error
	for _, f := range d.files {
		chance := []int{0, 2, 10}[d.r.IntN(3)] // all, half or some of the sectors are lost
		for _, sector := range slices.Sorted(maps.Keys(f.flushed)) {
			if powerCut && (chance == 0 || d.r.IntN(chance) == 0) {
				_, e := f.File.WriteAt(f.flushed[sector], sector*sectorSize)
				err = errors.Join(err, e)
			}
		}
		if powerCut && f.size >= 0 && chance != 10 {
			err = errors.Join(err, f.Truncate(f.size))
		}
		err = errors.Join(err, f.File.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	*d = disk{r: d.r}
}
