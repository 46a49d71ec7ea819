package badgerstore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

// goldenStore unpacks a golden store of format 1 and returns its directory, its content, and
// options to open it.
func goldenStore(t *testing.T, state string) (dir string, want golden, o Options) {
	t.Helper()
	want = readGolden(t, "format1")
	dir = t.TempDir()
	unpack(t, "testdata/format1.tar.gz", state, dir)
	o = quiet()
	o.Clock = goldenClock(want.Written)
	return dir, want, o
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

func TestAProgramOfAnOlderFormatLeavesANewerStoreAlone(t *testing.T) {
	t.Parallel()
	older := quiet()
	older.formats = formats{current: formatVersion - 1}
	for _, state := range []string{"closed", "crashed"} {
		s := filled(t, 3, smallClaim)
		dir := left(t, s, state == "crashed")
		before := contents(t, dir)
		_, err := Open(dir, older)
		formatIs(t, err, FormatError{Dir: dir, Format: formatVersion, Known: formatVersion - 1},
			"use the newer program")
		sameContents(t, state, before, contents(t, dir))
		again := open(t, dir, quiet())
		mustClaim(t, again, smallClaim(2), dedup.Known)
	}
}

// TestValuesOfVersion1AreRewritten changes every event that a program of format 1 wrote, so
// that both parts of each are in one value, and reads them again after a start.
func TestValuesOfVersion1AreRewritten(t *testing.T) {
	t.Parallel()
	dir, _, o := goldenStore(t, "closed")
	s := open(t, dir, o)
	ctx := t.Context()
	for _, r := range everything(t, s) {
		_, _ = s.RunNow(ctx, r.Event) // waiting ones
		_, _ = s.Reopen(ctx, r.Event) // dead ones
	}
	work, err := s.Take(ctx, dedup.Want{Tasks: 20, Bytes: 1 << 30, Lease: time.Minute})
	if err != nil || len(work) < 5 {
		t.Fatal(len(work), err)
	}
	for _, w := range work {
		if err := s.Finish(ctx, w.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
			t.Fatal(err)
		}
	}
	want := everything(t, s)
	shut(t, s)
	again := open(t, dir, o)
	if diff := cmp.Diff(want, everything(t, again), bodies); diff != "" {
		t.Error(diff)
	}
	if r, err := again.Check(ctx); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
}
