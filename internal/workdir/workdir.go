// Package workdir finds the files that a user names to a program of a module of its own. Such a
// program is run by `go run -C`, which changes the working directory to that of the module.
package workdir

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// Abs makes a path absolute. A relative path is relative to the working directory. Where that is
// the root of the module of this program, as under `go run -C`, the path is relative to the
// directory of the shell instead, which the environment has in PWD; if it has none, the working
// directory counts.
func Abs(name string) (string, error) {
	shell := os.Getenv("PWD")
	if filepath.IsAbs(name) || !filepath.IsAbs(shell) || !inOwnModule() {
		return filepath.Abs(name)
	}
	return filepath.Join(shell, name), nil
}

// AbsAll makes paths absolute in place. It skips empty ones.
func AbsAll(names ...*string) error {
	for _, name := range names {
		if *name == "" {
			continue
		}
		path, err := Abs(*name)
		if err != nil {
			return err
		}
		*name = path
	}
	return nil
}

// inOwnModule reports whether the go.mod of the working directory is that of this program.
func inOwnModule() bool {
	text, err := os.ReadFile("go.mod")
	info, ok := debug.ReadBuildInfo()
	if err != nil || !ok {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name) == info.Main.Path
		}
	}
	return false
}
