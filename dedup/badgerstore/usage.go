package badgerstore

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// usage is what the files of a store take on the disk, in bytes. Badger makes files long before it fills them, so what
// counts are the blocks that a file has.
type usage struct {
	all, tables int64
}

// measure adds up the files in a directory and in those below it. Files that go meanwhile do not count.
func measure(dir string) (u usage, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			below, err := measure(filepath.Join(dir, e.Name()))
			if err == nil {
				u.all += below.all
			}
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		n := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n = st.Blocks * 512 // the unit of POSIX, whatever the file system's is
		}
		u.all += n
		if strings.HasSuffix(e.Name(), ".sst") {
			u.tables += n
		}
	}
	return u, err
}

// usageLasts is how long a look at the files is good for.
const usageLasts = 10 * time.Second

// meter measures a directory, and not more often than needed.
type meter struct {
	dir string

	mu   sync.Mutex
	last usage
	at   time.Time
}

// usage returns what the files took a moment ago. A directory that cannot be read takes what it took before.
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

// forget makes the next look a new one.
func (m *meter) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = time.Time{}
}
