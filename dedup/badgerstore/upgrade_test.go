package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
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

// contents returns every file of a directory except the lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name := range files(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, syscall.EISDIR) {
			b, err = []byte("directory"), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
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

// TestAnUpgradeMayEndAnywhere ends the process around the step from format 1: one of the
// programs opens what is left, and nothing is lost.
func TestAnUpgradeMayEndAnywhere(t *testing.T) {
	t.Parallel()
	ends := errors.New("the process ended")
	for _, state := range []string{"closed", "crashed"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			dir, want, o := goldenStore(t, state)
			before := contents(t, dir)
			stopped := o
			stopped.formats = formats{current: formatVersion,
				steps: map[int]func(string) error{1: func(dir string) error {
					return errors.Join(ownFormats().steps[1](dir), ends)
				}}}
			if _, err := Open(dir, stopped); !errors.Is(err, ends) {
				t.Fatal(err)
			}
			sameContents(t, "before the format is written", before, contents(t, dir))
			if v, err := storedir.ReadFormat(dir); err != nil || v != 1 {
				t.Fatalf("format %d, %v", v, err)
			}
			if err := storedir.WriteFormat(dir, formatVersion); err != nil { // the process ends right after that
				t.Fatal(err)
			}
			older := o
			older.formats = formats{current: 1}
			_, err := Open(dir, older)
			formatIs(t, err, FormatError{Dir: dir, Format: formatVersion, Known: 1}, "use the newer program")
			compareGolden(t, open(t, dir, o), want)
		})
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
	work, err := s.Take(ctx, 20, 1<<30, time.Minute)
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
	if diff := cmp.Diff(want, everything(t, again)); diff != "" {
		t.Error(diff)
	}
	if r, err := again.Check(ctx); err != nil || !r.Sound() {
		t.Errorf("%+v, %v", r, err)
	}
}
