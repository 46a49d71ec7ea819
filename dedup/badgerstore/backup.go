package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	stdhash "hash"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// A backup is a file of its own kind and not Badger's: that one has no end, so that half of it looks whole, and
// forgets in an increment what was deleted once compaction has forgotten it.
//
//	line of text        "eyelet backup 1"
//	line of JSON        backupHead, with the identity of the store and the version that it begins after
//	v key value         a value that was written after Since; key and value with their length before them
//	k key               a key that was there before and still is; only in increments
//	e count sum         the end: how many of v and k, and the SHA-256 of everything before the sum
//
// Keys come in rising order. Lengths and the count are varints.
const (
	backupTitle = "eyelet backup 1\n"
	backupValue = 'v'
	backupKey   = 'k'
	backupEnd   = 'e'
	// backupLimit bounds what a length in a backup can make us allocate.
	backupLimit = 16 << 20
)

// backupHead says what a backup holds.
type backupHead struct {
	// Format is that of the store.
	Format int `json:"format"`
	// Store is the identity of the store, empty where it has none.
	Store string `json:"store,omitempty"`
	// Since is the version of the backup before, 0 for a whole one, and Version that of this one.
	Since   uint64 `json:"since"`
	Version uint64 `json:"version"`
	// Commit is the number of the last commit in it.
	Commit uint64 `json:"commit"`
}

// from is where the backup begins, and at where it ends.
func (h backupHead) from() Position { return Position{h.Store, h.Since} }
func (h backupHead) at() Position   { return Position{h.Store, h.Version} }

// Backup writes everything that was acknowledged before the call to w, while the store is in use, and returns the
// position of what it wrote. With the position of an earlier backup as since it writes only what came after it and
// the keys of the rest; the zero Position writes everything. [Restore] reads it. Values that are damaged are written
// as they are, so that their keys stay known; the log names them.
//
// The error is a [ChainError] when since is of another store, or of this one before it was restored. A since
// that does not name its store is believed, and the log says so.
//
// Long as it may take, it sees the store at one moment, and holds back nothing but that the space of what is
// deleted meanwhile is given back later.
func (s *Store) Backup(ctx context.Context, w io.Writer, since Position) (at Position, err error) {
	if err := s.usable(); err != nil {
		return Position{}, err
	}
	err = s.view(func(txn *badger.Txn) error {
		at, err = s.backup(ctx, txn, w, since)
		return err
	})
	return at, err
}

// BackupDir is Backup of the store in dir, which nobody may have open.
func BackupDir(ctx context.Context, dir string, o Options, w io.Writer, since Position) (at Position, err error) {
	s := newStore(dir, o)
	if _, err := s.existing(); err != nil {
		return Position{}, err
	}
	finish, damage, err := s.openToRead()
	if err != nil {
		return Position{}, err
	}
	if damage != nil {
		return Position{}, fmt.Errorf("store %s is damaged: %w", dir, damage)
	}
	defer func() { err = errors.Join(err, finish()) }()
	if s.identity, _, err = readIdentity(dir); err != nil {
		return Position{}, fmt.Errorf("store %s: %w", dir, err)
	}
	err = s.db.View(func(txn *badger.Txn) error {
		at, err = s.backup(ctx, txn, w, since)
		return err
	})
	return at, err
}

func (s *Store) backup(ctx context.Context, txn *badger.Txn, w io.Writer, since Position) (Position, error) {
	none := Position{}
	m, err := readMeta(txn)
	if err != nil {
		return none, fmt.Errorf("store %s: %w", s.dir, err)
	}
	head := backupHead{Format: s.options.formats.current, Store: s.identity, Since: since.Version, Version: txn.ReadTs(), Commit: m.Commit}
	if err := s.after(since, head.at()); err != nil {
		return none, err
	}
	out := newBackupWriter(w)
	if err := out.begin(head); err != nil {
		return none, err
	}
	options := badger.DefaultIteratorOptions
	options.PrefetchValues = false
	it := txn.NewIterator(options)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		key := it.Item().KeyCopy(nil)
		if key[0] == record.FamilyFill {
			continue
		}
		if it.Item().Version() <= since.Version {
			out.key(key)
			continue
		}
		out.value(key, s.backupValue(txn, key))
		if out.err != nil {
			return none, out.err
		}
	}
	return head.at(), out.end()
}

// backupValue returns a value as it is; what cannot be read is empty, which no value is, and damaged wherever it
// is restored.
func (s *Store) backupValue(txn *badger.Txn, key []byte) []byte {
	value, err := readValue(txn, key)
	if err == nil {
		err = record.Verify(key, value)
	}
	if err != nil {
		s.damage(err)
	}
	return value
}

