package badgerstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/format2"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Convert upgrades the store in dir, which no process may have open, to the format of this program,
// as [Open] does, and closes it. It returns the format that the store had. If that was an older
// one, it first writes a full backup to a new file, unless the name is empty; the program that
// wrote the store restores it. After an interruption, call it again with the same file.
func Convert(dir string, o Options, backup string) (from int, err error) {
	if from, err = newStore(dir, o).existing(); from == 0 || from >= formatVersion {
		return from, err
	}
	o.backup, o.CheckEvery = backup, -1
	s, err := Open(dir, o)
	if err != nil {
		return from, err
	}
	return from, s.Close()
}

// conversion copies a store of format 1 or 2 into a database beside it, and rewrites its events
// there. Until the format file says otherwise the old files are the store, and the program that
// wrote them opens it. A conversion that was interrupted continues behind the last key that it
// copied.
type conversion struct {
	*core
	loader
	old       *format2.Store
	from      int // format
	meta      record.Meta
	encoded   []byte // the meta as it is in the old store
	all, done int    // keys
	logged    time.Time
}

// cursorKey is the key of the last copied key, which the meta of the old store precedes: after
// another commit of the old program the conversion begins again.
var cursorKey = []byte{'v'}

// convert converts the store. The files of the old one are removed later, by removeOld.
func convert(c *core, from int) (err error) {
	if _, err := os.Stat(filepath.Join(c.dir, "MANIFEST")); err != nil && kv.Exists(c.dir) {
		return fmt.Errorf("its %s file is damaged: it names format %d, and the files are those of format %d",
			storedir.FormatFile, from, formatVersion)
	}
	v := &conversion{core: c, from: from, logged: time.Now()}
	if v.old, err = format2.Open(c.dir); err != nil {
		return fmt.Errorf("%w; restore a backup", err)
	}
	defer func() { err = errors.Join(err, v.old.Close()) }()
	if err := v.accept(); err != nil {
		return err
	}
	head := backupHead{Format: from, Version: v.old.Version(), Commit: v.meta.Commit}
	err = backUp(c, head, func(out *backupWriter) error {
		err := v.old.Each(nil, func(key, value []byte) error {
			out.value(key, value, nil)
			return out.err
		})
		return errors.Join(err, out.end())
	})
	if err != nil {
		return err
	}
	last, err := v.open()
	if err != nil {
		return err
	}
	defer func() {
		c.options.step(stepConvert)
		err = errors.Join(err, c.db.Close())
		c.db = nil
	}()
	if err := v.copy(last); err != nil {
		return err
	}
	w := newRewriter(c, v.commit)
	if err := w.compare(); err != nil {
		return err
	}
	return w.run()
}

// accept refuses a store that the program which wrote it would refuse.
func (v *conversion) accept() (err error) {
	if v.encoded, err = v.old.Get(record.MetaKey); err != nil {
		return err
	}
	if v.encoded != nil {
		if v.meta, err = record.DecodeMeta(v.encoded); err != nil {
			return fmt.Errorf("%w; restore a backup", err)
		}
	}
	if err := checkClock(v.core, v.meta); err != nil {
		return err
	}
	mark, unknown, err := format2.HighWater(v.dir)
	if err != nil {
		return err
	}
	var lost string
	switch {
	case v.meta.Commit < mark:
		lost = fmt.Sprintf("commit %d was acknowledged, the last one here is %d", mark, v.meta.Commit)
	case unknown != "" && v.meta.Commit > 0:
		lost = "the file with the number of the last commit is " + unknown
	default:
		return nil
	}
	if !v.options.AcceptLoss {
		return fmt.Errorf("it lost acknowledged data, or may have: %s. Its files are unchanged; %s", lost,
			restoreOrAccept)
	}
	v.log.Warn("opened with lost commits (accept-loss)", "dir", v.dir, "last", v.meta.Commit, "reason", lost)
	v.meta.Commit = max(v.meta.Commit, mark)
	v.meta.Seq, v.meta.Token = v.meta.Seq+lostGap, v.meta.Token+lostGap
	return nil
}

