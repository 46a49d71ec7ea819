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
	formatVersion = 2
	formatName    = "format"
	formatPrefix  = "eyelet store "
)

// FormatError says that a store has a format that this program does not open: a newer one, or one so old that
// nothing brings it forward any more. The directory was not touched.
type FormatError struct {
	// Dir is the directory of the store.
	Dir string
	// Format is that of the store, Known the newest that this program opens.
	Format, Known int
}

// Error names both formats and says which program opens the store.
func (e *FormatError) Error() string {
	if e.Format > e.Known {
		return fmt.Sprintf("store %s has format %d, this program knows formats up to %d: use the newer program that wrote it", e.Dir, e.Format, e.Known)
	}
	return fmt.Sprintf("store %s has format %d, which this program, whose format is %d, opens no more: bring it forward with an older program",
		e.Dir, e.Format, e.Known)
}

// formats are the formats that a program opens: its own, and the older ones, each brought to the next one by its
// step. A step works on a directory that this process has locked, and may be run again after a crash.
type formats struct {
	current int
	steps   map[int]func(dir string) error // by the format that they begin with
}

// ownFormats returns ours. Format 2 reads every value of format 1 and writes none, so the step between them changes
// nothing but the file of the format: a store that is stopped before that is opened by both programs, and after it
// by the newer one.
func ownFormats() formats {
	return formats{current: formatVersion, steps: map[int]func(dir string) error{
		1: func(string) error { return nil },
	}}
}

// check reads the format of the store in dir, brings an older one forward, and writes it for a new store. It
// is a file of its own so that an older program can tell a newer store before it touches the database.
func (f formats) check(dir string) error {
	version, err := readFormat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(dir, f.current)
	}
	if err != nil {
		return err
	}
	if version > f.current {
		return &FormatError{Dir: dir, Format: version, Known: f.current}
	}
	for ; version < f.current; version++ {
		step := f.steps[version]
		if step == nil {
			return &FormatError{Dir: dir, Format: version, Known: f.current}
		}
		if err := step(dir); err != nil {
			return fmt.Errorf("store %s: bringing format %d forward: %w", dir, version, err)
		}
		if err := writeFormat(dir, version+1); err != nil {
			return err
		}
	}
	return nil
}

// readFormat returns the format of the store in dir; fs.ErrNotExist when there is no store.
func readFormat(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, formatName))
	if err != nil {
		return 0, err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatPrefix)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return 0, fmt.Errorf("store %s: file %s says %q, which is no format of a store; is this the right directory?", dir, formatName, string(text))
	}
	return version, nil
}

func writeFormat(dir string, version int) error {
	return writeWhole(dir, formatName, fmt.Sprintf("%s%d\n", formatPrefix, version))
}

// writeWhole writes a small file whole or not at all.
func writeWhole(dir, name, text string) error {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(f.Name(), filepath.Join(dir, name)), syncDir(dir))
}
