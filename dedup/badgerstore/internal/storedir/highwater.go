package storedir

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// HighWater is a small file beside the database with the number of the last commit. Badger
// silently ends a damaged log at the first broken entry. A store whose last commit is lower
// than this number has lost acknowledged commits.
//
// The number is written after the commit is durable and is not flushed itself: after a power
// cut the file may be behind, but never ahead.
type HighWater struct{ File *os.File }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	// HighWaterFile is the name of the file.
	HighWaterFile = "highwater"
	highWaterSize = 12
)

// OpenHighWater opens the file, and creates it if it does not exist. It is durable before the
// first commit, so a store with commits but without the file has lost it.
func OpenHighWater(dir string) (*HighWater, error) {
	path := filepath.Join(dir, HighWaterFile)
	_, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	w := &HighWater{f}
	if isNew {
		return w, errors.Join(w.Write(0), f.Sync(), syncDir(dir))
	}
	return w, nil
}

// Read returns the number. unknown is why there is none: the file is missing or damaged.
func (w *HighWater) Read() (mark uint64, unknown string, err error) {
	var b [highWaterSize]byte
	if _, err := w.File.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	if crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, "damaged", nil
	}
	return binary.LittleEndian.Uint64(b[:]), "", nil
}

// Probe writes a meaningless byte behind the number to find out whether the file system takes
// writes. Badger would find out by a fault in its memory maps, which kills the process.
func (w *HighWater) Probe() error {
	_, err := w.File.WriteAt([]byte{'.'}, highWaterSize)
	return err
}

// Write replaces the number, without flushing it.
func (w *HighWater) Write(commit uint64) error {
	var b [highWaterSize]byte
	binary.LittleEndian.PutUint64(b[:], commit)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	_, err := w.File.WriteAt(b[:], 0)
	return err
}

// Close flushes and closes the file.
func (w *HighWater) Close() error { return errors.Join(w.File.Sync(), w.File.Close()) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// PeekHighWater reads the file without creating it.
func PeekHighWater(dir string) (mark uint64, unknown string, err error) {
	f, err := os.Open(filepath.Join(dir, HighWaterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "missing", nil
	} else if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	return (&HighWater{f}).Read()
}
