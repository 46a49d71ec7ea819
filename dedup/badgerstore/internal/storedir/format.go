package storedir

import (
	"errors"
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
	// TempPrefix starts the names of files that a crash may leave in a directory that is not a
	// store yet.
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
	return writeWhole(dir, FormatFile, fmt.Sprintf("%s%d\n", formatPrefix, version))
}

// writeWhole writes a small file completely or not at all.
func writeWhole(dir, name, text string) error {
	f, err := os.CreateTemp(dir, TempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(f.Name(), filepath.Join(dir, name)), syncDir(dir))
}
