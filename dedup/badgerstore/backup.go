package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Position identifies the state of a store that a backup holds. The zero Position precedes all.
type Position struct {
	// Store is the identity of the store, 32 hexadecimal digits. It is empty if the
	// file with it was lost or damaged when the store was backed up.
	Store string
	// Version counts the writes to the store.
	Version uint64
}

// String returns VERSION@STORE, or VERSION if the store is not known. [ParsePosition] parses it.
func (p Position) String() string {
	if p.Store == "" {
		return strconv.FormatUint(p.Version, 10)
	}
	return strconv.FormatUint(p.Version, 10) + "@" + p.Store
}

// ParsePosition parses the text of a position.
func ParsePosition(text string) (Position, error) {
	number, store, named := strings.Cut(text, "@")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || named && !storedir.IsIdentity(store) {
		return Position{}, fmt.Errorf("%q is not a backup position; write VERSION@STORE as printed by a backup, "+
			"or VERSION", text)
	}
	return Position{Store: store, Version: version}, nil
}

// goesOn reports whether a backup that starts after from continues the one at p. A position
// without a store continues any.
func (p Position) goesOn(from Position) bool { return p.Version == from.Version && !p.foreign(from) }

func (p Position) foreign(other Position) bool {
	return p.Store != "" && other.Store != "" && p.Store != other.Store
}

// ChainError reports a backup that does not continue the one before it. Nothing of it was used.
type ChainError struct {
	// Have is the end of the backups before it, or the position of the store for [Store.Backup]
	// and [BackupDir]. It is zero if there is nothing before it.
	Have Position
	// From is the start of the refused increment, or the one that was requested.
	From Position
	// Restoring distinguishes a backup passed to [Restore] from one that was to be made.
	Restoring bool
}

// Error describes what does not fit and what to do.
func (e *ChainError) Error() string {
	begins := fmt.Sprintf("it is an increment after version %d", e.From.Version)
	switch {
	case !e.Restoring && e.Have.Store != e.From.Store && e.From.Store != "":
		return fmt.Sprintf("the earlier backup belongs to another store (%s), or to this one (%s) before it was "+
			"restored or lost commits; make a full backup", e.From.Store,
			cmp.Or(e.Have.Store, "which has no identity yet"))
	case !e.Restoring:
		return fmt.Sprintf("the store is at version %d, before %d: that backup belongs to another store, or to "+
			"this one before it was restored; make a full backup", e.Have.Version, e.From.Version)
	case e.From.Version == 0:
		return fmt.Sprintf("it is a full one, but follows one of version %d; pass one full backup, as "+
			"the first", e.Have.Version)
	case e.Have == (Position{}):
		return begins + "; start with a full backup"
	case e.Have.foreign(e.From):
		return fmt.Sprintf("%s of another store (%s), but follows one of %s; pass backups of one store only, not "+
			"from before and after a restore", begins, e.From.Store, e.Have.Store)
	case e.From.Version < e.Have.Version:
		return fmt.Sprintf("%s, but follows one of version %d; pass each increment once, in the order in which "+
			"they were made", begins, e.Have.Version)
	}
	return fmt.Sprintf("%s, but follows one of version %d; pass the missing increment after version %d",
		begins, e.Have.Version, e.Have.Version)
}

// BackupPosition reads the position of a backup, after which the next increment starts.
func BackupPosition(r io.Reader) (Position, error) {
	b, err := newBackupReader(r)
	if err != nil {
		return Position{}, err
	}
	return b.head.at(), nil
}

// BackupDir is Backup for the store in dir, which no process may have open.
func BackupDir(ctx context.Context, dir string, o Options, w io.Writer, since Position) (at Position, err error) {
	s := newStore(dir, o)
	if err := s.existing(); err != nil {
		return Position{}, err
	}
	finish, err := s.openToRead()
	if err != nil {
		return Position{}, err
	}
	defer func() { err = errors.Join(err, finish()) }()
	if s.identity, _, err = storedir.ReadIdentity(dir); err != nil {
		return Position{}, fmt.Errorf("store %s: %w", dir, err)
	}
	err = s.db.View(func(in *kv.View) error {
		at, err = (&snapshot{s.core}).write(ctx, in, w, since)
		return err
	})
	return at, err
}

// snapshot writes what a transaction sees as a backup.
type snapshot struct{ *core }

func (s *snapshot) write(ctx context.Context, in *kv.View, w io.Writer, since Position) (Position, error) {
	none := Position{}
	m, err := readMeta(in)
	if err != nil {
		return none, fmt.Errorf("store %s: %w", s.dir, err)
	}
	head := backupHead{
		Format: formatVersion, Store: s.identity,
		Since: since.Version, Version: in.Commit(), Commit: m.Commit,
	}
	if err := s.after(since, head.at()); err != nil {
		return none, err
	}
	out := newBackupWriter(w)
	if err := out.begin(head); err != nil {
		return none, err
	}
	return head.at(), s.all(ctx, in, out, since)
}

// all writes what a transaction sees, and the end.
func (s *snapshot) all(ctx context.Context, in *kv.View, out *backupWriter, since Position) error {
	for item := range in.Items() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if item.Version() <= since.Version {
			out.key(item.Key())
			continue
		}
		value, content, err := item.Read()
		if err = unreadable(item.Key(), err); err == nil {
			err = record.Verify(item.Key(), value)
		}
		s.damage(err) // it is written unchanged; what cannot be read is empty, which counts as damaged
		out.value(item.Key(), value, content)
		if out.err != nil {
			return out.err
		}
	}
	return out.end()
}

// after checks that a store at have can make an increment after since.
func (s *snapshot) after(since, have Position) error {
	switch {
	case since.Version == 0:
		return nil
	case since.Version > have.Version || since.Store != "" && since.Store != have.Store:
		return &ChainError{Have: have, From: since}
	case since.Store == "":
		s.log.Warn("the earlier backup does not name its store: whether the increment continues it is unknown",
			"dir", s.dir, "since", since.Version)
	}
	return nil
}
