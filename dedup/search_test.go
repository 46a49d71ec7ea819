package dedup_test

import (
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// records yields records with falling Seq, each after a pause.
func records(pause time.Duration) func(dedup.Filter) iter.Seq2[dedup.Record, error] {
	return func(f dedup.Filter) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) {
			for n := range f.Limit {
				time.Sleep(pause)
				if !yield(dedup.Record{Seq: uint64(1_000_000 - n)}, nil) {
					return
				}
			}
		}
	}
}

func TestASearchIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pause time.Duration
		want  int
	}{{"by its records", 0, dedup.MaxSearched}, {"by its time", 300 * time.Millisecond, 7}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got dedup.Searched
				for range (dedup.Filter{Text: "x", Searched: &got}).Search(records(tt.pause)) {
					t.Error("an empty record contains x")
				}
				if want := uint64(1_000_001 - tt.want); got.Records != tt.want || got.Before != want {
					t.Errorf("looked at %d records, to before %d; want %d, %d", got.Records, got.Before, tt.want, want)
				}
			})
		})
	}
}

func TestASearchPassesErrorsOn(t *testing.T) {
	t.Parallel()
	gone := errors.New("disk gone")
	var last error
	f := dedup.Filter{Text: "x"}
	for _, last = range f.Search(func(dedup.Filter) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) { yield(dedup.Record{}, gone) }
	}) {
	}
	if !errors.Is(last, gone) {
		t.Errorf("error is %v", last)
	}
}
