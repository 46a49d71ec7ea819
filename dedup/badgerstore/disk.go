package badgerstore

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eyelet-dev/eyelet/dedup"
)

// disk watches the free space of the store's file system. Badger writes through memory maps, so that a full
// disk is the death of the process and not an error: the store stops before.
type disk struct {
	dir      string
	statfs   func(dir string) (free, total int64, err error)
	size     func() int64 // of the store
	minFree  int64        // what the options say; 0 is the default
	memTable int64
	probe    func() error // writes something; nil while there is nothing to write to

	mu   sync.Mutex
	last diskState
	at   time.Time
}

// diskCache is how long a look at the file system is good for.
const diskCache = time.Second

// diskState is the free space and what it is to be compared with.
type diskState struct {
	free, want, hard int64
	failed           error // the free space is unknown
	unwritable       error // the file system takes no writes
}

// low says that no new event is accepted.
func (d diskState) low() bool { return d.failed != nil || d.unwritable != nil || d.free < d.want }

// frozen says that nothing is written.
func (d diskState) frozen() bool { return d.unwritable != nil || d.failed == nil && d.free < d.hard }

func (d diskState) err() error {
	const retry = 30 * time.Second
	if d.unwritable != nil {
		return &dedup.ErrUnavailable{Reason: "the store's file system cannot be written", RetryAfter: retry, Err: d.unwritable}
	}
	if d.failed != nil {
		return &dedup.ErrUnavailable{Reason: "free disk space is unknown", RetryAfter: retry, Err: d.failed}
	}
	return &dedup.ErrUnavailable{
		Reason:     fmt.Sprintf("disk low: %s free, %s wanted; free some space, the store goes on by itself", mib(d.free), mib(d.want)),
		RetryAfter: retry,
	}
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// state returns what is known, looking again when that is more than a second old.
func (d *disk) state() diskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) >= diskCache {
		d.last, d.at = d.look(), now
	}
	return d.last
}

// doubt makes the next state a new look.
func (d *disk) doubt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
}

func (d *disk) look() diskState {
	if d.probe != nil {
		if err := d.probe(); err != nil {
			return diskState{free: -1, unwritable: err}
		}
	}
	free, total, err := d.statfs(d.dir)
	if err != nil {
		return diskState{free: -1, failed: err}
	}
	want := d.minFree
	if want <= 0 {
		want = max(512<<20, 8*d.memTable, d.size()*15/100)
	}
	want = min(want, total/4)
	return diskState{free: free, want: want, hard: min(3*d.memTable, want)}
}

func statfs(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