// backUp writes a full backup of the store before its conversion, if that was asked for. fill
// writes the content and the end. A conversion that continues finds the file that it wrote before.
func backUp(c *core, head backupHead, fill func(*backupWriter) error) (err error) {
	path := c.options.backup
	if path == "" {
		return nil
	}
	if head.Store, _, err = storedir.ReadIdentity(c.dir); err != nil {
		return err
	}
	if f, err := os.Open(path); err == nil {
		defer func() { _ = f.Close() }()
		if in, err := newBackupReader(f); err == nil && in.head == head {
			return nil
		}
		return fmt.Errorf("%s exists and is not a backup of the store as it is; name another file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".eyelet-backup-*")
	if err != nil {
		return fmt.Errorf("the backup %s cannot be written: %w; name another file", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	out := newBackupWriter(f)
	if err = out.begin(head); err == nil {
		err = fill(out)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("the backup %s cannot be written: %w; name another file", path, err)
	}
	c.options.step(stepConvert)
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	c.log.Info("the store was backed up before its conversion", "dir", c.dir, "file", path)
	return redolog.SyncDir(filepath.Dir(path))
}

// open opens the new database, and returns the last key in it: nil if the conversion begins.
func (v *conversion) open() (last []byte, err error) {
	var version uint64
	if kv.Exists(v.dir) {
		if v.db, err = kv.Open(v.dir, v.kvOptions()); err == nil {
			err = v.db.View(func(in *kv.View) error {
				version = in.Commit()
				last, err = in.Get(cursorKey)
				return err
			})
			if behind, ok := bytes.CutPrefix(last, v.encoded); err == nil && ok && len(last) > 0 {
				v.loader = newLoader(v.core, version)
				return behind, nil
			}
			err = errors.Join(err, v.db.Close())
		}
		v.log.Info("the conversion of the store begins again", "dir", v.dir, "error", err)
	}
	v.options.step(stepConvert)
	if err := kv.Create(v.dir); err != nil {
		return nil, err
	}
	if err := conversionSpace(v.core); err != nil {
		return nil, err
	}
	v.options.step(stepConvert)
	if v.db, err = kv.Open(v.dir, v.kvOptions()); err != nil {
		return nil, err
	}
	v.loader = newLoader(v.core, v.meta.Commit)
	return nil, nil
}

// conversionSpace refuses to begin on a file system that cannot hold the store twice.
func conversionSpace(c *core) error {
	u, err := measure(c.dir)
	if err != nil {
		return err
	}
	free, _, err := c.options.statfs(c.dir)
	need := u.all + int64(c.segments())*cmp.Or(c.options.segment, segmentSize) + c.disk.look().hard
	if err == nil && free < need {
		err = fmt.Errorf("the conversion needs %s of free space, and there are %s; free some space, the store is "+
			"unchanged", mib(need), mib(free))
	}
	return err
}

// copy copies what follows a key, compares, and writes the counters.
func (v *conversion) copy(last []byte) (err error) {
	next := append(bytes.Clone(last), 0)
	if last == nil {
		next = nil
	}
	if v.all, v.done, err = v.old.Count(next); err != nil {
		return err
	}
	v.mark = func(last []byte) mutation {
		return mutation{Key: cursorKey, Value: append(bytes.Clone(v.encoded), last...)}
	}
	v.log.Info("the store is converted", "dir", v.dir, "from", v.from, "to", formatVersion, "keys", v.all,
		"done", v.done)
	if err := v.old.Each(next, v.one); err != nil {
		return err
	}
	if err := v.flush(); err != nil {
		return err
	}
	if err := v.compare(); err != nil {
		return err
	}
	v.meta.Commit = v.commit + 1
	v.mark, v.writes = nil, append(v.writes, mutation{Key: cursorKey})
	if v.encoded != nil {
		v.writes = append(v.writes, mutation{Key: record.MetaKey, Value: v.meta.Encode()})
	}
	return v.flush()
}

// one copies a key. Damaged values stay damaged. A value that is not there at all belongs to a part
// of the value log that cannot be read, with others behind it.
func (v *conversion) one(key, value []byte) error {
	if len(value) == 0 && !v.options.AcceptLoss {
		return fmt.Errorf("%w: start and stop the program that wrote the store, which repairs its logs, or restore a "+
			"backup, or accept the loss (AcceptLoss, --accept-loss); the store is unchanged",
			record.Damaged(key, "the log that has it is damaged", nil))
	}
	if v.done++; time.Since(v.logged) >= progressEvery {
		v.logged = time.Now()
		v.log.Info("the store is being converted", "dir", v.dir, "percent", 100*v.done/v.all)
	}
	if bytes.Equal(key, record.MetaKey) {
		return nil // the last commit writes it
	}
	return v.put(mutation{Key: key, Value: value})
}

// progressEvery is how often a conversion logs how far it is.
const progressEvery = 5 * time.Second

// compare compares the number of keys with that of the old store.
func (v *conversion) compare() error {
	keys := 0
	err := v.db.View(func(in *kv.View) error {
		for item := range in.Items() {
			if !bytes.Equal(item.Key(), cursorKey) {
				keys++
			}
		}
		return nil
	})
	if v.encoded != nil {
		keys++ // the meta, which the last commit writes
	}
	if keys != v.all && err == nil {
		err = fmt.Errorf("%d of %d keys were copied", keys, v.all)
	}
	return err
}

// removeOld deletes what a conversion has left of the old store. The converted one is not the store
// of the earlier backups.
func removeOld(c *core) error {
	names, err := format2.Names(c.dir)
	if err != nil || len(names) == 0 {
		return err
	}
	if _, err := storedir.NewIdentity(c.dir); err != nil {
		return err
	}
	c.options.step(stepConvert)
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
			return err
		}
	}
	c.log.Info("the store was converted, and its old files are deleted: start with a full backup", "dir", c.dir,
		"format", formatVersion)
	return nil
}

// loader fills a new database, a few MiB per commit.
type loader struct {
	core   *core
	commit uint64 // number of the last commit
	writes []mutation
	bytes  int
	mark   func(last []byte) mutation // joins each commit; nil for none
}

// loadBytes is about the size of a commit of a loader.
const loadBytes = 2 << 20

func newLoader(c *core, commit uint64) loader { return loader{core: c, commit: commit} }

// put makes changes, which it keeps, in one commit.
func (l *loader) put(changes ...mutation) error {
	l.writes = append(l.writes, changes...)
	for _, e := range changes {
		l.bytes += len(e.Key) + len(e.Value) + len(e.Content)
	}
	if l.bytes < cmp.Or(l.core.options.load, loadBytes) {
		return nil
	}
	return l.flush()
}

func (l *loader) flush() error {
	if len(l.writes) == 0 {
		return nil
	}
	if l.mark != nil {
		l.writes = append(l.writes, l.mark(l.writes[len(l.writes)-1].Key))
	}
	l.core.options.step(stepConvert)
	l.commit++
	if err := l.core.db.Commit(l.commit, l.writes); err != nil {
		return err
	}
	clear(l.writes)
	l.writes, l.bytes = l.writes[:0], 0
	return nil
}
