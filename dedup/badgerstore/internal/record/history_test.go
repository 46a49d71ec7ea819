package record

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestAHistoryIsKept encodes what retries, reopening and lost attempts leave.
func TestAHistoryIsKept(t *testing.T) {
	t.Parallel()
	key := Place{}.Key()
	r := dedup.Record{Event: "e", Seq: 7, Accepted: goldenAt, Window: time.Hour, Generation: 1, Tasks: []dedup.Task{
		{Handler: "h", State: dedup.Pending, Due: goldenAt}, {Handler: "i", State: dedup.Pending, Due: goldenAt},
	}}
	now := goldenAt
	try := func(task int, res dedup.Result) {
		now = now.Add(time.Minute)
		l := r.Start(task, uint64(now.Unix()), now, time.Hour)
		now = now.Add(time.Second)
		if err := r.Finish(nil, l, res, now); err != nil {
			t.Fatal(err)
		}
		var back dedup.Record
		if _, err := DecodeState(key, EncodeState(nil, key, &r, Outline{}), &back); err != nil {
			t.Fatal(err)
		}
		back.Event = r.Event // which the state does not have
		if diff := cmp.Diff(r, back); diff != "" {
			t.Fatal(diff)
		}
	}
	failed := dedup.Result{Kind: dedup.ResultRetry, Reason: "failed", Err: strings.Repeat("long ", 200)}
	try(0, failed)
	before := len(EncodeState(nil, key, &r, Outline{}))
	for n := range 20 {
		failed.Err = []string{"refused", "refused", "timeout"}[n%3]
		try(0, failed)
		try(1, dedup.Result{Kind: dedup.ResultRelease})
	}
	try(0, dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted", Err: "refused"})
	if err := r.Reopen(nil, now); err != nil {
		t.Fatal(err)
	}
	try(0, failed)
	try(0, dedup.Result{Kind: dedup.ResultDone})
	try(1, dedup.Result{Kind: dedup.ResultDone})
	if n := len(r.Tasks[0].History); n != dedup.HistoryFirst+dedup.HistoryLast || r.Tasks[1].History != nil {
		t.Errorf("%d attempts", n)
	}
	if n := len(EncodeState(nil, key, &r, Outline{})) - before; n > 15*30 {
		t.Errorf("15 attempts with short errors take %d bytes", n)
	}
}
