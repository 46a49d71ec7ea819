package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// everything returns all records with their bodies, by event.
func everything(t *testing.T, s *Store) map[string]dedup.Record {
	t.Helper()
	out := map[string]dedup.Record{}
	for r, err := range s.List(context.Background(), dedup.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out[r.Event] = r
	}
	return out
}

// bodies compares bodies as a whole: byte by byte takes minutes.
var bodies = cmp.Comparer(bytes.Equal)

func backup(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(t *testing.T, backup []byte) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if err := Restore(context.Background(), dir, quiet(), bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	return open(t, dir, quiet())
}

func TestABackupUnderLoadHasEverythingAcknowledgedBeforeIt(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	var acked sync.Map // id -> event
	var n atomic.Int64
	stop, loaded := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", c, i)
				ds, err := s.Claim(context.Background(), killClaim(id))
				if err != nil {
					t.Error(err)
					return
				}
				acked.Store(id, ds[0].Record.Event)
				if n.Add(1) == 500 {
					close(loaded)
				}
			}
		})
	}
	<-loaded
	before := map[string]string{}
	acked.Range(func(id, event any) bool { before[id.(string)] = event.(string); return true })
	data := backup(t, s)
	close(stop)
	wg.Wait()
	again := restore(t, data)
	for id, event := range before {
		r, err := again.Get(context.Background(), event)
		if err != nil || !bytes.Equal(r.Payload.Body, killBody(id)) {
			t.Fatalf("%s: %d bytes, %v", id, len(r.Payload.Body), err)
		}
		if d := mustClaim(t, again, killClaim(id), dedup.Known); d.Record.Event != event ||
			d.Record.Response.Status != 202 {
			t.Fatalf("%s: a duplicate is answered %+v", id, d.Record)
		}
	}
	t.Logf("%d events before the backup, %d bytes", len(before), len(data))
}

func TestARestoredStoreHasExactlyWhatWasThere(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	events := map[int]string{}
	for i := range 15 {
		c := largeClaim(fmt.Sprint(i), 1000+i%3*record.InlineMost)
		events[i] = mustClaim(t, s, c, dedup.New).Record.Event
	}
	finishNext(t, s, 6, dedup.Result{Kind: dedup.ResultDone})
	for i := range 3 { // deleted, and dropped from the database too
		if err := s.Purge(ctx, events[i]); err != nil {
			t.Fatal(err)
		}
	}
	finishNext(t, s, 3, dedup.Result{Kind: dedup.ResultDead})
	mustClaim(t, s, largeClaim("larger than a segment", segmentSize+1), dedup.New)
	if err := s.maintenance.reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := restore(t, backup(t, s))
	if diff := cmp.Diff(everything(t, s), everything(t, again), bodies); diff != "" {
		t.Error(diff)
	}
	mustClaim(t, again, largeClaim("0", 1000), dedup.New) // purged
	if d := mustClaim(t, again, largeClaim("x", 10), dedup.New); d.Record.Seq < lostGap {
		t.Errorf("sequence %d may have been given out after the backup", d.Record.Seq)
	}
	r, err := again.Check(ctx)
	if err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
}

// ofFormat returns a backup of another format.
func ofFormat(backup []byte, format int) []byte {
	return bytes.Replace(backup, fmt.Appendf(nil, "%d\n", formatVersion), fmt.Appendf(nil, "%d\n", format), 1)
}

func TestRestoreRefusesWhatIsNotABackup(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	mustClaim(t, s, claimOf("a"), dedup.New)
	whole := backup(t, s)
	reads := fmt.Sprintf(", and this version reads only format %d", formatVersion)
	for name, tc := range map[string]struct {
		want   string
		backup []byte
	}{
		"empty":           {"does not begin", nil},
		"something else":  {"does not begin", []byte("a letter to somebody, of some length\n")},
		"cut off":         {"not a complete backup", whole[:len(whole)-40]},
		"without its sum": {"not a complete backup", whole[:len(whole)-1]},
		"a newer format":  {fmt.Sprint("format ", formatVersion+1, reads), ofFormat(whole, formatVersion+1)},
		"an older format": {fmt.Sprint("format ", formatVersion-1, reads), ofFormat(whole, formatVersion-1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := Restore(context.Background(), dir, quiet(), bytes.NewReader(tc.backup))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if s, err := Open(dir, quiet()); err == nil {
				t.Error("half a restored store was opened", s.Close())
			}
		})
	}
}

func TestEveryByteOfABackupIsChecked(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	c := claimOf("a")
	c.Payload.Body = []byte("short")
	mustClaim(t, s, c, dedup.New)
	data := backup(t, s)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 4
		if err := readWhole(bad); err == nil {
			t.Errorf("byte %d of %d is not checked", i, len(data))
		}
		if err := readWhole(data[:i]); err == nil {
			t.Errorf("the first %d bytes pass", i)
		}
	}
	if err := readWhole(data); err != nil {
		t.Error(err)
	}
}

func readWhole(data []byte) error {
	r, err := newBackupReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for {
		if _, err := r.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func FuzzBackupReader(f *testing.F) {
	var b bytes.Buffer
	w := newBackupWriter(&b)
	w.value([]byte("akey"), []byte("value"), nil)
	w.value([]byte("ekey"), []byte("value"), []byte("content"))
	_ = w.end()
	f.Add(b.Bytes())
	f.Add([]byte(backupTitle + "0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if readWhole(data) == nil && !bytes.HasPrefix(data, []byte(backupTitle)) {
			t.Error("a backup without its title")
		}
	})
}

func TestRestoreRequiresAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	data := backup(t, s)
	err := Restore(context.Background(), s.dir, quiet(), bytes.NewReader(data))
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
}

func TestAClosedStoreIsBackedUpAsItIs(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		s := filled(t, 20, func(i int) dedup.Claim { return largeClaim(fmt.Sprint(i), i*100) })
		want := everything(t, s)
		dir := left(t, s, crashed)
		var b bytes.Buffer
		if err := BackupDir(context.Background(), dir, quiet(), &b); err != nil {
			t.Fatalf("crashed %v: %v", crashed, err)
		}
		for what, s := range map[string]*Store{"restored": restore(t, b.Bytes()), "backed up": open(t, dir, quiet())} {
			if diff := cmp.Diff(want, everything(t, s), bodies); diff != "" {
				t.Errorf("crashed %v, %s: %s", crashed, what, diff)
			}
		}
	}
}

func TestDamageSurvivesABackup(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	bad := claimOf("bad")
	bad.Tasks = nil
	event := mustClaim(t, s, bad, dedup.New).Record.Event
	mustClaim(t, s, claimOf("good"), dedup.New)
	spoil(t, s, record.HashOf(bad.Key).Key(record.FamilyEvent))
	data := backup(t, s)
	again := restore(t, data)
	_, err := again.Get(context.Background(), event)
	damagedIs(t, err, "Get from the restored store")
	mustClaim(t, again, claimOf("good"), dedup.Known)
}
