package badgerstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// TestAStoreOfAnotherFormatIsRefused: an older and a newer one, closed or crashed. Nothing of it is
// changed, so the program that wrote it still opens it.
func TestAStoreOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	for _, format := range []int{1, formatVersion - 1, formatVersion + 1} {
		for _, crashed := range []bool{false, true} {
			s := filled(t, 3, smallClaim)
			dir := left(t, s, crashed)
			if err := storedir.WriteFormat(dir, format); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)
			_, opened := Open(dir, quiet())
			_, checked := Check(t.Context(), dir, quiet())
			backedUp := BackupDir(t.Context(), dir, quiet(), &strings.Builder{})
			for what, err := range map[string]error{"Open": opened, "Check": checked, "BackupDir": backedUp} {
				refusedFor(t, what, err, FormatError{Dir: dir, Format: format, Known: formatVersion})
			}
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("format %d, crashed %v: the store has changed: %s", format, crashed, diff)
			}
			if err := storedir.WriteFormat(dir, formatVersion); err != nil {
				t.Fatal(err)
			}
			mustClaim(t, open(t, dir, quiet()), smallClaim(2), dedup.Known)
		}
	}
}

// refusedFor checks an error about a format: it names both formats, and says what to do.
func refusedFor(t *testing.T, what string, err error, want FormatError) {
	t.Helper()
	var got *FormatError
	if !errors.As(err, &got) || *got != want {
		t.Fatalf("%s: %v, want %+v", what, err, want)
	}
	for _, part := range []string{
		fmt.Sprintf("has format %d,", want.Format), fmt.Sprintf("reads only format %d (", want.Known),
		"use the version that wrote it", "nothing was changed", want.Dir,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
}
