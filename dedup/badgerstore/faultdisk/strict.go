//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// strictFS is the state that its nodes share.
type strictFS struct {
	mu      sync.Mutex
	root    *strictNode
	failing string // the end of the path whose next flush fails
	images  []*kept
	flushed []string
}

// kept is what a crash keeps of a file or a directory. It is immutable, but the nodes of names
// change.
type kept struct {
	data  []byte
	names map[string]*kept // nil in a file
}

// strictNode is a file or a directory.
type strictNode struct {
	fs.Inode
	fs    *strictFS
	data  []byte
	dirty map[int]struct{} // pages that no flush has written
	fails int              // flushes that failed

	keptData  []byte
	keptNames map[string]*strictNode // nil in a file
}

var (
	_ fs.NodeCreater   = (*strictNode)(nil)
	_ fs.NodeMkdirer   = (*strictNode)(nil)
	_ fs.NodeUnlinker  = (*strictNode)(nil)
	_ fs.NodeRmdirer   = (*strictNode)(nil)
	_ fs.NodeRenamer   = (*strictNode)(nil)
	_ fs.NodeOpener    = (*strictNode)(nil)
	_ fs.NodeGetattrer = (*strictNode)(nil)
	_ fs.NodeSetattrer = (*strictNode)(nil)
	_ fs.NodeReader    = (*strictNode)(nil)
	_ fs.NodeWriter    = (*strictNode)(nil)
	_ fs.NodeAllocater = (*strictNode)(nil)
	_ fs.NodeFsyncer   = (*strictNode)(nil)
	_ fs.NodeStatfser  = (*strictNode)(nil)
)

// newStrict returns an empty file system.
func newStrict() *strictFS {
	s := &strictFS{}
	s.root = &strictNode{fs: s, keptNames: map[string]*strictNode{}}
	return s
}

// execute executes a command: flushes, flushed, image N DIR or fail PATH.
func (s *strictFS) execute(line string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	command, arg, _ := strings.Cut(line, " ")
	switch command {
	case "flushes":
		return fmt.Sprint(len(s.images)), nil
	case "flushed":
		return strings.Join(s.flushed, "\t"), nil
	case "fail":
		_, err := fmt.Sscanf(arg, "%q", &s.failing)
		return "", err
	case "image":
		var n int
		var dir string
		if _, err := fmt.Sscan(arg, &n, &dir); err != nil || n < 1 || n > len(s.images) {
			return "", fmt.Errorf("no image %q: %w", arg, err)
		}
		return "", s.images[n-1].write(dir)
	}
	return "", errors.New("unknown command")
}

func (k *kept) write(path string) error {
	if k.names == nil {
		return os.WriteFile(path, k.data, 0o600)
	}
	err := os.MkdirAll(path, 0o700)
	for name, below := range k.names {
		err = errors.Join(err, below.write(filepath.Join(path, name)))
	}
	return err
}

// image returns what a crash keeps now.
func (n *strictNode) image() *kept {
	k := &kept{data: n.keptData}
	if n.keptNames != nil {
		k.names = map[string]*kept{}
		for name, below := range n.keptNames {
			k.names[name] = below.image()
		}
	}
	return k
}

// strictHandle is an open file.
type strictHandle struct{ fails int } // that it was notified of

// Fsync keeps the content of a file, or the names in a directory.
func (n *strictNode) Fsync(_ context.Context, h fs.FileHandle, _ uint32) syscall.Errno {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	path := n.Path(&n.fs.root.Inode)
	if n.keptNames != nil {
		n.keptNames = map[string]*strictNode{}
		for name, below := range n.Children() {
			n.keptNames[name], _ = below.Operations().(*strictNode)
		}
		n.fs.note(path + "/")
		return 0
	}
	if n.fs.failing != "" && strings.HasSuffix(path, n.fs.failing) {
		n.fs.failing = ""
		n.fails++
		clear(n.dirty)
	}
	if file, ok := h.(*strictHandle); ok && file.fails != n.fails {
		file.fails = n.fails
		return syscall.EIO
	}
	data := make([]byte, len(n.data))
	copy(data, n.keptData)
	for page := range n.dirty {
		if from := page * pageSize; from < len(data) {
			copy(data[from:min(from+pageSize, len(data))], n.data[from:])
		}
	}
	n.keptData = data
	clear(n.dirty)
	n.fs.note(path)
	return 0
}

