package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// TestAFlippedBitAnywhereIsNoticed flips random bits in all files of a store, one at a time,
// after a crash and after a clean close, 4 each or 30 with EYELET_LONG; EYELET_FLIPS sets the
// number and EYELET_SEED the seed. A store with a flipped bit may be refused, and then its files
// are unchanged. One that is opened never accepts a known key as new and never returns another
// payload or state, unless it reports which value is damaged.
func TestAFlippedBitAnywhereIsNoticed(t *testing.T) {
	t.Parallel()
	flips, seed := faultdisk.Count(4, 30), rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("EYELET_FLIPS")); err == nil {
		flips = n
	}
	if n, err := strconv.ParseUint(os.Getenv("EYELET_SEED"), 10, 64); err == nil {
		seed = n
	}
	bothEnds(t, 800, func(t *testing.T, files, _ map[string]string) {
		s := open(t, copyDir(t, files), small())
		want := everything(t, s)
		shut(t, s)
		names := slices.Sorted(maps.Keys(files))
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Trim(files[name], "\x00") == "" })
		chance, found := rand.New(rand.NewPCG(seed, uint64(len(t.Name())))), map[string]int{}
		t.Logf("seed %d, %d files", seed, len(names))
		for range flips {
			name := names[chance.IntN(len(names))]
			text := []byte(files[name])
			end := len(bytes.TrimRight(text, "\x00"))
			at, bit := chance.IntN(end), chance.IntN(8)
			text[at] ^= 1 << bit
			damaged := maps.Clone(files)
			damaged[name] = string(text)
			found[opensDamagedOrNot(t, fmt.Sprintf("%s, bit %d of byte %d of %d", name, bit, at, end), damaged, want)]++
			if t.Failed() {
				t.FailNow()
			}
		}
		t.Logf("%v", found)
	})
}

// opensDamagedOrNot opens a store with a flipped bit and compares its answers with its content.
func opensDamagedOrNot(t *testing.T, what string, files map[string]string,
	want map[string]dedup.Record) (result string) {
	t.Helper()
	dir := copyDir(t, files)
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := Open(dir, small())
	if err != nil {
		sameContents(t, what, files, contents(t, dir))
		return "refused"
	}
	defer shut(t, s)
	bad := 0
	var broken *DamagedError
	for event, r := range want {
		c := dedup.Claim{Key: r.Key, OnlyKnown: true, Payload: dedup.Payload{Type: r.Payload.Type}}
		ds, err := s.Claim(t.Context(), c)
		switch {
		case errors.As(err, &broken):
			bad++
		case err != nil:
			t.Errorf("%s: claim: %v", what, err)
		case ds[0].Verdict == dedup.New && !r.Disposable(s.now()):
			t.Errorf("%s: key %s is new again", what, r.Key.ID)
		}
		now, err := s.Get(t.Context(), event)
		switch {
		case errors.As(err, &broken):
			bad++
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case !bytes.Equal(now.Payload.Body, r.Payload.Body):
			t.Errorf("%s: the payload of %s has changed", what, r.Key.ID)
		case now.State() != r.State():
			t.Errorf("%s: %s is %v, and was %v", what, r.Key.ID, now.State(), r.State())
		}
	}
	switch {
	case bad == 0:
		return "harmless"
	case s.Damaged() == 0:
		t.Errorf("%s: %d values are damaged, and nothing reports it", what, bad)
	}
	return "told"
}

// sameContents compares files without the zeros at their ends, with which Badger extends logs.
func sameContents(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, text := range before {
		if now, there := after[name]; !there {
			t.Errorf("%s: %s is gone", what, name)
		} else if strings.TrimRight(now, "\x00") != strings.TrimRight(text, "\x00") {
			t.Errorf("%s: %s has changed: %d bytes, were %d", what, name, len(now), len(text))
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			t.Errorf("%s: %s is new", what, name)
		}
	}
}
