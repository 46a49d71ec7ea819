package badgerstore

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// TestADamagedByteOfTheValueLogDamagesOneValue flips a byte of an entry in the middle of the
// newest value log. Badger alone would drop everything after it.
func TestADamagedByteOfTheValueLogDamagesOneValue(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		dir := left(t, filled(t, 20, mediumClaim), crashed)
		file := slices.Max(logs(t, dir, ".vlog"))
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entries, _ := badgerfile.LogEntries(data, record.ChunkKeySize)
		if len(entries) != 20 {
			t.Fatalf("%d entries", len(entries))
		}
		flip(t, file, int64(entries[7].At+entries[7].Size-300)) // in the value
		again := open(t, dir, quiet())
		bad := 0
		for i := range 20 {
			ds, err := again.Claim(context.Background(), mediumClaim(i))
			switch {
			case err != nil:
				bad++
				damagedIs(t, err, "Claim")
			case ds[0].Verdict != dedup.Known:
				t.Errorf("crashed %v: event %d is %v", crashed, i, ds[0].Verdict)
			}
		}
		if bad != 1 {
			t.Errorf("crashed %v: %d values are damaged, one byte was", crashed, bad)
		}
	}
}

func TestADamagedLengthInTheValueLogIsRefused(t *testing.T) {
	t.Parallel()
	s := filled(t, 10, mediumClaim)
	shut(t, s)
	file := slices.Max(logs(t, s.dir, ".vlog"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := badgerfile.LogEntries(data, record.ChunkKeySize)
	flip(t, file, int64(entries[3].At+2)) // the length of its key
	before := files(t, s.dir)
	if again, err := Open(s.dir, quiet()); err == nil {
		t.Fatal("it was opened", again.Close())
	} else if !strings.Contains(err.Error(), "--accept-loss") {
		t.Error(err)
	}
	if after := files(t, s.dir); before[strings.TrimPrefix(file, s.dir+"/")] != after[strings.TrimPrefix(file,
		s.dir+"/")] {
		t.Error("the refused start cut the log")
	}
	o := quiet()
	o.AcceptLoss = true
	again := open(t, s.dir, o)
	for i := range 10 {
		ds, err := again.Claim(context.Background(), mediumClaim(i))
		if err == nil && (i >= 3 || ds[0].Verdict != dedup.Known) {
			t.Errorf("event %d: %v", i, ds[0].Verdict)
		}
	}
}

// TestATornEndOfTheValueLogIsNotDamage is the result of a power cut: the last commit is partly
// there.
func TestATornEndOfTheValueLogIsNotDamage(t *testing.T) {
	t.Parallel()
	s := filled(t, 5, mediumClaim)
	file := slices.Max(logs(t, s.dir, ".vlog"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, end := badgerfile.LogEntries(data, record.ChunkKeySize)
	last := entries[len(entries)-1]
	for name, torn := range map[string][]byte{
		"cut":     append(bytes.Clone(data[:last.At+500]), make([]byte, 5000)...),
		"no head": append(append(bytes.Clone(data[:last.At]), make([]byte, 40)...), data[last.At+40:end]...),
		"a hole":  append(append(bytes.Clone(data[:last.At+200]), make([]byte, 100)...), data[last.At+300:end+4096]...),
	} {
		dir := copyStore(t, s.dir)
		name2 := dir + strings.TrimPrefix(file, s.dir)
		if err := os.WriteFile(name2, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := badgerfile.RepairValueLog(dir, record.ChunkKeySize); err != nil || n != 0 {
			t.Errorf("%s: %d damaged entries, %v", name, n, err)
		}
		if got, _ := os.ReadFile(name2); !bytes.Equal(got, torn) {
			t.Errorf("%s: the log was changed", name)
		}
	}
}

// TestATornCollectionIsNotDamage is a possible result of a power cut during a collection whose
// first batch starts a value log: its first page was not written, later ones were. The values
// are still in the collected log.
func TestATornCollectionIsNotDamage(t *testing.T) {
	t.Parallel()
	s := filled(t, 8, mediumClaim)
	dir := copyStore(t, s.dir)
	file := slices.Max(logs(t, dir, ".vlog"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, end := badgerfile.LogEntries(data, record.ChunkKeySize)
	torn := append(make([]byte, entries[0].At), data[entries[0].At:end]...)
	clear(torn[:4096])
	write(t, dir, "000099.vlog", string(torn)+strings.Repeat("\x00", 4096))
	if n, err := badgerfile.RepairValueLog(dir, record.ChunkKeySize); err != nil || n != 0 {
		t.Fatalf("%d damaged entries, %v", n, err)
	}
	again := open(t, dir, quiet())
	for i := range 8 {
		mustClaim(t, again, mediumClaim(i), dedup.Known)
	}
}
