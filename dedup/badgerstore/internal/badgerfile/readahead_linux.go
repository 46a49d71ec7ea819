package badgerfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Readahead tells the kernel that Badger's logs are not read in order. Badger maps its logs
// into memory and writes them there; where the kernel reads ahead generously it brings large
// pieces into memory with every fault and writes them back whole with every flush, some ten
// times what was changed. Badger has no option for it, so the mappings are looked up.
type Readahead struct {
	dir  string
	done map[string]bool // lines of the last look
}

// NewReadahead watches the logs in a directory.
func NewReadahead(dir string) *Readahead {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return &Readahead{}
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	}
	return &Readahead{dir: abs}
}

// DisableNew advises on the mappings that were not there at the last look. What it cannot do,
// it leaves.
func (a *Readahead) DisableNew() {
	if a.dir == "" {
		return
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	seen := make(map[string]bool, len(a.done))
	for line := range strings.Lines(string(text)) {
		_, path, ok := strings.Cut(line, a.dir+"/")
		if path = strings.TrimSpace(path); !ok || !strings.HasSuffix(path, ".mem") && !strings.HasSuffix(path, ".vlog") {
			continue
		}
		where, _, _ := strings.Cut(line, " ")
		known := where + path
		if seen[known] = true; a.done[known] {
			continue
		}
		if from, to, ok := addresses(where); ok {
			// A mapping that has gone since is another one by now, for which the advice is
			// without effect.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		}
	}
	a.done = seen
}

// addresses reads "7f00-7f10".
func addresses(s string) (from, to uintptr, ok bool) {
	low, high, _ := strings.Cut(s, "-")
	a, err1 := strconv.ParseUint(low, 16, 64)
	b, err2 := strconv.ParseUint(high, 16, 64)
	return uintptr(a), uintptr(b), err1 == nil && err2 == nil && a < b
}
