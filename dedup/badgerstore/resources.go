package badgerstore

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// disk watches the free space of the store's file system. Badger writes through memory maps: a full
// disk would kill the process. The store stops before that.
type disk struct {
	dir      string
	statfs   func(dir string) (free, total int64, err error)
	size     func() int64 // of the store
	minFree  int64        // from the options; 0 is the default
	memTable int64
	probe    func() error // writes something; nil while there is no file to write to

	mu   sync.Mutex
	last diskState
	at   time.Time
}

// diskCache is how long a measurement of the file system is valid.
const diskCache = time.Second

type diskState struct {
	free, want, hard int64
	failed           error // the free space is unknown
	unwritable       error // the file system takes no writes
}

// with returns the state for a write of some bytes.
func (d diskState) with(bytes int64) diskState { d.want += bytes; return d }

// low means that new events are refused.
func (d diskState) low() bool { return d.failed != nil || d.unwritable != nil || d.free < d.want }

// frozen means that nothing is written.
func (d diskState) frozen() bool { return d.unwritable != nil || d.failed == nil && d.free < d.hard }

func (d diskState) err() error {
	const retry = 30 * time.Second
	if err := d.unwritable; err != nil {
		return &dedup.ErrUnavailable{Reason: "the store's file system cannot be written", RetryAfter: retry, Err: err}
	}
	if d.failed != nil {
		return &dedup.ErrUnavailable{Reason: "free disk space is unknown", RetryAfter: retry, Err: d.failed}
	}
	return &dedup.ErrUnavailable{
		Reason: fmt.Sprintf("disk low: %s free, %s wanted; free some space, the store continues by itself",
			mib(d.free), mib(d.want)),
		RetryAfter: retry,
	}
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// state returns the state of the disk, measured within the last second.
func (d *disk) state() diskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.at.IsZero() || now.Sub(d.at) >= diskCache {
		d.last, d.at = d.look(), now
	}
	return d.last
}

// recheck makes the next state a new measurement.
func (d *disk) recheck() {
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

// usage is the disk space of a store in allocated bytes: Badger fills its files only later. The
// rest of all is the log, and small files.
type usage struct{ all, tables, events int64 }

// measure adds up the files in a directory and below. Files that disappear meanwhile do not count.
func measure(dir string) (u usage, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			if below, err := measure(filepath.Join(dir, e.Name())); err == nil {
				u.all += below.all
				u.tables += below.tables
				u.events += below.events
			}
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		n := storedir.Allocated(info)
		u.all += n
		switch filepath.Ext(e.Name()) {
		case ".sst":
			u.tables += n
			u.events += n
		case ".mem", ".vlog", ".values":
			u.events += n
		}
	}
	return u, err
}

// usageLasts is how long a measurement of the files is valid.
const usageLasts = 10 * time.Second

// meter measures a directory, no more often than needed.
type meter struct {
	dir  string
	mu   sync.Mutex
	last usage
	at   time.Time
}

// usage returns a recent measurement. A directory that cannot be read keeps its previous usage.
func (m *meter) usage() usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.at.IsZero() || now.Sub(m.at) >= usageLasts {
		if u, err := measure(m.dir); err == nil {
			m.last = u
		}
		m.at = now
	}
	return m.last
}

func (m *meter) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = time.Time{}
}
