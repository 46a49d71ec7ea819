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

func backup(t *testing.T, s *Store, since Position) ([]byte, Position) {
	t.Helper()
	var b bytes.Buffer
	at, err := s.Backup(context.Background(), &b, since)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), at
}

func restore(t *testing.T, backups ...[]byte) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	var in []io.Reader
	for _, b := range backups {
		in = append(in, bytes.NewReader(b))
	}
	if _, err := Restore(context.Background(), dir, quiet(), in...); err != nil {
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
	data, _ := backup(t, s, Position{})
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

func TestIncrementsRestoreExactlyWhatWasThere(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	ctx := context.Background()
	events := map[int]string{}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			c := largeClaim(fmt.Sprint(i), 1000+i%3*record.ChunkSize)
			events[i] = mustClaim(t, s, c, dedup.New).Record.Event
		}
	}
	add(0, 12)
	whole, v1 := backup(t, s, Position{})
	wholeHas := everything(t, s)
	finishNext(t, s, 6, dedup.Result{Kind: dedup.ResultDone})
	add(12, 15)
	inc1, v2 := backup(t, s, v1)
	for i := range 3 { // deleted, and dropped from the database too
		if err := s.Purge(ctx, events[i]); err != nil {
			t.Fatal(err)
		}
	}
	finishNext(t, s, 3, dedup.Result{Kind: dedup.ResultDead})
	if err := s.maintenance.reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	inc2, v3 := backup(t, s, v2)
	if v1.Version >= v2.Version || v2.Version >= v3.Version {
		t.Errorf("positions %v, %v, %v do not rise", v1, v2, v3)
	}
	if len(inc2) > len(whole)/2 {
		t.Errorf("an increment of %d bytes after a full backup of %d", len(inc2), len(whole))
	}
	if diff := cmp.Diff(wholeHas, everything(t, restore(t, whole)), bodies); diff != "" {
		t.Errorf("the full backup: %s", diff)
	}
	again := restore(t, whole, inc1, inc2)
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

// ofFormat returns a backup whose head names another format.
func ofFormat(backup []byte, format int) []byte {
	head := fmt.Appendf(nil, `"format":%d`, formatVersion)
	return bytes.Replace(backup, head, fmt.Appendf(nil, `"format":%d`, format), 1)
}

func TestRestoreRefusesABrokenChain(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	mustClaim(t, s, claimOf("a"), dedup.New)
	whole, v1 := backup(t, s, Position{})
	mustClaim(t, s, claimOf("b"), dedup.New)
	inc1, v2 := backup(t, s, v1)
	mustClaim(t, s, claimOf("c"), dedup.New)
	inc2, _ := backup(t, s, v2)
	other := open(t, t.TempDir(), quiet())
	mustClaim(t, other, claimOf("z"), dedup.New)
	foreign, _ := backup(t, other, Position{})
	for name, tc := range map[string]struct {
		want    string
		backups [][]byte
	}{
		"none":                     {"no backup", nil},
		"empty":                    {"does not begin", [][]byte{{}}},
		"something else":           {"does not begin", [][]byte{[]byte("a letter to somebody, of some length")}},
		"begins with an increment": {"start with a full backup", [][]byte{inc1}},
		"a gap":                    {"but follows one of", [][]byte{whole, inc2}},
		"of another store":         {"another store", [][]byte{foreign, inc1}},
		"two whole ones":           {"it is a full one", [][]byte{whole, whole}},
		"cut off":                  {"not a complete backup", [][]byte{whole[:len(whole)-40]}},
		"without its sum":          {"not a complete backup", [][]byte{whole[:len(whole)-1]}},
		"a newer format":           {"format 8, and this version reads only format 7", [][]byte{ofFormat(whole, 8)}},
		"an older format":          {"format 6, and this version reads only format 7", [][]byte{ofFormat(whole, 6)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var in []io.Reader
			for _, b := range tc.backups {
				in = append(in, bytes.NewReader(b))
			}
			dir := t.TempDir()
			_, err := Restore(context.Background(), dir, quiet(), in...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if tc.backups == nil {
				return // nothing was started
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
	data, _ := backup(t, s, Position{})
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
		if _, _, err := r.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func FuzzBackupReader(f *testing.F) {
	var b bytes.Buffer
	w := newBackupWriter(&b)
	_ = w.begin(backupHead{Format: formatVersion, Version: 7})
	w.value([]byte("akey"), []byte("value"), nil)
	w.value([]byte("ekey"), []byte("value"), []byte("content"))
	w.key([]byte("fkey"))
	_ = w.end()
	f.Add(b.Bytes())
	f.Add([]byte(backupTitle + "{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if readWhole(data) == nil && !bytes.HasPrefix(data, []byte(backupTitle)) {
			t.Error("a backup without its title")
		}
	})
}

func TestRestoreRequiresAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), quiet())
	data, _ := backup(t, s, Position{})
	_, err := Restore(context.Background(), s.dir, quiet(), bytes.NewReader(data))
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
		if _, err := BackupDir(context.Background(), dir, quiet(), &b, Position{}); err != nil {
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
	data, _ := backup(t, s, Position{})
	again := restore(t, data)
	_, err := again.Get(context.Background(), event)
	damagedIs(t, err, "Get from the restored store")
	mustClaim(t, again, claimOf("good"), dedup.Known)
}
