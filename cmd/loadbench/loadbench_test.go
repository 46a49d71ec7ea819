package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"testing"
	"time"
)

// TestMain serves a receiver in the processes that the benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		main()
		return
	}
	os.Exit(m.Run())
}

// short is a run that takes a second or less for each receiver.
func short(t *testing.T, only string) settings {
	return settings{rounds: 1, body: 512, time: 200 * time.Millisecond, dir: t.TempDir(), only: only, output: "json"}
}

func TestEveryReceiverHandlesEveryEvent(t *testing.T) {
	t.Setenv("GOPROXY", "off") // tests use no network
	var out bytes.Buffer
	s := short(t, "new-64,duplicates,claim,forward,rfc9421,fixed-rate")
	if err := s.run(t.Context(), &out, testWriter{t}); err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range r.Workloads {
		for _, round := range m.Rounds {
			for name, f := range round {
				seen[name] = true
				repeated := f.Deliveries > f.Events
				if f.Events < 1 || f.PerSecond <= 0 || f.P50 <= 0 || f.P99 < f.P50 ||
					repeated != (m.Name == "duplicates") {
					t.Errorf("%s: %s: %+v", m.Name, name, f)
				}
			}
		}
	}
	if !seen["bare"] || !seen["eyelet"] {
		t.Errorf("measured %v, want bare and eyelet at least; %v", seen, r.Notes)
	}
	if err := r.print(io.Discard); err != nil {
		t.Error(err)
	}
}

// testWriter writes lines to the log of a test.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(line))
	return len(line), nil
}

func TestTheSpreadIsMedianAndExtremes(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4}},
		{[]float64{nan, 5, math.Inf(1)}, spread{5, 5, 5}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
	if got := spreadOf(nil); !math.IsNaN(got.Median) {
		t.Errorf("no values: %v, want NaN", got)
	}
}

func TestGoalsAreMediansOfTheRatiosOfOneRound(t *testing.T) {
	t.Parallel()
	// The machine is half as fast in the second round, and the medians of the sides would give 1.5.
	rounds := []map[string]figures{
		{
			"eyelet": {PerSecond: 200, CPU: 30}, "bare": {CPU: 10},
			"hand": {PerSecond: 100}, "hand+worker": {PerSecond: 50},
		},
		{
			"eyelet": {PerSecond: 100, CPU: 60}, "bare": {CPU: 20},
			"hand": {PerSecond: 50}, "hand+worker": {PerSecond: 20},
		},
		{
			"eyelet": {PerSecond: 150, CPU: 90}, "bare": {CPU: 10},
			"hand": {PerSecond: 50}, "hand+worker": {PerSecond: 100},
		},
	}
	r := &results{Workloads: []measured{{Name: "new-64", Rounds: rounds}}}
	if got, want := goals[0].of(r), (spread{2, 1.5, 2}); got != want {
		t.Errorf("%s: %v, want %v", goals[0].title, got, want)
	}
	if got, want := goals[3].of(r), (spread{3, 3, 9}); got != want {
		t.Errorf("%s: %v, want %v", goals[3].title, got, want)
	}
	if got := goals[1].of(r); !math.IsNaN(got.Median) {
		t.Errorf("%s was not measured: %v, want NaN", goals[1].title, got)
	}
	if m := medianOf(rounds, "eyelet"); m.PerSecond != 150 || m.CPU != 60 {
		t.Errorf("medians of Eyelet: %+v", m)
	}
	if f := (figures{PerSecond: 12345.6, P50: 0.00123456}).rounded(); f.PerSecond != 12350 ||
		f.P50 != 0.001235 || f.CPU != 0 {
		t.Errorf("rounded: %+v", f)
	}
}
