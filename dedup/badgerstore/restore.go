package badgerstore

import (
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

// Restore creates a store in dir from a backup. dir must be empty or not exist. If Restore fails,
// it removes what it has made except the file restore-failed: the directory cannot be opened, and
// Restore can be repeated.
//
// Event ids and leases issued after the backup are not issued again. Events accepted after it are
// gone: a repeated delivery of one is new.
func Restore(ctx context.Context, dir string, o Options, from io.Reader) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory %s cannot be created: %w; choose another one", dir, err)
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	s := restorer{core: newStore(dir, o).core}
	if s.lock, err = storedir.LockDir(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lock.Release()) }()
	if err := checkEmpty(dir, storedir.LockFile); err != nil { // another process was faster
		return err
	}
	if err := s.restore(ctx, from); err != nil {
		return errors.Join(err, s.remove())
	}
	return nil
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
	commit uint64 // number of the last commit
	writes []mutation
	bytes  int64 // of the writes
}

// restore makes a store of a backup. Without the format file, which is the last, it is not a store
// yet.
func (r *restorer) restore(ctx context.Context, from io.Reader) error {
	if err := r.makeDatabase(ctx, from); err != nil {
		return err
	}
	if err := storedir.ForgetFailedRestore(r.dir); err != nil {
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
		if kv.IsPart(name) && name != kv.CheckpointFile ||
			name == storedir.FormatFile || strings.HasPrefix(name, storedir.TempPrefix) {
			errs = append(errs, os.RemoveAll(filepath.Join(r.dir, name)))
		}
	}
	if err := errors.Join(append(errs, storedir.NoteFailedRestore(r.dir))...); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(r.dir, kv.CheckpointFile))
}

// makeDatabase makes a database of a backup, and closes it.
func (r *restorer) makeDatabase(ctx context.Context, from io.Reader) (err error) {
	if err := kv.Create(r.dir); err != nil {
		return err
	}
	if r.db, err = kv.Open(r.dir, r.kvOptions()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	in, err := newBackupReader(from)
	if err != nil {
		return err
	}
	for e, err := in.next(); !errors.Is(err, io.EOF); e, err = in.next() {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = r.put(e)
		}
		if err != nil {
			return err
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.restoreMeta()
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

// restoreMeta makes the counters those of a new store.
func (r *restorer) restoreMeta() error {
	m, err := readMeta(r.db)
	if err != nil {
		return err
	}
	r.commit = max(r.commit, m.Commit)
	m.Commit, m.Seq, m.Token = r.commit+1, m.Seq+lostGap, m.Token+lostGap
	return errors.Join(r.put(mutation{Key: record.MetaKey, Value: m.Encode()}), r.flush())
}
