package badgerstore

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Position is a moment in the history of one store: that of which a backup was made. The zero Position is before
// everything.
type Position struct {
	// Store is the identity of the store, 32 hexadecimal digits. It is empty where it is not known: backups of
	// earlier programs do not name their store, nor does one of a store that none but these have opened.
	Store string
	// Version counts what was written to the store.
	Version uint64
}

// String returns the position as [ParsePosition] reads it: VERSION@STORE, or VERSION where the store is not known.
func (p Position) String() string {
	if p.Store == "" {
		return strconv.FormatUint(p.Version, 10)
	}
	return strconv.FormatUint(p.Version, 10) + "@" + p.Store
}

// ParsePosition reads the text of a position.
func ParsePosition(text string) (Position, error) {
	number, store, named := strings.Cut(text, "@")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || named && !isIdentity(store) {
		return Position{}, fmt.Errorf("%q is no position of a backup; write VERSION@STORE as a backup has told it, or VERSION", text)
	}
	return Position{Store: store, Version: version}, nil
}

// goesOn reports whether a backup that begins after from continues what is at p. What does not name its store may.
func (p Position) goesOn(from Position) bool { return p.Version == from.Version && !p.foreign(from) }

// foreign reports whether the two are of different stores.
func (p Position) foreign(other Position) bool {
	return p.Store != "" && other.Store != "" && p.Store != other.Store
}

// ChainError says that a backup does not continue what it would have to. Nothing of it was used.
type ChainError struct {
	// Have is where the backups before it end; for [Store.Backup] and [BackupDir] where the store is. It is zero where
	// there is nothing before it.
	Have Position
	// From is where the refused increment begins, or the one that was asked for.
	From Position
	// Restoring tells the two apart: a backup that [Restore] was given, or one that was to be made.
	Restoring bool
}

// Error says what does not fit, and what to do.
func (e *ChainError) Error() string {
	begins := fmt.Sprintf("it is an increment after version %d", e.From.Version)
	switch {
	case !e.Restoring && e.Have.Store != e.From.Store && e.From.Store != "":
		return fmt.Sprintf("the earlier backup is of another store (%s), or of this one (%s) before it was restored or lost commits; make a whole backup",
			e.From.Store, orUnknown(e.Have.Store))
	case !e.Restoring:
		return fmt.Sprintf("the store is at version %d, before %d: that backup is of another store, or of one before it was restored; make a whole backup",
			e.Have.Version, e.From.Version)
	case e.From.Version == 0:
		return fmt.Sprintf("it is a whole one, but the one before it is of version %d; give one whole backup, as the first", e.Have.Version)
	case e.Have == (Position{}):
		return begins + "; begin with a whole backup"
	case e.Have.foreign(e.From):
		return fmt.Sprintf("%s of another store (%s), but the one before it is of %s; give backups of one store only, none of them from before and "+
			"after a restore", begins, e.From.Store, e.Have.Store)
	case e.From.Version < e.Have.Version:
		return fmt.Sprintf("%s, but the one before it is of version %d already; give each increment once, in the order in which they were made",
			begins, e.Have.Version)
	}
	return fmt.Sprintf("%s, but the one before it is of version %d; give the increment after version %d that is missing between them",
		begins, e.Have.Version, e.Have.Version)
}

func orUnknown(identity string) string {
	if identity == "" {
		return "which has no identity yet"
	}
	return identity
}

// BackupPosition reads the position of a backup from its beginning: the next increment begins after it.
func BackupPosition(r io.Reader) (Position, error) {
	b, err := newBackupReader(r)
	if err != nil {
		return Position{}, err
	}
	return b.head.at(), nil
}

// after checks that a store at have can make an increment after since.
func (s *Store) after(since, have Position) error {
	switch {
	case since.Version == 0:
		return nil
	case since.Version > have.Version || since.Store != "" && since.Store != have.Store:
		return &ChainError{Have: have, From: since}
	case since.Store == "":
		s.log.Warn("the earlier backup does not name its store: nothing tells whether the increment continues it", "dir", s.dir, "since", since.Version)
	}
	return nil
}

// follow checks that a backup continues those before it, which end at have, and returns where it ends itself.
func (s *Store) follow(head backupHead, have Position) (Position, error) {
	from, first := head.from(), have == (Position{})
	if first != (from.Version == 0) || !first && !have.goesOn(from) {
		return have, &ChainError{Have: have, From: from, Restoring: true}
	}
	end := head.at()
	if !first && (have.Store == "" || end.Store == "") {
		s.log.Warn("backups of an earlier program do not name their store: nothing tells whether the increment continues the backup before it",
			"dir", s.dir, "since", from.Version)
	}
	if end.Store == "" {
		end.Store = have.Store // the ones after it must be of that store
	}
	return end, nil
}
