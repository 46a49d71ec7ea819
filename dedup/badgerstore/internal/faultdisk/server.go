//go:build linux

package faultdisk

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// serverEnv makes a process the server of a disk, "disk SIZE DIR", or of a [Strict] file system,
// "strict DIR".
const serverEnv = "EYELET_FAULTDISK"

// Main serves a disk or a [Strict] file system if this process was started as its server, and
// reports whether it was. A test binary calls it first in TestMain.
func Main() bool {
	kind, text, _ := strings.Cut(os.Getenv(serverEnv), " ")
	var err error
	switch kind {
	case "disk":
		err = serveDisk(text)
	case "strict":
		err = serveStrict(text)
	default:
		return false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultdisk:", err)
		os.Exit(1)
	}
	return true
}

// serveDisk serves the disk described by text.
func serveDisk(text string) error {
	number, dir, _ := strings.Cut(text, " ")
	size, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	d := newDevice(size)
	return serve(dir, &folder{device: d}, d.execute)
}

// serve serves a file system, and executes commands until standard input ends. It replies to each
// line with one line.
func serve(dir string, root fs.InodeEmbedder, execute func(line string) (string, error)) error {
	mounted, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, MaxWrite: maxWrite, FsName: "faultdisk", Name: "faultdisk",
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

// server is the process that serves a disk or a file system.
type server struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startServer starts this program as a server, as serverEnv describes it.
func startServer(text string) (*server, error) {
	process := exec.CommandContext(context.Background(), os.Args[0])
	process.Env, process.Stderr = append(os.Environ(), serverEnv+"="+text), os.Stderr
	in, err1 := process.StdinPipe()
	out, err2 := process.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{process, in, bufio.NewReader(out)}
	if line, err := s.out.ReadString('\n'); line != "ready\n" {
		s.close()
		return nil, fmt.Errorf("the server does not start: %q %w", line, err)
	}
	return s, nil
}

// ask sends a command with its arguments and returns the reply.
func (s *server) ask(command ...any) (string, error) {
	if _, err := fmt.Fprintln(s.in, command...); err != nil {
		return "", err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\n")
	if problem, ok := strings.CutPrefix(line, "error "); ok {
		return "", fmt.Errorf("faultdisk: %v: %s", command, problem)
	}
	return line, nil
}

// send sends a command that has no reply.
func (s *server) send(command ...any) error {
	_, err := s.ask(command...)
	return err
}

// close ends the process. It ignores errors, because the test is over.
func (s *server) close() {
	_ = s.in.Close()
	_ = s.process.Wait()
}

// execute executes a command and returns the epoch. Commands are on, cut, cutin N DEPTH, fail
// HEX, failin N, seed N and stats.
func (d *device) execute(line string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	command, arg, _ := strings.Cut(line, " ")
	var err error
	switch command {
	case "on":
		d.off = false
	case "cut":
		d.cut()
	case "cutin":
		_, err = fmt.Sscan(arg, &d.cutIn, &d.depth)
	case "fail":
		d.failing, err = hex.DecodeString(arg)
	case "failin":
		d.failIn, err = strconv.Atoi(arg)
	case "seed":
		var seed uint64
		seed, err = strconv.ParseUint(arg, 10, 64)
		d.chance = rand.New(rand.NewPCG(seed, 1))
	case "stats":
		var b []byte
		b, err = json.Marshal(d.stats)
		return string(b), err
	default:
		err = errors.New("unknown command")
	}
	return fmt.Sprint(d.epoch), err
}

// folder is the file system: one file per epoch, named by its number.
type folder struct {
	fs.Inode
	device *device
}

var (
	_ fs.NodeLookuper  = (*folder)(nil)
	_ fs.NodeOpener    = (*node)(nil)
	_ fs.NodeGetattrer = (*node)(nil)
	_ fs.NodeSetattrer = (*node)(nil)
	_ fs.NodeReader    = (*node)(nil)
	_ fs.NodeWriter    = (*node)(nil)
	_ fs.NodeFsyncer   = (*node)(nil)
)

// Lookup finds the file of an epoch.
func (f *folder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	epoch, err := strconv.Atoi(name)
	if err != nil || epoch < 0 {
		return nil, syscall.ENOENT
	}
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(f.device.size)
	stable := fs.StableAttr{Mode: fuse.S_IFREG, Ino: uint64(epoch) + 2}
	return f.NewInode(ctx, &node{device: f.device, epoch: epoch}, stable), 0
}

type node struct {
	fs.Inode
	device *device
	epoch  int
}

// Getattr returns the size.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(n.device.size)
	return 0
}

// Setattr changes nothing.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, f, out)
}

// Open opens the file without a page cache, so every write arrives immediately.
func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read reads what was written.
func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	size, errno := n.device.read(n.epoch, to, at)
	return fuse.ReadResultData(to[:size]), errno
}

// Write writes into the volatile cache.
func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	if errno := n.device.write(n.epoch, data, at); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

// Fsync makes all writes durable.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.device.flush(n.epoch)
}
