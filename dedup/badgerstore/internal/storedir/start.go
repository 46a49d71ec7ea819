package storedir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
)

// A start after a crash changes files before it knows whether the store is whole: Badger truncates
// logs, turns them into tables, compacts and deletes. So the previous files are kept in a directory
// of their own until the census shows that nothing is missing: tables that MANIFEST does not list,
// links to the tables that it lists, MANIFEST and the logs. A start that is refused, or that ends
// before it is confirmed, is undone from there. The first commit comes after the confirmation.
//
// Before Badger reads MANIFEST and the logs, flushed copies replace them. After a failed flush the
// kernel marks the failed pages clean: they read as if they were on disk, and nothing writes them
// again, neither another flush nor, on extents that were never written, the same bytes in the same
// place. An event read from such a page would be answered with 2xx and lost in a power cut. Copies
// are written for the first time.
const (
	BeforeStart = "before-start" // the files that an unconfirmed start has replaced
	AfterStart  = "after-start"  // the same, no longer needed
	startList   = "files"        // lists the files before the start, one per line
	NewSuffix   = ".new"         // of an incomplete copy
)

// ClosedFile marks a store that was closed cleanly: everything it wrote is on disk.
const ClosedFile = "closed"

// MarkClosed writes the file. It is the last step of closing a store.
func MarkClosed(dir string) error { return writeWhole(dir, ClosedFile, "eyelet closed\n") }

// ClosedCleanly reports whether the store was closed cleanly.
func ClosedCleanly(dir string) (bool, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) > 0 {
		return false, err
	}
	_, err = os.Stat(filepath.Join(dir, ClosedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// UndoStart restores what an unconfirmed start has replaced, and deletes its new files.
func UndoStart(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, AfterStart)); err != nil {
		return err
	}
	kept := filepath.Join(dir, BeforeStart)
	list, err := os.ReadFile(filepath.Join(kept, startList))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(kept) // nothing was replaced yet
	} else if err != nil {
		return err
	}
	entries, err := os.ReadDir(kept)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != startList && !strings.HasSuffix(name, NewSuffix) {
			if err := os.Rename(filepath.Join(kept, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	if err := RemoveUnlisted(dir, strings.Split(string(list), "\n"), ".sst", ".mem", ".vlog"); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return os.RemoveAll(kept)
}

// RemoveUnlisted deletes the files with one of the extensions that are not in a list.
func RemoveUnlisted(dir string, list []string, endings ...string) error {
	names, err := BadgerFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(endings, filepath.Ext(name)) && !slices.Contains(list, name) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// BadgerFiles returns the names of the tables and logs in a directory.
func BadgerFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".sst", ".mem", ".vlog":
			names = append(names, e.Name())
		}
	}
	return names, err
}

// KeepBefore keeps the files as they are before a start, and replaces those that may be only in
// the page cache by flushed copies. unnamed are the tables that MANIFEST does not list, which
// Badger would delete.
func KeepBefore(dir string, unnamed []string) error {
	names, err := BadgerFiles(dir)
	if err != nil || len(names) == 0 {
		return err // new directory
	}
	kept := filepath.Join(dir, BeforeStart)
	if err := os.Mkdir(kept, 0o700); err != nil {
		return err
	}
	if err := writeWhole(kept, startList, strings.Join(names, "\n")); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil { // the list first: it shows that there may be something to undo
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch {
		case slices.Contains(unnamed, name):
			err = os.Rename(path, filepath.Join(kept, name))
		case filepath.Ext(name) == ".sst":
			_ = os.Link(path, filepath.Join(kept, name)) // where links are not supported, a compacted table is not kept
		}
		if err != nil {
			return err
		}
	}
	replace, err := cachedFiles(dir, names)
	if err != nil {
		return err
	}
	for _, name := range replace {
		if err := replaceByCopy(dir, kept, name); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	return errors.Join(syncDir(kept), syncDir(dir))
}

// cachedFiles returns the files whose content may be only in the page cache: MANIFEST, the
// write-ahead logs, and the newest two value log files with any content, because a flush may
// have failed where one file ended.
func cachedFiles(dir string, names []string) (replace []string, err error) {
	if _, err := os.Stat(filepath.Join(dir, badger.ManifestFilename)); err == nil {
		replace = append(replace, badger.ManifestFilename)
	}
	values := 0
	for _, name := range slices.Backward(names) { // in order; numbers have a fixed width
		switch filepath.Ext(name) {
		case ".mem":
			replace = append(replace, name)
		case ".vlog":
			if values == 2 {
				continue
			}
			empty, err := badgerfile.IsEmptyLog(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			if !empty {
				values++
				replace = append(replace, name)
			}
		}
	}
	return replace, nil
}

// replaceByCopy replaces a file by a flushed copy and keeps the original.
func replaceByCopy(dir, kept, name string) error {
	path, fresh := filepath.Join(dir, name), filepath.Join(kept, name+NewSuffix)
	if err := copySparse(path, fresh); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(kept, name)); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// copySparse copies a file and flushes the copy. It leaves holes where there are zeros, which
// logs are full of.
func copySparse(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	at := int64(0)
	for {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return errors.Join(out.Truncate(at), out.Sync())
		case err != nil:
			return err
		}
	}
}

// ConfirmStart deletes what KeepBefore kept, and the mark of a clean close. It is durable
// before the first commit, so that no commit is undone.
func ConfirmStart(dir string) error {
	done := filepath.Join(dir, AfterStart)
	if err := os.Rename(filepath.Join(dir, BeforeStart), done); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(filepath.Join(dir, ClosedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return os.RemoveAll(done)
}
