// Package atomicfile writes files that are complete or absent.
package atomicfile

import (
	"io"
	"os"
	"path/filepath"
)

// Write writes a file that only its owner can read. It is synced before it gets its name; on an error nothing is left at
// path, or the file that was there before.
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
	}
	return err
}

// WriteText writes a file with the text, as [Write] does.
func WriteText(path, text string) error {
	return Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
