package badgerstore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	stdhash "hash"
	"io"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// A backup has its own file format. Badger's has no end marker, so half of a backup looks complete,
// and its increments miss deletions that compaction has dropped.
//
//	line of text        "eyelet backup 1"
//	line of JSON        backupHead, with the identity of the store and the version before it
//	v key value         a value written after Since; key and value, each with its length before it
//	b key value content the same with both parts of what the key holds
//	k key               a key that existed before and still does; only in increments
//	e count sum         the end: the number of v, b and k, and the SHA-256 of all bytes before
//
// Keys are in ascending order. Lengths and the count are varints.
const (
	backupTitle = "eyelet backup 1\n"
	backupValue = 'v'
	backupBoth  = 'b'
	backupKey   = 'k'
	backupEnd   = 'e'
	// backupLimit bounds what a length in a backup can make the reader allocate.
	backupLimit = 16 << 20
)

type backupHead struct {
	// Format is the format of the store.
	Format int `json:"format"`
	// Store is the identity of the store, empty if it has none.
	Store string `json:"store,omitempty"`
	// Since is the version of the previous backup, 0 for a full one. Version is that of this one.
	Since   uint64 `json:"since"`
	Version uint64 `json:"version"`
	// Commit is the number of the last commit in it.
	Commit uint64 `json:"commit"`
}

func (h backupHead) from() Position { return Position{h.Store, h.Since} }
func (h backupHead) at() Position   { return Position{h.Store, h.Version} }

// backupWriter writes a backup. The first error is kept.
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

// value writes what a key holds. content is nil if it has none.
func (w *backupWriter) value(key, value, content []byte) {
	kind := byte(backupValue)
	if content != nil {
		kind = backupBoth
	}
	w.write([]byte{kind})
	w.sized(key)
	w.sized(value)
	if content != nil {
		w.sized(content)
	}
	w.count++
}

func (w *backupWriter) end() error {
	var n [binary.MaxVarintLen64]byte
	w.write([]byte{backupEnd})
	w.write(n[:binary.PutUvarint(n[:], w.count)])
	if w.err == nil {
		w.err = w.to.Flush() // now the sum covers everything
	}
	w.write(w.sum.Sum(nil))
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// errBackup reports a file that is truncated, out of order, or not a backup.
var errBackup = errors.New("not a complete backup")

// backupReader reads a backup. The checksum is last: trust nothing until next returns io.EOF.
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
		return nil, fmt.Errorf("%w: its head is truncated", errBackup)
	}
	b.sum.Write(line)
	if err := json.Unmarshal(line, &b.head); err != nil {
		return nil, fmt.Errorf("%w: its head is not JSON", errBackup)
	}
	if b.head.Store != "" && !storedir.IsIdentity(b.head.Store) {
		return nil, fmt.Errorf("%w: the identity in its head is invalid", errBackup)
	}
	if b.head.Format != formatVersion {
		return nil, fmt.Errorf("the backup has store format %d, and this version reads only format %d: restore it "+
			"with the version that made it", b.head.Format, formatVersion)
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
		return nil, fmt.Errorf("%w: truncated", errBackup)
	}
	return p, nil
}

// next returns the next key, with its value and content unless the key is old. io.EOF ends a
// complete backup.
func (b *backupReader) next() (e mutation, old bool, err error) {
	kind, err := b.ReadByte()
	if err != nil {
		return e, false, fmt.Errorf("%w: truncated after %d entries", errBackup, b.count)
	}
	switch kind {
	case backupEnd:
		return e, false, b.finish()
	case backupKey, backupValue, backupBoth:
	default:
		return e, false, fmt.Errorf("%w: entry %d has an unknown kind", errBackup, b.count)
	}
	b.count++
	e.Key, err = b.sized()
	if err == nil && kind != backupKey {
		e.Value, err = b.sized()
	}
	if err == nil && kind == backupBoth {
		e.Content, err = b.sized()
	}
	return e, kind == backupKey, err
}

func (b *backupReader) finish() error {
	count, err := binary.ReadUvarint(b)
	if err != nil || count != b.count {
		return fmt.Errorf("%w: it has %d entries instead of %d", errBackup, b.count, count)
	}
	want, have := b.sum.Sum(nil), make([]byte, sha256.Size)
	if err := b.full(have); err != nil || !bytes.Equal(have, want) {
		return fmt.Errorf("%w: its checksum does not match", errBackup)
	}
	return io.EOF
}
