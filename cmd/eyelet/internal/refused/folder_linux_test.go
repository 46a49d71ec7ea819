package refused

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

func TestAFullDiskIsCounted(t *testing.T) {
	t.Parallel()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("EYELET_LONG=1 runs it, as root")
	}
	o := onDisk(t.TempDir())
	if err := syscall.Mount("tmpfs", o.Dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal("no mount:", err)
	}
	defer syscall.Unmount(o.Dir, syscall.MNT_DETACH) //nolint:errcheck // best effort
	f := newFeedOf(o)
	for i := range 20 {
		f.add(f.delivery("shop", fmt.Sprintf("198.51.%d.1", i), strings.Repeat("x", 7<<10)))
	}
	check(t, f.Close())
	files := written(t, o.Dir)
	_, dropped := f.Counts()
	if len(files) < 4 || len(files)+int(dropped[DroppedDisk]) != 20 {
		t.Errorf("%d files, dropped %v", len(files), dropped)
	}
	for _, text := range files { // none is cut
		if rec, err := httpfile.Parse("r", text); err != nil || len(rec.Body) != 7<<10 {
			t.Errorf("%v: a body of %d bytes", err, len(rec.Body))
		}
	}
}
