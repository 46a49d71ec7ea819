// Package format2 reads stores of the formats 1 and 2: one Badger database in the directory of the
// store, with its values in Badger's value log. It changes none of their files, so the program that
// wrote a store still opens it.
package format2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
)

// Store is an open store of an older format. Badger truncates logs and replaces files when it opens
// them, so it gets a mirror of the directory.
type Store struct {
	db     *badger.DB
	mirror string
}

// filler is the family of keys without meaning, which only filled memory tables.
const filler = 'z'

// Open opens the store in a directory that the caller has locked. It refuses a damaged one.
func Open(dir string) (s *Store, err error) {
	s = &Store{mirror: filepath.Join(dir, mirrorDir)}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its tables cannot be opened: %v", p)
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.mirror))
		}
	}()
	if err := mirror(dir, s.mirror); err != nil {
		return nil, fmt.Errorf("its files cannot be copied: %w", err)
	}
	o := badger.DefaultOptions(s.mirror).WithLogger(nil).
		WithNumCompactors(0). // deleting a table truncates the file, which the directory shares
		WithNumLevelZeroTablesStall(1 << 20).
		WithMemTableSize(16 << 20).
		WithValueThreshold(256).
		WithBlockCacheSize(64 << 20)
	manifest, err := badgerfile.ReadManifest(s.mirror)
	if err == nil {
		err = badgerfile.CheckTables(s.mirror, o, manifest)
	}
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	s.db, err = badger.Open(o)
	return s, err
}

// Version returns the version of the newest value, which backups name.
func (s *Store) Version() uint64 { return s.db.MaxVersion() }

// Get returns a copy of a value, nil if the key does not exist.
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		value, err = valueOf(item)
		return err
	})
	return value, err
}

// valueOf returns a copy of a value, never nil. It is empty if the value log has lost the value:
// Badger does not report that.
func valueOf(item *badger.Item) ([]byte, error) { return item.ValueCopy([]byte{}) }

// Each visits the keys from one on, in order, with copies of their values.
func (s *Store) Each(from []byte, visit func(key, value []byte) error) error {
	return s.each(badger.DefaultIteratorOptions, from, func(item *badger.Item) error {
		value, err := valueOf(item)
		if err != nil {
			value = []byte{}
		}
		return visit(item.KeyCopy(nil), value)
	})
}

// Count returns the number of keys, and of those before one.
func (s *Store) Count(before []byte) (all, earlier int, err error) {
	o := badger.DefaultIteratorOptions
	o.PrefetchValues = false
	err = s.each(o, nil, func(item *badger.Item) error {
		if all++; bytes.Compare(item.Key(), before) < 0 {
			earlier++
		}
		return nil
	})
	return all, earlier, err
}

func (s *Store) each(o badger.IteratorOptions, from []byte, visit func(*badger.Item) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Seek(from); it.Valid(); it.Next() {
			if it.Item().Key()[0] == filler {
				continue
			}
			if err := visit(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close closes the store and deletes the mirror.
func (s *Store) Close() error { return errors.Join(s.db.Close(), os.RemoveAll(s.mirror)) }

// The high-water file has the number of the last commit (8 bytes) and its CRC-32C. Badger ends a
// damaged log at the first broken entry without an error: a store whose last commit is lower has
// lost acknowledged commits.
const highWater = "highwater"

// HighWater returns the number of the last commit that was acknowledged. unknown is why there is no
// number: the file is missing or damaged.
func HighWater(dir string) (commit uint64, unknown string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, highWater))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, "missing", nil
	case err != nil:
		return 0, "", err
	case len(b) < 12 || crc32.Checksum(b[:8], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(b[8:]):
		return 0, "damaged", nil
	}
	return binary.LittleEndian.Uint64(b), "", nil
}

// copySparse copies a file. It leaves holes where there are zeros, which logs are full of.
func copySparse(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(in, block)
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return out.Truncate(at)
		case err != nil:
			return err
		}
	}
}
