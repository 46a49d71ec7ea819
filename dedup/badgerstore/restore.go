package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Restore creates a store in dir from a full backup and the increments after it, in their order,
// and returns the number of its keys. dir must be empty or not exist. If Restore fails, it removes
// what it has made except the file restore-failed: the directory cannot be opened, and Restore can
// be repeated. The error is a [ChainError] if a backup does not continue the previous one: it
// belongs to another store, repeated or out of order, or one is missing between them. Backups of
// a store without an identity do not name it; they are accepted with a warning in the log.
//
// The new store has an identity of its own: its backups start with a full one.
//
// Event ids and leases issued after the backup are not issued again. Events accepted after it are
// gone: a repeated delivery of one is new.
func Restore(ctx context.Context, dir string, o Options, backups ...io.Reader) (keys int, err error) {
	if len(backups) == 0 {
		return 0, errors.New("there is no backup to restore")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("directory %s cannot be created: %w; choose another one", dir, err)
	}
	if err := checkEmpty(dir); err != nil {
		return 0, err
	}
	s := restorer{core: newStore(dir, o).core}
	if s.lock, err = storedir.LockDir(dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.lock.Release()) }()
	if err := checkEmpty(dir, storedir.LockFile); err != nil { // another process was faster
		return 0, err
	}
	if err := s.restore(ctx, backups); err != nil {
		return 0, errors.Join(err, s.remove())
	}
	return s.keys, nil
}

// checkEmpty checks that a directory has no files but those named, and that of a failed restore.
func checkEmpty(dir string, names ...string) error {
	names = append(names, "lost+found", storedir.RestoreFailedFile)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("directory %s cannot be read: %w; choose another one", dir, err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			return fmt.Errorf("directory %s is not empty (%s); restore into an empty one, or one that does "+
				"not exist", dir, e.Name())
		}
	}
	return nil
}

type restorer struct {
	*core
	have Position // of the last backup
	keys int

	commit uint64 // number of the last commit
	writes []mutation
	bytes  int64 // of the writes
}

// restore makes a store of the backups. Without the format file, which is the last, it is not a
// store yet.
func (r *restorer) restore(ctx context.Context, backups []io.Reader) error {
	if err := r.makeDatabase(ctx, backups); err != nil {
		return err
	}
	if err := storedir.ForgetFailedRestore(r.dir); err != nil {
		return err
	}
	if _, err := storedir.NewIdentity(r.dir); err != nil {
		return err
	}
	return storedir.WriteFormat(r.dir, formatVersion)
}

// remove removes the files of a restore that failed. The checkpoint is removed last, so that the
// directory is refused at every moment, even if the disk is full.
func (r *restorer) remove() error {
	entries, err := os.ReadDir(r.dir)
	errs := []error{err}
	for _, e := range entries {
		name := e.Name()
		if kv.IsPart(name) && name != storedir.CheckpointFile || name == storedir.IdentityFile ||
			name == storedir.FormatFile || strings.HasPrefix(name, storedir.TempPrefix) {
			errs = append(errs, os.RemoveAll(filepath.Join(r.dir, name)))
		}
	}
	if err := errors.Join(append(errs, storedir.NoteFailedRestore(r.dir))...); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(r.dir, storedir.CheckpointFile))
}

// makeDatabase makes a database of the backups, and closes it.
func (r *restorer) makeDatabase(ctx context.Context, backups []io.Reader) (err error) {
	if err := kv.Create(r.dir); err != nil {
		return err
	}
	if r.db, err = kv.Open(r.dir, r.kvOptions()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	for i, from := range backups {
		err := r.db.View(func(before *kv.View) error { return r.load(ctx, before, from) })
		if err != nil {
			return fmt.Errorf("backup %d: %w", i+1, err)
		}
	}
	return r.restoreMeta()
}

// load sets the values of a backup and deletes the keys that it does not name.
func (r *restorer) load(ctx context.Context, before *kv.View, from io.Reader) error {
	in, err := newBackupReader(from)
	if err != nil {
		return err
	}
	end, err := r.follow(in.head)
	if err != nil {
		return err
	}
	it := before.Keys(nil)
	defer it.Close()
	var last []byte
	for {
		e, old, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if len(e.Key) == 0 || bytes.Compare(e.Key, last) <= 0 {
			return fmt.Errorf("%w: its keys are not in order", errBackup)
		}
		last = e.Key
		if err := r.deleteUntil(it, e.Key); err != nil {
			return err
		}
		there := it.Valid() && bytes.Equal(it.Key(), e.Key)
		if old && !there {
			return errors.New("it names a key that the previous backups do not have: it belongs to another store; " +
				"pass the increments of one store only")
		}
		if there {
			it.Next()
		}
		if !old {
			if err := r.put(e); err != nil {
				return err
			}
		}
	}
	r.have = end
	return errors.Join(r.deleteUntil(it, nil), r.flush())
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
		r.log.Warn("backups without an identity do not name their store: whether the increment continues the "+
			"previous backup is unknown", "dir", r.dir, "since", from.Version)
	}
	if end.Store == "" {
		end.Store = have.Store // later ones must be of that store
	}
	return end, nil
}

// deleteUntil deletes the keys from the iterator up to key, all remaining ones if key is nil.
func (r *restorer) deleteUntil(it *kv.Iterator, key []byte) error {
	for ; it.Valid() && (key == nil || bytes.Compare(it.Key(), key) < 0); it.Next() {
		if err := r.put(mutation{Key: it.KeyCopy()}); err != nil {
			return err
		}
	}
	return nil
}

// put adds a change, which it keeps, to the next commit. A commit is about an eighth of a segment.
func (r *restorer) put(e mutation) error {
	r.writes = append(r.writes, e)
	r.bytes += int64(len(e.Key) + len(e.Value) + len(e.Content))
	if r.bytes < cmp.Or(r.options.segment, segmentSize)/8 {
		return nil
	}
	return r.flush()
}

func (r *restorer) flush() error {
	if len(r.writes) == 0 {
		return nil
	}
	r.commit++
	if err := r.db.Commit(r.commit, r.writes); err != nil {
		return err
	}
	clear(r.writes)
	r.writes, r.bytes = r.writes[:0], 0
	return nil
}

// restoreMeta counts the keys, and makes the counters those of a new store.
func (r *restorer) restoreMeta() error {
	var m record.Meta
	err := r.db.View(func(in *kv.View) (err error) {
		for range in.Items() {
			r.keys++
		}
		m, err = readMeta(in)
		return err
	})
	if err != nil {
		return err
	}
	r.commit = max(r.commit, m.Commit)
	m.Commit, m.Seq, m.Token = r.commit+1, m.Seq+lostGap, m.Token+lostGap
	return errors.Join(r.put(mutation{Key: record.MetaKey, Value: m.Encode()}), r.flush())
}
