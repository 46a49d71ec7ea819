package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// highWater is a small file beside the database that holds the number of the last commit. Badger ends a
// damaged log at the first broken entry and says nothing; a store whose last commit is older than this file
// says has lost commits that were acknowledged.
//
// The number is written after the commit is durable and is not flushed itself: after a power cut the file may
// be behind, never ahead.
type highWater struct{ f *os.File }

const (
	highWaterName = "highwater"
	highWaterSize = 12
)

// openHighWater returns the file and the number in it, 0 when the file is new or cannot be read.
func openHighWater(dir string) (*highWater, uint64, error) {
	path := filepath.Join(dir, highWaterName)
	_, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	w := &highWater{f}
	if isNew {
		return w, 0, errors.Join(w.write(0), f.Sync(), syncDir(dir))
	}
	var b [highWaterSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, errors.Join(err, f.Close())
	}
	if crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return w, 0, nil
	}
	return w, binary.LittleEndian.Uint64(b[:]), nil
}

func (w *highWater) write(commit uint64) error {
	var b [highWaterSize]byte
	binary.LittleEndian.PutUint64(b[:], commit)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
	_, err := w.f.WriteAt(b[:], 0)
	return err
}

func (w *highWater) close() error { return errors.Join(w.f.Sync(), w.f.Close()) }

// errLost says that the store is behind the file.
func errLost(dir string, have, want uint64) error {
	return fmt.Errorf("store %s lost its newest commits: the last is %d, but %d was acknowledged; its log is damaged. "+
		"Restore a backup, or accept the loss (AcceptLoss, --accept-loss): events of those commits are gone, and a repeated delivery of one is new",
		dir, have, want)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
