package badgerstore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// TestFormats4To6AreConvertedWithoutRewriting: the backup is made first, whatever interrupts it,
// and the format is the last step. Until then the older program opens the store.
func TestFormats4To6AreConvertedWithoutRewriting(t *testing.T) {
	t.Parallel()
	for format := rowFormat; format < formatVersion; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			convertsWithoutRewriting(t, format)
		})
	}
}

func convertsWithoutRewriting(t *testing.T, format int) {
	t.Helper()
	for _, state := range []string{"closed", "crashed"} {
		dir, want, o := oldStore(t, fmt.Sprintf("format%d-every-kind", format), state)
		backup := filepath.Join(t.TempDir(), "backup")
		var images []string
		stopping := o
		stopping.step = func(at step) {
			if at == stepConvert {
				images = append(images, image(t, dir))
			}
		}
		if from, err := Convert(dir, stopping, backup); from != format || err != nil {
			t.Fatal(from, err)
		}
		if have, err := storedir.ReadFormat(dir); have != formatVersion || err != nil {
			t.Errorf("format %d, %v", have, err)
		}
		if len(images) == 0 {
			t.Error("no steps")
		}
		for i, dir := range images {
			if have, err := storedir.ReadFormat(dir); have != format || err != nil {
				t.Errorf("step %d: format %d, %v", i, have, err)
			}
			s := open(t, dir, o)
			compareGolden(t, s, want)
			shut(t, s)
		}
		f, err := os.Open(backup)
		if err != nil {
			t.Fatal(err)
		}
		restored := filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(t.Context(), restored, o, f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{dir, restored} {
			if from, err := Convert(dir, o, backup); from != formatVersion || err != nil {
				t.Errorf("again: %d, %v", from, err)
			}
			s := open(t, dir, o)
			compareGolden(t, s, want)
			shut(t, s)
		}
	}
}

// TestATaskOfFormat4GetsAHistory: what is known of its attempts is the last one, with its number.
func TestATaskOfFormat4GetsAHistory(t *testing.T) {
	t.Parallel()
	dir, _, o := oldStore(t, "format4-every-kind", "closed")
	s := open(t, dir, o)
	var dead dedup.Record
	for _, r := range everything(t, s) {
		if r.Key.ID == "4 dead" {
			dead = r
		}
	}
	last := dead.Tasks[0].Attempts()
	if len(dead.Tasks[0].History) != 0 || len(last) != 1 || last[0].Number != 2 || last[0].Err != "the last error" {
		t.Errorf("attempts %+v", last)
	}
	if _, err := s.Reopen(t.Context(), dead.Event); err != nil {
		t.Fatal(err)
	}
	for {
		work, err := s.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1 << 30, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		res := dedup.Result{Kind: dedup.ResultRetry, After: time.Hour, Err: "again"}
		if err := s.Finish(t.Context(), work[0].Lease, res); err != nil {
			t.Fatal(err)
		}
		if work[0].Record.Event == dead.Event {
			break
		}
	}
	shut(t, s)
	s = open(t, dir, o)
	r, err := s.Get(t.Context(), dead.Event)
	h := r.Tasks[0].History
	if err != nil || len(h) != 2 || h[0] != last[0] || h[1].Err != "again" || h[1].Number != 3 {
		t.Errorf("history %+v, %v", h, err)
	}
}
