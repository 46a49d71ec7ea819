package series

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestTheRingsShareThePoints(t *testing.T) {
	t.Parallel()
	next := int64(0)
	for _, r := range rings {
		if r.first != next {
			t.Errorf("a ring begins at %d, want %d", r.first, next)
		}
		next += r.size
	}
	if next != allPoints {
		t.Errorf("the rings have %d points, the state %d", next, allPoints)
	}
}

func TestEachStepCountsWhatHappenedInIt(t *testing.T) {
	t.Parallel()
	s := &Series{}
	s.Deliver(noon, Accepted, time.Second)
	s.Deliver(noon.Add(59*time.Second), Repeated, 0)
	s.Deliver(noon.Add(time.Minute), Refused, 0)
	s.Run(noon.Add(16*time.Minute), false, time.Second)
	s.Run(noon.Add(61*time.Minute), true, time.Minute)
	now := noon.Add(61 * time.Minute)
	s.Sample(now, 3, noon)
	s.Sample(now.Add(time.Second), 2, time.Time{})
	type count struct{ n, accepted, repeated, refused, attempts, failed, waiting, oldest uint32 }
	want := map[Step][]count{
		Minute: {
			{0, 1, 1, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0, 0}, {16, 0, 0, 0, 1, 0, 0, 0}, {61, 0, 0, 0, 1, 1, 3, 3660},
		},
		Quarter:  {{0, 1, 1, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 1, 0, 0, 0}, {4, 0, 0, 0, 1, 1, 3, 3660}},
		Hour:     {{0, 1, 1, 1, 1, 0, 0, 0}, {1, 0, 0, 0, 1, 1, 3, 3660}},
		SixHours: {{0, 1, 1, 1, 2, 1, 3, 3660}},
	}
	for step := range steps {
		var got []count
		for _, p := range s.Last(step, step.Size(), now) {
			if p.Number != 0 {
				got = append(got, count{p.Number - number(step, noon), p.Accepted, p.Repeated, p.Refused,
					p.Attempts, p.Failed, p.Waiting, p.Oldest})
			}
		}
		if d := cmp.Diff(want[step], got, cmp.AllowUnexported(count{})); d != "" {
			t.Errorf("step %d: %s", step, d)
		}
	}
}

// TestPercentilesAreAboutExact compares them with those of all durations, also of the open step.
func TestPercentilesAreAboutExact(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() time.Duration{
		"uniform": func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) },
		"exponential": func() time.Duration {
			return time.Duration(random.ExpFloat64() * float64(20*time.Millisecond))
		},
		"two kinds": func() time.Duration {
			return []time.Duration{700 * time.Microsecond, 30 * time.Second}[random.IntN(2)*random.IntN(2)]
		},
	} {
		s, all := &Series{}, []time.Duration{}
		for range 5000 {
			d := draw()
			all = append(all, d)
			s.Deliver(noon, Accepted, d)
			s.Run(noon, false, 2*d)
		}
		slices.Sort(all)
		for range 2 {
			p := s.Last(Minute, 2, noon.Add(time.Minute))[0]
			for _, c := range []struct{ got, exact time.Duration }{
				{p.Accept.P50(), all[2499]}, {p.Accept.P95(), all[4749]},
				{p.Run.P50(), 2 * all[2499]}, {p.Run.P95(), 2 * all[4749]},
			} {
				if off := math.Abs(float64(c.got)/float64(c.exact) - 1); off > .07 {
					t.Errorf("%s: %v instead of %v", name, c.got, c.exact)
				}
			}
			s.Sample(noon.Add(time.Minute), 0, time.Time{}) // closes the step
		}
	}
}

func TestEveryDurationHasABucket(t *testing.T) {
	t.Parallel()
	for us := int64(16); us < 1<<32; us += 1 + us/50 {
		d := time.Duration(us) * time.Microsecond
		if off := math.Abs(float64(duration(bucket(d)))/float64(d) - 1); off > .0626 {
			t.Fatalf("%v is taken for %v", d, duration(bucket(d)))
		}
	}
	for _, d := range []time.Duration{-time.Hour, 0, 7 * time.Microsecond, math.MaxInt64} {
		var h histogram
		h.add(d)
		q, ok := h.quantiles()
		if want := min(max(0, d), 4160749568*time.Microsecond); !ok || q.P50() != want || q.P95() != want {
			t.Errorf("%v is taken for %v, %v", d, q.P50(), ok)
		}
	}
}