func (s *strictFS) note(path string) {
	s.images, s.flushed = append(s.images, s.root.image()), append(s.flushed, path)
}

func (n *strictNode) child(ctx context.Context, mode uint32) (*fs.Inode, *strictNode) {
	below := &strictNode{fs: n.fs, dirty: map[int]struct{}{}}
	if mode == fuse.S_IFDIR {
		below.keptNames = map[string]*strictNode{}
	}
	return n.NewInode(ctx, below, fs.StableAttr{Mode: mode}), below
}

// Create makes an empty file.
func (n *strictNode) Create(ctx context.Context, _ string, _, _ uint32, out *fuse.EntryOut) (
	*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, _ := n.child(ctx, fuse.S_IFREG)
	out.Mode = fuse.S_IFREG | 0o600
	return inode, &strictHandle{}, 0, 0
}

// Mkdir makes an empty directory.
func (n *strictNode) Mkdir(ctx context.Context, _ string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	inode, _ := n.child(ctx, fuse.S_IFDIR)
	out.Mode = fuse.S_IFDIR | 0o700
	return inode, 0
}

// Unlink removes the name of a file.
func (n *strictNode) Unlink(context.Context, string) syscall.Errno { return 0 }

// Rmdir removes the name of an empty directory.
func (n *strictNode) Rmdir(_ context.Context, name string) syscall.Errno {
	if len(n.GetChild(name).Children()) > 0 {
		return syscall.ENOTEMPTY
	}
	return 0
}

// Rename changes a name.
func (n *strictNode) Rename(context.Context, string, fs.InodeEmbedder, string, uint32) syscall.Errno {
	return 0
}

// Open opens a file.
func (n *strictNode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	if flags&syscall.O_TRUNC != 0 {
		n.resize(0)
	}
	return &strictHandle{n.fails}, fuse.FOPEN_KEEP_CACHE, 0
}

// Getattr returns mode and size.
func (n *strictNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	out.Size, out.Mode, out.Nlink = uint64(len(n.data)), n.Mode()|0o600, 1
	if n.keptNames != nil {
		out.Mode |= 0o100
	}
	return 0
}

// Setattr changes the size.
func (n *strictNode) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn,
	out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		n.fs.mu.Lock()
		n.resize(int(size))
		n.fs.mu.Unlock()
	}
	return n.Getattr(ctx, h, out)
}

func (n *strictNode) resize(size int) {
	if size < len(n.data) {
		clear(n.data[size:])
		for page := size / pageSize; page*pageSize < len(n.data); page++ {
			n.dirty[page] = struct{}{}
		}
		n.data = n.data[:size]
	}
	n.data = append(n.data, make([]byte, size-len(n.data))...)
}

// Allocate extends a file.
func (n *strictNode) Allocate(_ context.Context, _ fs.FileHandle, at, size uint64, _ uint32) syscall.Errno {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	n.resize(max(len(n.data), int(at+size)))
	return 0
}

// Read reads what was written.
func (n *strictNode) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	return fuse.ReadResultData(to[:copy(to, n.data[min(int(at), len(n.data)):])]), 0
}

// Write writes to the cache.
func (n *strictNode) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	end := int(at) + len(data)
	n.resize(max(len(n.data), end))
	copy(n.data[at:], data)
	for page := int(at) / pageSize; page*pageSize < end; page++ {
		n.dirty[page] = struct{}{}
	}
	return uint32(len(data)), 0
}

// Statfs reports a large file system.
func (n *strictNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Blocks, out.Bfree, out.Bavail = pageSize, 1<<24, 1<<24, 1<<24
	return 0
}
