package badgerfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// TestAFlushOfOthersThatFailedIsNoticed looks at files of several lengths, with and without a
// failed flush.
func TestAFlushOfOthersThatFailedIsNoticed(t *testing.T) {
	t.Parallel()
	disk := faultdisk.New(t, 64<<20)
	marker := []byte("the bytes that are not written")
	for _, size := range []int{0, 1, 4096, directChunk, directChunk + 5000} {
		path := filepath.Join(disk.Dir, "file")
		data := append(bytes.Repeat([]byte{7}, size), marker...)
		for _, fails := range []bool{false, true} {
			if fails {
				if err := disk.FailWrite(marker); err != nil {
					t.Fatal(err)
				}
			}
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write(data)
			synced := f.Sync()
			if err := errors.Join(err, f.Close()); err != nil || errors.Is(synced, syscall.EIO) != fails {
				t.Fatal(err, synced)
			}
			err = OnDisk(path)
			if (err != nil) != fails || fails && !strings.Contains(err.Error(), "not on the disk") {
				t.Errorf("%d bytes, fails %v: %v", len(data), fails, err)
			}
		}
	}
}
