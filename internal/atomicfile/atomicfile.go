// Package atomicfile writes files that are complete or absent.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Write writes a file that only its owner can read. Once it returns the file survives a power cut.
// On an error the old file at path is still there.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a directory durable. Windows cannot flush a directory.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteText writes a file with the text, as [Write] does.
func WriteText(path, text string) error {
	return Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
