package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// formatVersion is the version of everything in the directory: keys, values, and the version of Badger.
const (
	formatVersion = 1
	formatName    = "format"
	formatPrefix  = "eyelet store "
)

// checkFormat reads the format of the store in dir and writes it for a new store. It is a file of its own
// so that an older program can tell a newer store before it touches the database.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newFormat(dir, path)
	}
	if err != nil {
		return err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatPrefix)
	version, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil || version < 1:
		return fmt.Errorf("store %s: file %s says %q, which is no format of a store; is this the right directory?", dir, formatName, string(text))
	case version > formatVersion:
		return fmt.Errorf("store %s has format %d, this program knows formats up to %d: use the newer program that wrote it", dir, version, formatVersion)
	}
	return nil
}

// newFormat writes the file whole or not at all.
func newFormat(dir, path string) error {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s%d\n", formatPrefix, formatVersion)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(f.Name(), path), syncDir(dir))
}