// backupWriter writes a backup. The first error stays.
type backupWriter struct {
	to    *bufio.Writer
	sum   stdhash.Hash
	count uint64
	err   error
}

func newBackupWriter(w io.Writer) *backupWriter {
	sum := sha256.New()
	return &backupWriter{to: bufio.NewWriterSize(io.MultiWriter(w, sum), 256<<10), sum: sum}
}

func (w *backupWriter) begin(head backupHead) error {
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	w.write([]byte(backupTitle))
	w.write(append(line, '\n'))
	return w.err
}

func (w *backupWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
}

func (w *backupWriter) sized(b []byte) {
	var n [binary.MaxVarintLen64]byte
	w.write(n[:binary.PutUvarint(n[:], uint64(len(b)))])
	w.write(b)
}

func (w *backupWriter) key(key []byte) {
	w.write([]byte{backupKey})
	w.sized(key)
	w.count++
}

func (w *backupWriter) value(key, value []byte) {
	w.write([]byte{backupValue})
	w.sized(key)
	w.sized(value)
	w.count++
}

func (w *backupWriter) end() error {
	var n [binary.MaxVarintLen64]byte
	w.write([]byte{backupEnd})
	w.write(n[:binary.PutUvarint(n[:], w.count)])
	if w.err == nil {
		w.err = w.to.Flush() // now the sum is of everything
	}
	w.write(w.sum.Sum(nil))
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// Backup files that are not whole, not in order, or not a backup at all.
var errBackup = errors.New("not a whole backup")

// backupReader reads what backupWriter wrote. The sum comes last, so what it returns is not to be trusted before
// next has returned io.EOF.
type backupReader struct {
	from  *bufio.Reader
	sum   stdhash.Hash
	head  backupHead
	count uint64
}

func newBackupReader(r io.Reader) (*backupReader, error) {
	b := &backupReader{from: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
	title := make([]byte, len(backupTitle))
	if err := b.full(title); err != nil || string(title) != backupTitle {
		return nil, fmt.Errorf("%w: it does not begin with %q", errBackup, backupTitle[:len(backupTitle)-1])
	}
	line, err := b.from.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: its head is cut off", errBackup)
	}
	b.sum.Write(line)
	if err := json.Unmarshal(line, &b.head); err != nil {
		return nil, fmt.Errorf("%w: its head is no JSON", errBackup)
	}
	if b.head.Store != "" && !isIdentity(b.head.Store) {
		return nil, fmt.Errorf("%w: its head names no store", errBackup)
	}
	if b.head.Format < 1 || b.head.Format > formatVersion {
		return nil, fmt.Errorf("the backup is of a store of format %d, this program knows formats up to %d: restore it with the program that made it", b.head.Format, formatVersion)
	}
	return b, nil
}

func (b *backupReader) full(p []byte) error {
	_, err := io.ReadFull(b.from, p)
	b.sum.Write(p)
	return err
}

// ReadByte implements io.ByteReader.
func (b *backupReader) ReadByte() (byte, error) {
	c, err := b.from.ReadByte()
	b.sum.Write([]byte{c})
	return c, err
}

func (b *backupReader) sized() ([]byte, error) {
	n, err := binary.ReadUvarint(b)
	if err != nil || n > backupLimit {
		return nil, fmt.Errorf("%w: a length cannot be read", errBackup)
	}
	p := make([]byte, n)
	if err := b.full(p); err != nil {
		return nil, fmt.Errorf("%w: it is cut off", errBackup)
	}
	return p, nil
}

// next returns the next key, with its value unless old says that the key was there before. io.EOF is the end of a
// backup that is whole.
func (b *backupReader) next() (key, value []byte, old bool, err error) {
	kind, err := b.ReadByte()
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w: it is cut off after %d entries", errBackup, b.count)
	}
	switch kind {
	case backupEnd:
		return nil, nil, false, b.finish()
	case backupKey, backupValue:
	default:
		return nil, nil, false, fmt.Errorf("%w: entry %d is of no known kind", errBackup, b.count)
	}
	b.count++
	if key, err = b.sized(); err != nil || kind == backupKey {
		return key, nil, true, err
	}
	value, err = b.sized()
	return key, value, false, err
}

