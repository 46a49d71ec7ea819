package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/faultdisk"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/format2"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// oldStore unpacks a golden store of an older format. Its conversion takes several commits, and no
// checkpoint or memory table of it ends before the conversion does: image copies what is at rest.
func oldStore(t *testing.T, name, state string) (dir string, want golden, o Options) {
	t.Helper()
	want, dir = readGolden(t, name), t.TempDir()
	o = quiet()
	unpack(t, fmt.Sprintf(goldenFiles, name), state, dir)
	o.Clock, o.load = goldenClock(want.Written), 200<<10
	o.memTable = 4 << 20
	return dir, want, o
}

// oldContent reads a store as the program of its format does.
func oldContent(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, err := format2.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	err = s.Each(nil, func(key, value []byte) error {
		out[string(key)] = string(value)
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil || len(out) < 10 {
		t.Fatal(len(out), err)
	}
	return out
}

// image copies a directory as a crash leaves it. It shares the files of the old store, which are
// only deleted.
func image(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	old, err := format2.Names(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		from, to := filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.Name() == "mirror":
		case slices.Contains(old, e.Name()):
			err = errors.Join(err, os.Link(from, to))
		case e.IsDir():
			err = errors.Join(err, os.CopyFS(to, os.DirFS(from)))
		default:
			text, err1 := os.ReadFile(from)
			err = errors.Join(err, err1, os.WriteFile(to, text, 0o600))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// stride is the distance between the steps at which the tests end a conversion. With EYELET_LONG
// it is 1.
var stride = func() int {
	if faultdisk.Long() {
		return 1
	}
	return 6
}()

// TestAnUpgradeMayEndAnywhere ends the process before each commit and each other step of a
// conversion: what is left is opened whole, by the older program as long as the format is its own.
func TestAnUpgradeMayEndAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"format1", "format2", "format2-every-kind"} {
		for _, state := range []string{"closed", "crashed"} {
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				dir, want, o := oldStore(t, name, state)
				before := oldContent(t, dir)
				var images []string
				stopping := o
				stopping.backup = filepath.Join(t.TempDir(), "backup")
				stopping.step = func(at step) {
					if at == stepConvert {
						images = append(images, image(t, dir))
					}
				}
				shut(t, open(t, dir, stopping))
				if len(images) < 8 {
					t.Fatalf("%d steps", len(images))
				}
				half := image(t, images[len(images)-1])
				for _, f := range logs(t, half, ".sst") {
					if err := os.Remove(f); err != nil && filepath.Dir(f) == half {
						t.Fatal(err)
					}
				}
				for i, dir := range images {
					if i > 1 && i < len(images)-2 && i%stride != 1%stride {
						continue
					}
					format, err := storedir.ReadFormat(dir)
					if err != nil {
						t.Fatal(err)
					}
					if last := i == len(images)-1; last != (format == formatVersion) {
						t.Errorf("step %d: format %d", i, format)
					} else if !last {
						if diff := cmp.Diff(before, oldContent(t, dir)); diff != "" {
							t.Errorf("step %d: the old store has changed: %s", i, diff)
						}
					}
					s := open(t, dir, o)
					compareGolden(t, s, want)
					shut(t, s)
					if names, err := format2.Names(dir); err != nil || len(names) > 0 {
						t.Errorf("step %d: %v are left, %v", i, names, err)
					}
				}
			})
		}
	}
}

// TestAConversionContinuesWhereItEnded counts the commits of a conversion that was interrupted, and
// of one during which the older program was used.
func TestAConversionContinuesWhereItEnded(t *testing.T) {
	t.Parallel()
	dir, want, o := oldStore(t, "format2", "closed")
	o.load = 1
	var images []string
	steps := 0
	o.step = func(at step) {
		if at == stepConvert {
			if steps++; steps == 20 {
				images = append(images, image(t, dir), image(t, dir))
			}
		}
	}
	shut(t, open(t, dir, o))
	all := steps
	o.step = func(at step) {
		if at == stepConvert {
			steps++
		}
	}
	steps = 0
	compareGolden(t, open(t, images[0], o), want)
	if steps > all-10 {
		t.Errorf("%d of %d steps: it began again", steps, all)
	}
	inOldStore(t, images[1], func(txn *badger.Txn) error {
		item, err := txn.Get(record.MetaKey)
		if err != nil {
			return err
		}
		value, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		m, err := record.DecodeMeta(value)
		if err != nil {
			return err
		}
		m.Boot++
		return txn.Set(record.MetaKey, m.Encode())
	})
	steps = 0
	compareGolden(t, open(t, images[1], o), want)
	if steps != all {
		t.Errorf("%d of %d steps after the older program was used", steps, all)
	}
}

