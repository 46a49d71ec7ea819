package pgstore

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestAFullDiskOfTheServer fills the disk that the events are on, and makes it larger. The disk is
// mounted for a child only, which has a server of its own: both end with it.
func TestAFullDiskOfTheServer(t *testing.T) {
	t.Parallel()
	const child, disk = "EYELET_FULL_DISK_CHILD", "/mnt"
	long(t)
	pgtest.Programs(t)
	if os.Getenv(child) == "" {
		if os.Geteuid() != 0 {
			t.Skip("mounting a disk needs root")
		}
		runtime.LockOSThread() // else the child could end with the thread
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1", "EYELET_TEST_POSTGRES=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	dsn, schema := freshSchema(t)
	s := opened(t, dsn, Options{Schema: schema})
	exec := admin(t, s, dsn)
	var data string
	scan(t, s, "SHOW data_directory", nil, &data)
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	settings := fmt.Sprintf("mode=700,uid=%d,gid=%d,size=", owner.Uid, owner.Gid)
	if err := syscall.Mount("none", disk, "tmpfs", 0, settings+"16m"); err != nil {
		t.Fatal(err)
	}
	exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
	exec("ALTER TABLE {{schema}}.event SET TABLESPACE small")
	large := func(i int) dedup.Claim {
		c := event(fmt.Sprint("large ", i), "ship")
		c.Payload.Body = make([]byte, 1<<20)
		_, _ = rand.Read(c.Payload.Body) // it never fails
		return c
	}
	accepted := 0
	for ; ; accepted++ {
		_, err := s.Claim(t.Context(), large(accepted))
		if err == nil && accepted < 16 {
			continue
		}
		if wantUnavailable(t, "claim", err); !strings.Contains(err.Error(), "53100") {
			t.Error(err)
		}
		break
	}
	for range accepted {
		if err := s.Finish(t.Context(), takeOne(t, s).Lease, done); err != nil {
			t.Errorf("with a full disk: %v", err)
		}
	}
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT, settings+"64m"); err != nil {
		t.Fatal(err)
	}
	claim(t, s, large(accepted), dedup.New)
	claim(t, s, large(accepted), dedup.Known)
	if st, err := s.count(t.Context()); err != nil || st.Records != int64(accepted)+1 || st.Pending != 1 {
		t.Errorf("%+v, %v; %d events were accepted", st, err, accepted)
	}
}
