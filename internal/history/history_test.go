package history_test

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/history"
)

func TestAHistoryInWhichAKeyIsNewTwiceIsNotLinearizable(t *testing.T) {
	t.Parallel()
	claim := func(id, began, ended int64, v dedup.Verdict) history.Operation {
		return history.Operation{
			ID: id, Client: int(id), Call: history.Call{Key: "k", Claim: true, Print: 1},
			Effect: history.Effect{Verdict: v}, Began: began, Ended: ended,
		}
	}
	for _, tc := range []struct {
		name   string
		second history.Operation
		good   bool
	}{
		{"known after new", claim(2, 3, 4, dedup.Known), true},
		{"new twice", claim(2, 3, 4, dedup.New), false},
		{"known before new", claim(2, -2, -1, dedup.Known), false},
		{"known beside new", claim(2, 0, 4, dedup.Known), true},
	} {
		err := history.CheckLinearizable([]history.Operation{claim(1, 1, 2, dedup.New), tc.second})
		if (err == nil) != tc.good || err != nil && !strings.Contains(err.Error(), "key k") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