// TestAConversionCountsWhatItCopied deletes a chunk, which no census counts, from what an
// interrupted conversion has copied.
func TestAConversionCountsWhatItCopied(t *testing.T) {
	t.Parallel()
	dir, _, o := oldStore(t, "format2-every-kind", "closed")
	o.load = 1
	var copied string
	steps := 0
	o.step = func(at step) {
		if at != stepConvert || copied != "" {
			return
		}
		if steps++; steps%8 != 0 { // a look at a copy takes long
			return
		}
		copied = image(t, dir)
		if !withoutChunk(t, copied) {
			copied = ""
		}
	}
	shut(t, open(t, dir, o))
	if copied == "" {
		t.Fatal("no chunk was copied")
	}
	o.step = nil
	if _, err := Open(copied, o); err == nil || !strings.Contains(err.Error(), "keys were copied") {
		t.Errorf("the conversion continues: %v", err)
	}
}

// withoutChunk deletes a chunk from a database, and reports whether there was one.
func withoutChunk(t *testing.T, dir string) (found bool) {
	t.Helper()
	if !kv.Exists(dir) {
		return false
	}
	d, err := kv.Open(dir, kv.Options{Logger: slog.New(slog.DiscardHandler), Fail: func(string, error) {}})
	if err != nil {
		return false // it is being created
	}
	var chunk []byte
	err = d.View(func(in *kv.View) error {
		for item := range in.Items(record.FamilyChunk) {
			chunk = item.KeyCopy()
		}
		return nil
	})
	if chunk != nil && err == nil {
		err = d.Commit(d.Newest()+1, []kv.Entry{{Key: chunk}})
	}
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return chunk != nil
}

// inOldStore writes to a store of an older format, as its program does.
func inOldStore(t *testing.T, dir string, change func(*badger.Txn) error) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithValueThreshold(256))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAConversionThatLosesSomethingIsRefused(t *testing.T) {
	t.Parallel()
	water := func(change func(file string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := change(filepath.Join(dir, "highwater")); err != nil {
				t.Fatal(err)
			}
		}
	}
	delete1 := func(family byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			inOldStore(t, dir, func(txn *badger.Txn) error {
				it := txn.NewIterator(badger.DefaultIteratorOptions)
				defer it.Close()
				it.Seek([]byte{family})
				return txn.Delete(it.Item().KeyCopy(nil))
			})
		}
	}
	for name, tc := range map[string]struct {
		want  string
		spoil func(t *testing.T, dir string)
	}{
		"no high water":    {"the last commit is missing", water(os.Remove)},
		"empty high water": {"the last commit is damaged", water(func(f string) error { return os.Truncate(f, 0) })},
		"flipped high water": {"the last commit is damaged", func(t *testing.T, dir string) {
			flip(t, filepath.Join(dir, "highwater"), 2)
		}},
		"later high water": {"was acknowledged", water(func(f string) error {
			b := binary.LittleEndian.AppendUint64(nil, 1<<20)
			sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
			return os.WriteFile(f, binary.LittleEndian.AppendUint32(b, sum), 0o600)
		})},
		"a missing event": {"are there", delete1(record.FamilyEvent)},
		"an older state":  {"newest state", delete1(record.FamilyState)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _, o := oldStore(t, "format2-every-kind", "closed")
			tc.spoil(t, dir)
			before := oldContent(t, dir)
			for range 2 {
				_, err := Open(dir, o)
				if err == nil || !strings.Contains(err.Error(), tc.want) ||
					!strings.Contains(err.Error(), "--accept-loss") {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(before, oldContent(t, dir)); diff != "" {
				t.Error(diff)
			}
			o.AcceptLoss = true
			s := open(t, dir, o)
			if d := mustClaim(t, s, claimOf("new"), dedup.New); d.Record.Seq < lostGap {
				t.Errorf("sequence %d may have been given out before", d.Record.Seq)
			}
			shut(t, s)
			o.AcceptLoss = false
			mustClaim(t, open(t, dir, o), claimOf("new"), dedup.Known)
		})
	}
}

