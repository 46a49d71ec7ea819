package badgerstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestLanesKeepTheirOrderOverARestartThatInterrupts closes the store while the heads of two lanes
// run. After the next start each lane continues in accepted order, the interrupted task first.
func TestLanesKeepTheirOrderOverARestartThatInterrupts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quiet()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		_, err := s.Claim(t.Context(), dedup.Claim{
			Key:   dedup.Key{Principal: "p", Endpoint: "e", ID: fmt.Sprint(i)},
			Tasks: []dedup.NewTask{{Handler: "h", Lane: fmt.Sprint(i % 2)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	heads, err := s.Take(t.Context(), dedup.Want{Tasks: 10, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil || len(heads) != 2 {
		t.Fatalf("%d heads, %v", len(heads), err)
	}
	shut(t, s)
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var got []string
	for len(got) < 6 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		work, err := s.Take(ctx, dedup.Want{Tasks: 10, Bytes: 1 << 20, Lease: time.Minute})
		cancel()
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		for _, w := range work {
			got = append(got, w.Record.Key.ID)
			if err := s.Finish(t.Context(), w.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := map[byte]byte{}
	for _, id := range got {
		lane := (id[0] - '0') % 2
		if id[0] <= last[lane] {
			t.Fatalf("order %v", got)
		}
		last[lane] = id[0]
	}
}
