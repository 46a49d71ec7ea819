package pgstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestAFullDiskOfTheServer fills the disk that the events are on, and makes it larger.
func TestAFullDiskOfTheServer(t *testing.T) {
	t.Parallel()
	dsn, schema := freshSchema(t)
	if os.Geteuid() != 0 || pgtest.PID() == 0 {
		t.Skip("mounting a disk needs root and a server of this test")
	}
	s, err := Open(t.Context(), dsn, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	exec := admin(t, s, dsn)
	var data string
	if err := s.db.pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	disk := fmt.Sprintf("%s-disk-%d", data, schemas.Add(1))
	info, err := os.Stat(data)
	if err := errors.Join(err, os.Mkdir(disk, 0o755)); err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	settings := fmt.Sprintf("mode=700,uid=%d,gid=%d,size=", owner.Uid, owner.Gid)
	if err := syscall.Mount("none", disk, "tmpfs", 0, settings+"16m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	space := fmt.Sprintf("small_%d", schemas.Add(1))
	exec("CREATE TABLESPACE " + space + " LOCATION '" + disk + "'")
	defer func() {
		exec("DROP SCHEMA {{schema}} CASCADE")
		exec("DROP TABLESPACE " + space)
		if err := errors.Join(syscall.Unmount(disk, 0), os.Remove(disk), s.Close()); err != nil {
			t.Error(err)
		}
	}()
	exec("ALTER TABLE {{schema}}.event SET TABLESPACE " + space)
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