func TestAConversionThatCannotBeginLeavesTheStore(t *testing.T) {
	t.Parallel()
	used := filepath.Join(t.TempDir(), "used")
	if err := os.WriteFile(used, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		want   string
		change func(o *Options)
	}{
		"space": {"free space, and there are 40 MiB; free some space", func(o *Options) {
			o.statfs = func(string) (int64, int64, error) { return 40 << 20, 100 << 20, nil }
			o.segment = 64 << 20
		}},
		"backup": {"name another file", func(o *Options) { o.backup = used }},
		"nowhere": {"name another file", func(o *Options) {
			o.backup = filepath.Join(filepath.Dir(used), "no", "directory")
		}},
		"clock": {"--accept-clock", func(o *Options) {
			o.Clock = goldenClock(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, want, o := oldStore(t, "format2", "crashed")
			before := oldContent(t, dir)
			refused := o
			tc.change(&refused)
			if _, err := Open(dir, refused); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatal(err)
			}
			if v, err := storedir.ReadFormat(dir); err != nil || v != 2 || name != "space" && kv.Exists(dir) {
				t.Errorf("format %d, and a new database is %v, %v", v, kv.Exists(dir), err)
			}
			if diff := cmp.Diff(before, oldContent(t, dir)); diff != "" {
				t.Error(diff)
			}
			compareGolden(t, open(t, dir, o), want)
		})
	}
	if text, err := os.ReadFile(used); err != nil || string(text) != "another file" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAStoreIsBackedUpBeforeItsConversion(t *testing.T) {
	t.Parallel()
	dir, want, o := oldStore(t, "format2", "crashed")
	identity, _, err := storedir.ReadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.backup = filepath.Join(t.TempDir(), "backup")
	s := open(t, dir, o)
	if s.identity == identity {
		t.Error("a backup of the converted store could continue one of the old store")
	}
	if info, err := os.Stat(o.backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	text, err := os.ReadFile(o.backup)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newBackupReader(bytes.NewReader(text))
	if err != nil || r.head.Format != 2 || r.head.Store != identity || r.head.Since != 0 {
		t.Errorf("%+v, %v", r.head, err)
	}
	restoresGolden(t, o, want)
}

// restoresGolden restores the backup that was made before a conversion.
func restoresGolden(t *testing.T, o Options, want golden) {
	t.Helper()
	restored := filepath.Join(t.TempDir(), "restored")
	text, err := os.ReadFile(o.backup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), restored, o, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, open(t, restored, o), want)
}

func TestAnEmptyStoreIsConverted(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{false, true} {
		dir, o := t.TempDir(), quiet()
		if err := storedir.WriteFormat(dir, 2); err != nil {
			t.Fatal(err)
		}
		if opened {
			inOldStore(t, dir, func(txn *badger.Txn) error {
				m := record.Meta{Boot: 1, Census: record.Census{Known: true}}
				filler := txn.Set([]byte{'z', 0, 0, 0, 1}, make([]byte, 100))
				return errors.Join(filler, txn.Set(record.MetaKey, m.Encode()))
			})
		}
		s := open(t, dir, o)
		mustClaim(t, s, claimOf("a"), dedup.New)
		if want := map[bool]uint64{true: 2, false: 1}[opened]; s.boot != want {
			t.Errorf("opened %v: boot %d, want %d", opened, s.boot, want)
		}
	}
}

// TestALostPartOfTheValueLogIsNotConverted damages the head of an entry in the newest value log of
// a crashed store. Badger ends the log there, without an error.
func TestALostPartOfTheValueLogIsNotConverted(t *testing.T) {
	t.Parallel()
	dir, _, o := oldStore(t, "format2", "crashed")
	newest := slices.Max(logs(t, dir, ".vlog"))
	flip(t, newest, 22)
	before := contents(t, dir)[filepath.Base(newest)]
	if _, err := Open(dir, o); err == nil || !strings.Contains(err.Error(), "start and stop the program") {
		t.Fatal(err)
	}
	if contents(t, dir)[filepath.Base(newest)] != before {
		t.Error("the value log has changed")
	}
	o.AcceptLoss = true
	s := open(t, dir, o)
	if r, err := s.Check(t.Context()); err != nil || len(r.Damaged) == 0 || r.Missing != "" {
		t.Errorf("%+v, %v", r, err)
	}
}
