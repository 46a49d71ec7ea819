package storedir

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// FormatFile is the file with the version of the format.
	FormatFile   = "format"
	formatPrefix = "eyelet store "
	// TempPrefix starts the names of temporary files, which a crash may leave.
	TempPrefix = "eyelet-new-"
)

// ReadFormat returns the format of the store in dir, fs.ErrNotExist if there is none.
func ReadFormat(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, FormatFile))
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatPrefix)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return 0, fmt.Errorf("store %s: file %s says %q, which is not a store format; is this the right "+
			"directory?", dir, FormatFile, string(text))
	}
	return version, nil
}

// WriteFormat sets the format of the store in dir.
func WriteFormat(dir string, version int) error {
	return WriteWhole(dir, FormatFile, fmt.Appendf(nil, "%s%d\n", formatPrefix, version))
}

// RestoreFailedFile is in a directory in which a restore has failed. A start refuses such a
// directory: a new store there would accept the events of the backup again.
const RestoreFailedFile = "restore-failed"

// NoteFailedRestore writes the file.
func NoteFailedRestore(dir string) error {
	return WriteWhole(dir, RestoreFailedFile, []byte("restore this store again, or remove this file for a new one\n"))
}

// ForgetFailedRestore removes the file, if it is there.
func ForgetFailedRestore(dir string) error { return Remove(dir, RestoreFailedFile) }
