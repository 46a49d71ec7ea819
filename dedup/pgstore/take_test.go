package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestEveryLaneIsFound has more lanes than one Take sees, and all but one of them run.
func TestEveryLaneIsFound(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	const lanes = 2*maxLanes + 50
	left := map[string]bool{}
	accept := func(n int) {
		claims := make([]dedup.Claim, n)
		for i := range claims {
			id := fmt.Sprint("k", len(left))
			left[id], claims[i] = true, event(id, "ship")
			claims[i].Tasks[0].Lane = id
		}
		if _, err := stores[0].Claim(t.Context(), claims...); err != nil {
			t.Fatal(err)
		}
	}
	running := 0
	take := func(until int) {
		for running < until {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			works, err := stores[running%2].Take(ctx, dedup.Want{Tasks: 100, Bytes: 1 << 20, Lease: time.Hour})
			cancel()
			if err != nil {
				t.Fatalf("%d of %d tasks: %v", running, until, err)
			}
			for _, w := range works {
				if id := w.Record.Key.ID; !left[id] {
					t.Errorf("%s is taken twice", id)
				} else {
					left[id] = false
				}
				running++
			}
		}
	}
	accept(lanes)
	take(lanes)
	for range 5 { // wherever they are among the others
		accept(1)
		take(running + 1)
	}
}

// TestTheDatabaseRefusesTwoOfALane breaks the rule behind the back of the store.
func TestTheDatabaseRefusesTwoOfALane(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	s := stores[0]
	for i := range 2 {
		c := event(fmt.Sprint("k", i), "ship")
		c.Tasks[0].Lane = "l"
		claim(t, s, c, dedup.New)
	}
	takeOne(t, s)
	_, err := s.db.pool.Exec(t.Context(), s.db.sql("UPDATE {{schema}}.task SET state = 2"))
	if codeOf(err) != codeUnique || !raced(err) {
		t.Errorf("two tasks of a lane run: %v", err)
	}
}

func TestStatisticsAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	var c cached[int]
	reads := 0
	read := func(err error) func() (int, error) {
		return func() (int, error) { reads++; return reads, err }
	}
	for _, row := range []struct {
		age  time.Duration
		err  error
		want int
	}{
		{time.Hour, nil, 1}, {time.Hour, nil, 1}, {0, nil, 2}, {0, context.Canceled, 3}, {time.Hour, nil, 4},
		{0, errors.New("broken"), 5}, {time.Hour, nil, 5},
	} {
		if got, _ := c.get(row.age, read(row.err)); got != row.want {
			t.Errorf("%+v: read %d", row, got)
		}
	}
}
