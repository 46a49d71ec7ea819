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
	// convertingFile has the format of a store that is being converted in place.
	convertingFile = "converting"
	// TempPrefix starts the names of temporary files, which a crash may leave.
	TempPrefix = "eyelet-new-"
)

// ReadFormat returns the format of the store in dir, fs.ErrNotExist if there is none. A store that
// is being converted has the format that it is converted from.
func ReadFormat(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, convertingFile))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(dir, FormatFile))
	}
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

// WriteFormat sets the format of the store in dir, and ends a conversion.
func WriteFormat(dir string, version int) error {
	if err := WriteWhole(dir, FormatFile, formatText(version)); err != nil || !Converting(dir) {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(dir, convertingFile)), redolog.SyncDir(dir))
}

func formatText(version int) []byte { return fmt.Appendf(nil, "%s%d\n", formatPrefix, version) }

// BeginConversion notes that the store in dir is converted in place, until WriteFormat. Programs of
// its format refuse it from then on.
func BeginConversion(dir string, from, to int) error {
	if err := WriteWhole(dir, convertingFile, formatText(from)); err != nil {
		return err
	}
	return WriteWhole(dir, FormatFile, formatText(to))
}

// Converting reports whether a conversion of the store in dir has begun.
func Converting(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, convertingFile))
	return err == nil
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
