package format2

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// The entries of a directory beside Badger's files.
const (
	mirrorDir   = "mirror"       // of this package
	beforeStart = "before-start" // the files that an unconfirmed start has replaced
	startList   = "files"        // in it: the logs and tables before that start, one per line
)

// others are the names that the programs of these formats wrote, and this package, without the
// tables and logs. Newer stores have the files format, identity and LOCK as well.
var others = []string{
	badger.ManifestFilename, badger.KeyRegistryFileName, "DISCARD", highWater, "closed", beforeStart, "after-start",
	mirrorDir,
}

func isTableOrLog(name string) bool {
	return slices.Contains([]string{".sst", ".vlog", ".mem"}, filepath.Ext(name))
}

// Names returns the entries of a directory that only stores of these formats have.
func Names(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); isTableOrLog(name) || slices.Contains(others, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// mirror makes a directory in which Badger finds the store. It shares the files that Badger only
// reads with the directory of the store.
func mirror(dir, to string) error {
	paths, err := beforeAnyStart(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o700)); err != nil {
		return err
	}
	newest := "" // value log, which Badger truncates
	for name := range paths {
		if filepath.Ext(name) == ".vlog" {
			newest = max(newest, name)
		}
	}
	for name, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		const small = 4 << 10 // Badger deletes an empty value log
		shared := filepath.Ext(name) == ".sst" || filepath.Ext(name) == ".vlog" && name != newest && info.Size() > small
		if shared && os.Link(path, filepath.Join(to, name)) == nil {
			continue
		}
		if err := copySparse(path, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// beforeAnyStart returns the paths of Badger's files by name. If a start of the older program was
// interrupted, they are those from before that start.
func beforeAnyStart(dir string) (map[string]string, error) {
	paths := map[string]string{}
	kept := filepath.Join(dir, beforeStart)
	list, err := os.ReadFile(filepath.Join(kept, startList))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	undone := err == nil
	before := strings.Split(string(list), "\n")
	names, err := Names(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if isTableOrLog(name) && (!undone || slices.Contains(before, name)) || slices.Contains(others[:3], name) {
			paths[name] = filepath.Join(dir, name)
		}
	}
	if !undone {
		return paths, nil
	}
	if names, err = Names(kept); err != nil {
		return nil, err
	}
	for _, name := range names {
		paths[name] = filepath.Join(kept, name)
	}
	return paths, nil
}
