package storedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
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

// WriteWhole writes a file completely or not at all. A crash leaves at most one temporary
// file of each name.
func WriteWhole(dir, name string, text []byte) error {
	temp := filepath.Join(dir, TempPrefix+name)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(temp, filepath.Join(dir, name)), redolog.SyncDir(dir))
}
