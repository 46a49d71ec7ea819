//go:build linux

// Command faultdisk serves a disk or a file system for tests through FUSE, until its standard input
// ends. It is a module of its own, because the library does not depend on FUSE. Package
// internal/faultdisk starts it:
//
//	faultdisk disk SIZE DIR    a disk of SIZE bytes, as a file in DIR for each power cycle
//	faultdisk strict DIR       a file system that keeps only what was flushed
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "faultdisk:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "disk":
		size, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		d := newDevice(size)
		return serve(args[2], &folder{device: d}, d.execute)
	case len(args) == 2 && args[0] == "strict":
		s := newStrict()
		return serve(args[1], s.root, s.execute)
	}
	return errors.New("usage: faultdisk disk SIZE DIR, or faultdisk strict DIR")
}

// serve serves a file system, and executes commands until standard input ends. It replies to each
// line with one line.
func serve(dir string, root fs.InodeEmbedder, execute func(line string) (string, error)) error {
	mounted, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, MaxWrite: faultdisk.MaxWrite, FsName: "faultdisk", Name: "faultdisk",
	}})
	if err != nil {
		return err
	}
	defer func() { _ = mounted.Unmount() }()
	lines := bufio.NewScanner(os.Stdin)
	_, err = fmt.Println("ready")
	for err == nil && lines.Scan() {
		reply, failed := execute(lines.Text())
		if failed != nil {
			reply = "error " + failed.Error()
		}
		_, err = fmt.Println(reply)
	}
	return errors.Join(err, lines.Err())
}
