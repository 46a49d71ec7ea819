package storedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// RestoreFailedFile is in a directory in which a restore has failed. A start refuses such a
// directory: a new store there would accept the events of the backup again.
const RestoreFailedFile = "restore-failed"

// NoteFailedRestore writes the file.
func NoteFailedRestore(dir string) error {
	return WriteWhole(dir, RestoreFailedFile, []byte("restore this store again, or remove this file for a new one\n"))
}

// ForgetFailedRestore removes the file, if it is there.
func ForgetFailedRestore(dir string) error {
	err := os.Remove(filepath.Join(dir, RestoreFailedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, redolog.SyncDir(dir))
}