func TestAClockThatJumpsLeavesThePointsOfOtherTimes(t *testing.T) {
	t.Parallel()
	s := &Series{}
	for i := range 60 {
		s.Deliver(noon.Add(time.Duration(i)*time.Minute), Accepted, time.Second)
	}
	now := noon.Add(59 * time.Minute)
	s.Deliver(now.AddDate(1, 0, 0).Add(time.Minute), Refused, 0) // ahead by a year
	s.Deliver(time.Unix(-1, 0), Refused, 0)
	s.Sample(noon.Add(30*time.Minute), 1, now) // back by half an hour, and the oldest is ahead
	s.Deliver(now, Repeated, 0)
	for i, p := range s.Last(Minute, 60, now) {
		repeated, waiting := uint32(i/59), uint32(0)
		if i == 30 {
			waiting = 1
		}
		if p.Accepted != 1 || p.Refused != 0 || p.Repeated != repeated || p.Waiting != waiting || p.Oldest != 0 ||
			p.Accept.P50().Round(100*time.Millisecond) != time.Second {
			t.Errorf("minute %d: %+v", i, p)
		}
	}
	for i, p := range s.Last(Minute, 60, now.AddDate(1, 0, 0)) {
		if p.Number != 0 {
			t.Errorf("minute %d a year later: %+v", i, p)
		}
	}
}

func TestAPointOfADayBeforeIsForgotten(t *testing.T) {
	t.Parallel()
	s, next := &Series{}, noon.AddDate(0, 0, 1)
	s.Deliver(noon, Accepted, time.Minute)
	s.Deliver(noon, Refused, 0)
	s.Deliver(next, Accepted, time.Second)
	if p := s.Last(Minute, 1, next)[0]; p.Accepted != 1 || p.Refused != 0 || p.Accept.P95() > 2*time.Second {
		t.Errorf("the same minute a day later is %+v", p)
	}
}

func TestARestartContinuesTheStepAndLeavesAGap(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "series")
	before := &Series{}
	if err := before.Load(file); err != nil {
		t.Fatalf("without a file: %v", err)
	}
	for range 100 {
		before.Deliver(noon, Accepted, time.Minute)
	}
	if err := before.Save(file); err != nil {
		t.Fatal(err)
	}
	after := &Series{}
	if err := after.Load(file); err != nil {
		t.Fatal(err)
	}
	after.Deliver(noon.Add(time.Second), Accepted, time.Millisecond)
	now := noon.Add(72 * time.Hour)
	after.Sample(now, 0, time.Time{})
	got := after.Last(Hour, 720, now)
	ran := []int{}
	for i, p := range got {
		if p.Number != 0 {
			ran = append(ran, i)
		}
	}
	if !slices.Equal(ran, []int{719 - 72, 719}) {
		t.Errorf("it ran in the hours %v", ran)
	}
	if p := got[719-72]; p.Accepted != 101 || p.Accept.P50().Round(10*time.Second) != time.Minute {
		t.Errorf("the hour of the restart is %+v with a median of %v", p, p.Accept.P50())
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 200<<10 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v (%v)", info, err)
	}
}

func TestAFileThatIsDamagedIsNotLoaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "series")
	s := &Series{}
	s.Deliver(noon, Accepted, time.Minute)
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped, other := slices.Clone(whole), slices.Clone(whole)
	flipped[len(version)+1] ^= 1
	other[len(version)-2]++
	end := len(other) - crc32.Size
	binary.BigEndian.PutUint32(other[end:], crc32.ChecksumIEEE(other[:end]))
	for name, content := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-1], "longer": append(slices.Clone(whole), 0), "flipped": flipped,
		"of another version": other, "only its beginning": []byte(version), "text": []byte("{}"),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Series{}
		if err := s.Load(file); err == nil || s.state != (state{}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Series{}).Load(t.TempDir()); err == nil {
		t.Error("a folder is loaded")
	}
}

func TestManyObserversLoseNothing(t *testing.T) {
	t.Parallel()
	s, file := &Series{}, filepath.Join(t.TempDir(), "series")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 500 {
				at := noon.Add(time.Duration(i) * time.Second)
				s.Deliver(at, Outcome(i%3), time.Millisecond)
				s.Run(at, i%2 == 0, time.Millisecond)
			}
		})
	}
	group.Go(func() {
		for range 5 {
			s.Last(Minute, 60, noon)
			if err := s.Save(file); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	p := s.Last(Hour, 1, noon.Add(time.Minute))[0]
	if p.Accepted+p.Repeated+p.Refused != 4000 || p.Attempts != 4000 || p.Failed != 2000 {
		t.Errorf("the hour has %+v", p)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	s, at := &Series{}, noon
	if n := testing.AllocsPerRun(1000, func() {
		at = at.Add(time.Second)
		s.Deliver(at, Accepted, time.Millisecond)
		s.Run(at, true, time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDeliver(b *testing.B) {
	s := &Series{}
	for b.Loop() {
		s.Deliver(noon, Accepted, time.Millisecond)
	}
}