func (b *backupReader) finish() error {
	count, err := binary.ReadUvarint(b)
	if err != nil || count != b.count {
		return fmt.Errorf("%w: it has %d entries, and says %d", errBackup, b.count, count)
	}
	want, have := b.sum.Sum(nil), make([]byte, sha256.Size)
	if err := b.full(have); err != nil || !bytes.Equal(have, want) {
		return fmt.Errorf("%w: its checksum does not match", errBackup)
	}
	return io.EOF
}

// Restore makes a store in dir, which must be empty or not exist, of a whole backup and the increments after
// it, in their order, and returns how many keys it holds. A directory in which it failed is none that can be opened.
// The error is a [ChainError] when a backup does not continue the one before it: it is of another store, comes
// twice or out of order, or one is missing between them. Backups of earlier programs do not name their store; those
// are believed, and the log warns.
//
// What it makes is a store of its own, with a new identity: its backups begin with a whole one.
//
// Event ids and leases that were given out after the backup are not given out again. Events that were accepted after
// it are gone: a repeated delivery of one is new.
func Restore(ctx context.Context, dir string, o Options, backups ...io.Reader) (keys int, err error) {
	if len(backups) == 0 {
		return 0, errors.New("there is no backup to restore")
	}
	if err := restoreInto(dir); err != nil {
		return 0, err
	}
	s := newStore(dir, o)
	if s.lock, err = lockDir(dir); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.lock.release()) }()
	if s.db, err = openBadger(dir, s.badgerOptions().WithSyncWrites(false), s.logger); err != nil {
		return 0, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, s.db.Close())
		}
	}()
	var have Position
	for i, r := range backups {
		if have, err = s.load(ctx, r, have); err != nil {
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
	if _, err := newIdentity(dir); err != nil {
		return 0, err
	}
	return keys, writeFormat(dir, formatVersion)
}

// restoreInto makes the directory. Without the file of the format it is no store yet.
func restoreInto(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory %s cannot be made: %w; choose another one", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("directory %s cannot be read: %w; choose another one", dir, err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("directory %s is not empty (%s); restore into an empty one, or one that does not exist", dir, e.Name())
		}
	}
	return nil
}

// load brings the store from where it is to the state of a backup, whose position it returns: its values are set,
// and what it does not name is deleted.
func (s *Store) load(ctx context.Context, r io.Reader, have Position) (Position, error) {
	in, err := newBackupReader(r)
	if err != nil {
		return have, err
	}
	end, err := s.follow(in.head, have)
	if err != nil {
		return have, err
	}
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	options := badger.DefaultIteratorOptions
	options.PrefetchValues = false
	it := txn.NewIterator(options)
	defer it.Close()
	it.Rewind()
	batch := s.db.NewWriteBatch()
	defer batch.Cancel()
	var last []byte
	for {
		key, value, old, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return have, err
		}
		if len(key) == 0 || bytes.Compare(key, last) <= 0 {
			return have, fmt.Errorf("%w: its keys are not in order", errBackup)
		}
		last = key
		if err := deleteUntil(it, batch, key); err != nil {
			return have, err
		}
		there := it.Valid() && bytes.Equal(it.Item().Key(), key)
		if old && !there {
			return have, errors.New("it names a key that the backups before it do not have: it is of another store; give the increments of one store only")
		}
		if there {
			it.Next()
		}
		if !old {
			if err := batch.Set(key, value); err != nil {
				return have, err
			}
		}
	}
	if err := deleteUntil(it, batch, nil); err != nil {
		return have, err
	}
	return end, batch.Flush()
}

// deleteUntil deletes the keys from where the iterator is to the one before key; all the rest when that is nil.
func deleteUntil(it *badger.Iterator, batch *badger.WriteBatch, key []byte) error {
	for ; it.Valid() && (key == nil || bytes.Compare(it.Item().Key(), key) < 0); it.Next() {
		if err := batch.Delete(it.Item().KeyCopy(nil)); err != nil {
			return err
		}
	}
	return nil
}

// restoreMeta moves the counters on and writes the high-water file.
func (s *Store) restoreMeta() (keys int, err error) {
	var m record.Meta
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			keys++
		}
		m, err = readMeta(txn)
		return err
	})
	if err != nil {
		return 0, err
	}
	m.Seq, m.Token = m.Seq+lostGap, m.Token+lostGap
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(record.MetaKey, m.Encode()) }); err != nil {
		return 0, err
	}
	if err := s.db.Sync(); err != nil {
		return 0, err
	}
	water, err := openHighWater(s.dir)
	if err != nil {
		return 0, err
	}
	return keys, errors.Join(water.write(m.Commit), water.close())
}
