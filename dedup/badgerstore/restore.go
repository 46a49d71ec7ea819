package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Restore creates a store in dir from a full backup and the increments after it, in their order,
// and returns the number of its keys. dir must be empty or not exist. A directory in which Restore
// failed cannot be opened. The error is a [ChainError] if a backup does not continue the previous
// one: it belongs to another store, repeated or out of order, or one is missing between them.
// Backups of earlier programs do not name their store; they are accepted with a warning in the log.
//
// The new store has an identity of its own: its backups start with a full one.
//
// Event ids and leases issued after the backup are not issued again. Events accepted after it are
// gone: a repeated delivery of one is new.
func Restore(ctx context.Context, dir string, o Options, backups ...io.Reader) (keys int, err error) {
	if len(backups) == 0 {
		return 0, errors.New("there is no backup to restore")
	}
	if err := restoreInto(dir); err != nil {
		return 0, err
	}
	s := restorer{core: newStore(dir, o).core}
	if s.lock, err = storedir.LockDir(dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.lock.Release()) }()
	if s.db, err = openBadger(dir, s.badgerOptions().WithSyncWrites(false), s.logger); err != nil {
		return 0, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, s.db.Close())
		}
	}()
	for i, r := range backups {
		if err := s.load(ctx, r); err != nil {
			return 0, fmt.Errorf("backup %d: %w", i+1, err)
		}
	}
	if keys, err = s.restoreMeta(); err != nil {
		return 0, err
	}
	closed = true
	if err := s.db.Close(); err != nil {
		return 0, err
	}
	if _, err := storedir.NewIdentity(dir); err != nil {
		return 0, err
	}
	return keys, storedir.WriteFormat(dir, formatVersion)
}

// restoreInto creates the directory. Without the format file it is not a store yet.
func restoreInto(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory %s cannot be created: %w; choose another one", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("directory %s cannot be read: %w; choose another one", dir, err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("directory %s is not empty (%s); restore into an empty one, or one that does "+
				"not exist", dir, e.Name())
		}
	}
	return nil
}

type restorer struct {
	*core
	have Position // of the last backup
}

// load sets the values of a backup and deletes the keys that it does not name.
func (r *restorer) load(ctx context.Context, from io.Reader) error {
	in, err := newBackupReader(from)
	if err != nil {
		return err
	}
	end, err := r.follow(in.head)
	if err != nil {
		return err
	}
	txn := r.db.NewTransaction(false)
	defer txn.Discard()
	it := txn.NewIterator(keysOnly())
	defer it.Close()
	it.Rewind()
	batch := r.db.NewWriteBatch()
	defer batch.Cancel()
	var last []byte
	for {
		key, value, old, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if len(key) == 0 || bytes.Compare(key, last) <= 0 {
			return fmt.Errorf("%w: its keys are not in order", errBackup)
		}
		last = key
		if err := deleteUntil(it, batch, key); err != nil {
			return err
		}
		there := it.Valid() && bytes.Equal(it.Item().Key(), key)
		if old && !there {
			return errors.New("it names a key that the previous backups do not have: it belongs to another store; " +
				"pass the increments of one store only")
		}
		if there {
			it.Next()
		}
		if !old {
			if err := batch.Set(key, value); err != nil {
				return err
			}
		}
	}
	if err := deleteUntil(it, batch, nil); err != nil {
		return err
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	r.have = end
	return nil
}

// follow checks that a backup continues the previous ones, and returns where it ends.
func (r *restorer) follow(head backupHead) (Position, error) {
	have := r.have
	from, first := head.from(), have == (Position{})
	if first != (from.Version == 0) || !first && !have.goesOn(from) {
		return have, &ChainError{Have: have, From: from, Restoring: true}
	}
	end := head.at()
	if !first && (have.Store == "" || end.Store == "") {
		r.log.Warn("backups of an earlier program do not name their store: whether the increment continues the "+
			"previous backup is unknown", "dir", r.dir, "since", from.Version)
	}
	if end.Store == "" {
		end.Store = have.Store // later ones must be of that store
	}
	return end, nil
}

// deleteUntil deletes the keys from the iterator up to key, all remaining ones if key is nil.
func deleteUntil(it *badger.Iterator, batch *badger.WriteBatch, key []byte) error {
	for ; it.Valid() && (key == nil || bytes.Compare(it.Item().Key(), key) < 0); it.Next() {
		if err := batch.Delete(it.Item().KeyCopy(nil)); err != nil {
			return err
		}
	}
	return nil
}

func (r *restorer) restoreMeta() (keys int, err error) {
	var m record.Meta
	err = r.db.View(func(txn *badger.Txn) error {
		for range items(txn, keysOnly()) {
			keys++
		}
		m, err = readMeta(txn)
		return err
	})
	if err != nil {
		return 0, err
	}
	m.Seq, m.Token = m.Seq+lostGap, m.Token+lostGap
	if err := r.db.Update(func(txn *badger.Txn) error { return txn.Set(record.MetaKey, m.Encode()) }); err != nil {
		return 0, err
	}
	if err := r.db.Sync(); err != nil {
		return 0, err
	}
	water, err := storedir.OpenHighWater(r.dir)
	if err != nil {
		return 0, err
	}
	return keys, errors.Join(water.Write(m.Commit), water.Close())
}
