package taskqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkLane schedules tasks of one lane in random order, as a starting store finds them,
// reschedules every tenth, and removes them from the middle and the front. The time per task must
// not grow with the lane.
func BenchmarkLane(b *testing.B) {
	for _, lane := range []string{"l", "~l"} {
		for _, n := range []int{1_000, 30_000, 100_000} {
			b.Run(fmt.Sprint(lane, " of ", n), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					q, order := New[string](), r.Perm(n)
					put := func(i, due int) {
						it := item(fmt.Sprint(i), uint64(i), lane, due)
						it.Yields = lane == "~l"
						q.Schedule(it)
					}
					for _, i := range order {
						put(i, i)
					}
					for _, i := range order[:n/10] {
						put(i, n+i)
					}
					for _, i := range order[:n/2] {
						q.Remove(uint64(i), 0)
					}
					for range order[n/2:] {
						for _, it := range q.Take(at(2*n), Want{Tasks: 1, Bytes: 100}, at(3*n)) {
							q.Remove(it.Seq, it.Task)
						}
					}
					if open, running := q.Len(); open+running != 0 {
						b.Fatalf("%d tasks are left, %d running", open, running)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
			})
		}
	}
}
