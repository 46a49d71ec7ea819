package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	stdhash "hash"
	"io"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// BackupDir is [Store.Backup] for the store in dir, which no process may have open.
func BackupDir(ctx context.Context, dir string, o Options, w io.Writer) error {
	s := newStore(dir, o)
	return s.readOnly(func(in *kv.View) error { return writeBackup(ctx, in, w, s.damage) })
}

// writeBackup writes what a transaction sees as a backup.
func writeBackup(ctx context.Context, in *kv.View, w io.Writer, damage func(error)) error {
	out := newBackupWriter(w)
	for item := range in.Items(nil) {
		value, content, err := item.Read()
		if err = unreadable(item.Key(), err); err == nil {
			err = record.Verify(item.Key(), value)
		}
		damage(err) // what cannot be read is written empty, which counts as damaged
		out.value(item.Key(), value, content)
		if err := errors.Join(out.err, ctx.Err()); err != nil {
			return err
		}
	}
	return out.end()
}

// A backup has its own file format. Badger's has no end marker: half of a backup looks complete.
//
//	line of text        "eyelet backup of store format ", and the number
//	v key value content what a key holds, each part with its length before it
//	e count sum         the end: the number of v, and the SHA-256 of all bytes before
//
// Lengths and the count are varints.
const (
	backupTitle = "eyelet backup of store format "
	backupValue = 'v'
	backupEnd   = 'e'
	backupLimit = 2 * claimBytes // of a length
)

// backupWriter writes a backup. The first error is kept.
type backupWriter struct {
	to    *bufio.Writer
	sum   stdhash.Hash
	count uint64
	err   error
}

func newBackupWriter(w io.Writer) *backupWriter {
	sum := sha256.New()
	b := &backupWriter{to: bufio.NewWriterSize(io.MultiWriter(w, sum), 256<<10), sum: sum}
	b.write(fmt.Appendf(nil, "%s%d\n", backupTitle, formatVersion))
	return b
}

func (w *backupWriter) write(b []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
}

func (w *backupWriter) number(n uint64) {
	var b [binary.MaxVarintLen64]byte
	w.write(b[:binary.PutUvarint(b[:], n)])
}

// value writes what a key holds. content is empty if it has none.
func (w *backupWriter) value(key, value, content []byte) {
	w.write([]byte{backupValue})
	for _, part := range [...][]byte{key, value, content} {
		w.number(uint64(len(part)))
		w.write(part)
	}
	w.count++
}

func (w *backupWriter) end() error {
	w.write([]byte{backupEnd})
	w.number(w.count)
	if w.err == nil {
		w.err = w.to.Flush() // now the sum covers everything
	}
	w.write(w.sum.Sum(nil))
	if w.err == nil {
		w.err = w.to.Flush()
	}
	return w.err
}

// errBackup reports a file that is truncated, damaged, or not a backup.
var errBackup = errors.New("not a complete backup")

// backupReader reads a backup. The checksum is last: trust nothing until next returns io.EOF.
type backupReader struct {
	from  *bufio.Reader
	sum   stdhash.Hash
	count uint64
}

func newBackupReader(r io.Reader) (*backupReader, error) {
	b := &backupReader{from: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
	line, err := b.from.ReadSlice('\n')
	b.sum.Write(line)
	var format int
	if _, wrong := fmt.Sscanf(string(line), backupTitle+"%d\n", &format); err != nil || wrong != nil {
		return nil, fmt.Errorf("%w: it does not begin with %q", errBackup, backupTitle)
	}
	if format != formatVersion {
		return nil, fmt.Errorf("the backup has store format %d, and this version reads only format %d: restore it "+
			"with the version that made it", format, formatVersion)
	}
	return b, nil
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
	var p bytes.Buffer                                        // which grows with what is there
	if _, err := io.CopyN(&p, b.from, int64(n)); err != nil { //nolint:gosec // bounded
		return nil, fmt.Errorf("%w: truncated", errBackup)
	}
	b.sum.Write(p.Bytes())
	return p.Bytes(), nil
}

// next returns the next key and what it holds. io.EOF ends a complete backup.
func (b *backupReader) next() (e mutation, err error) {
	kind, err := b.ReadByte()
	switch {
	case err != nil:
		return e, fmt.Errorf("%w: truncated after %d entries", errBackup, b.count)
	case kind == backupEnd:
		return e, b.finish()
	case kind != backupValue:
		return e, fmt.Errorf("%w: entry %d has an unknown kind", errBackup, b.count)
	}
	b.count++
	for _, part := range [...]*[]byte{&e.Key, &e.Value, &e.Content} {
		if *part, err = b.sized(); err != nil {
			return e, err
		}
	}
	if len(e.Content) == 0 {
		e.Content = nil
	}
	return e, nil
}

func (b *backupReader) finish() error {
	count, err := binary.ReadUvarint(b)
	if err != nil || count != b.count {
		return fmt.Errorf("%w: it has %d entries instead of %d", errBackup, b.count, count)
	}
	have := make([]byte, sha256.Size)
	if _, err := io.ReadFull(b.from, have); err != nil || !bytes.Equal(have, b.sum.Sum(nil)) {
		return fmt.Errorf("%w: its checksum does not match", errBackup)
	}
	return io.EOF
}
