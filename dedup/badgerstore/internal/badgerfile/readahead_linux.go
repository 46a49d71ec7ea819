package badgerfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Readahead disables the kernel's readahead on the logs of Badger. Badger maps them into memory
// and writes through the mapping. With much readahead the kernel reads large pieces on every
// fault and writes them back on every flush, some ten times what changed. Badger has no option
// for it, so the mappings are looked up.
type Readahead struct {
	dir  string
	done map[string]bool // mappings of the last call
}

// NewReadahead returns the Readahead of the logs in a directory.
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

// DisableNew disables readahead on mappings that are new since the last call. It ignores errors.
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
		_, path, ok := strings.Cut(strings.TrimSpace(line), a.dir+"/")
		if !ok || !strings.HasSuffix(path, ".mem") && !strings.HasSuffix(path, ".vlog") {
			continue
		}
		where, _, _ := strings.Cut(line, " ")
		known := where + path
		if seen[known] = true; a.done[known] {
			continue
		}
		if from, to, ok := addresses(where); ok {
			// If the mapping was replaced meanwhile, the advice is harmless.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		}
	}
	a.done = seen
}

// addresses parses "7f00-7f10".
func addresses(s string) (from, to uintptr, ok bool) {
	low, high, _ := strings.Cut(s, "-")
	a, err1 := strconv.ParseUint(low, 16, 64)
	b, err2 := strconv.ParseUint(high, 16, 64)
	return uintptr(a), uintptr(b), err1 == nil && err2 == nil && a < b
}
