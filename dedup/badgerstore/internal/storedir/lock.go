// Package storedir handles the directory of a store and its files: how they are opened, flushed
// and replaced, the lock, and the format.
package storedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DirLock is the lock on the directory of a store, the same that Badger takes. It is held from
// the first access to the files until the database is closed, because a start moves, copies and
// renames files before Badger opens them.
type DirLock struct{ dir, owner *os.File }

// LockFile has the process id of the holder, for people to read.
const LockFile = "LOCK"

// errLocked is the error of take while another process has the lock.
var errLocked = errors.New("another process has the lock")

// lockPatience is how long to wait for a lock whose holder has ended. A child process that this
// process, or the holder, was just starting inherits the lock and keeps it until it executes. Only
// waits between looks count, not a pause of the process.
const (
	lockPatience = time.Second
	lockPoll     = 5 * time.Millisecond
)

// LockDir takes the lock and writes the process id beside it, for people to read.
func LockDir(dir string) (*DirLock, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("store directory %s cannot be read: %w", dir, err)
	}
	for left := lockPatience / lockPoll; ; left-- {
		l := &DirLock{dir: d}
		err = l.take()
		switch {
		case err == nil:
			_, _ = l.owner.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
			return l, nil
		case !errors.Is(err, errLocked):
			return nil, errors.Join(fmt.Errorf("store %s cannot be locked: %w", dir, err), d.Close())
		case left <= 0:
			err = fmt.Errorf("store %s is in use by another process: stop it, or use its API%s", dir, lockOwner(dir))
			return nil, errors.Join(err, d.Close())
		}
		time.Sleep(lockPoll)
	}
}

func (l *DirLock) path() string { return filepath.Join(l.dir.Name(), LockFile) }

// Probe returns why the file system takes no writes, nil if it does. It writes one byte to the page
// cache.
func (l *DirLock) Probe() error {
	_, err := l.owner.WriteAt([]byte(strconv.Itoa(os.Getpid())[:1]), 0)
	return err
}

// Release releases the lock.
func (l *DirLock) Release() error {
	_ = os.Remove(l.path())
	_ = l.owner.Close() // nobody needs its content
	return l.dir.Close()
}

// lockOwner returns the process in the lock file, as text for people.
func lockOwner(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, LockFile))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}
