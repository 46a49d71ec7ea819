package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// short is a run that takes a second or less for each receiver. It mounts a file system only with
// EYELET_LONG.
func short(t *testing.T, only string) settings {
	s := settings{rounds: 1, body: 512, time: 100 * time.Millisecond, dir: t.TempDir(), only: only, output: "json"}
	if s.shared = os.Getenv("EYELET_LONG") == ""; !s.shared {
		s.time *= 2
	}
	return s
}

// TestEveryReceiverHandlesEveryEvent has no programs but ours without EYELET_LONG.
func TestEveryReceiverHandlesEveryEvent(t *testing.T) {
	t.Setenv("GOPROXY", "off") // tests use no network
	var out bytes.Buffer
	only := "new-64,duplicates,forward"
	if os.Getenv("EYELET_LONG") != "" {
		only += ",claim,rfc9421,fixed-rate,verify"
	} else {
		only += ",bare,eyelet"
	}
	s := short(t, only)
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
				if seen[name] = true; m.Name == verifyWorkload {
					continue
				}
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
	rounds[0]["old"], rounds[1]["old"] = figures{PerSecond: 100, CPU: 60}, figures{PerSecond: 50, CPU: 120}
	if rows := r.GoalRows(); len(rows) != 5 || rows[3][1] != "2.00" || rows[4][1] != "0.50" {
		t.Errorf("rows against another binary: %q", rows)
	}
	if m := medianOf(rounds, "eyelet"); m.PerSecond != 150 || m.CPU != 60 {
		t.Errorf("medians of Eyelet: %+v", m)
	}
	if f := (figures{PerSecond: 12345.6, P50: 0.00123456}).rounded(); f.PerSecond != 12350 ||
		f.P50 != 0.001235 || f.CPU != 0 {
		t.Errorf("rounded: %+v", f)
	}
}

func TestARoundEndsWhenEveryEventIsHandled(t *testing.T) {
	t.Parallel()
	var handled atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# HELP a b\na{x=\"1 2\"} %d\na{x=\"2\"} 1\n", handled.Add(1))
	}))
	defer server.Close()
	r := running{metrics: server.URL, handled: func(m metrics) float64 { return m["a"] }}
	if err := r.wait(t.Context(), 5); err != nil || handled.Load() != 4 {
		t.Errorf("waited for 5 events until %d+1 were handled: %v", handled.Load(), err)
	}
}

// TestAtAFixedRateDeliveriesAreDueInTime sends deliveries to a server that needs 20 times as long
// as the interval between them.
func TestAtAFixedRateDeliveriesAreDueInTime(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	p := plan{
		workload: workload{clients: 2, signature: "github"}, address: server.Listener.Addr().String(),
		length: 40 * time.Millisecond, size: 256, rate: 1000,
	}
	senders, err := p.senders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.run(t.Context(), senders)
	if err != nil {
		t.Fatal(err)
	}
	// Each client sends its 20 or 21 deliveries one after the other.
	if n := len(a.took); n != 41 || a.fresh != 41 || a.took[n-1] < 300*time.Millisecond {
		t.Errorf("%d deliveries, %d new, the slowest in %v; want 41, all new, and 0.36 s", n, a.fresh, a.took[n-1])
	}
	status.Store(http.StatusServiceUnavailable)
	if _, err := p.run(t.Context(), senders); err == nil {
		t.Error("refusals do not end the load")
	}
}

func TestMissingProgramsAreReportedAndSkipped(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := short(t, "")
	s.eyelet = os.Args[0] // is not started
	b, err := newBench(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer b.disk.close()
	if s.only = "claim,bear"; s.run(t.Context(), io.Discard, io.Discard) == nil {
		t.Error("-only accepts an unknown name")
	}
	notes := strings.Join(b.results.Notes, "\n")
	for _, want := range []string{"file system", "redis-server is not installed", "adnanh/webhook is skipped"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note contains %q:\n%s", want, notes)
		}
	}
	for name, want := range map[string]bool{"bare": true, "hand": false, "hand+worker": false, "webhook": false} {
		if got := b.wants(workloads[0], name); got != want {
			t.Errorf("%s is measured: %v, want %v", name, got, want)
		}
	}
}

// TestTheDocumentIsThatOfItsResults keeps docs/performance.md free of changes by hand.
func TestTheDocumentIsThatOfItsResults(t *testing.T) {
	t.Parallel()
	const docs = "../docs/performance"
	r, err := readResults(docs + ".json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeDocs(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{".json", ".md", ".svg"} {
		want, err := os.ReadFile(docs + ending)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "performance"+ending))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s%s differs: go run -C bench . -from docs/performance.json -docs docs", docs, ending)
		}
	}
}

func TestGrowthIsThatBetweenTheSecondAndTheLastQuarter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		samples []float64
		slack   float64
		flat    bool
	}{
		{[]float64{1, 5, 10, 10, 11, 9, 10, 11}, 0, true}, // the first quarter fills the window
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, 0, false},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, 4, true},
		{[]float64{9, 8, 7, 7, 4, 4, 4, 4}, 0, true},
		{[]float64{0, 0, 0, 0, 9, 5, 5, 5, 0, 0, 0, 0, 5, 9, 5, 9}, 0, true}, // half is during sweeps
		{[]float64{0, 0, 0, 0, 9, 5, 5, 5, 0, 0, 0, 0, 6, 9, 6, 6}, 0, false},
	} {
		if g := growthOf("x", c.samples, c.slack); g.Flat != c.flat {
			t.Errorf("%v: %+v, want flat %v", c.samples, g, c.flat)
		}
	}
}

func TestASoakSamplesEverySize(t *testing.T) {
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("set EYELET_LONG=1 to run it")
	}
	t.Setenv("GOPROXY", "off") // tests use no network
	s := short(t, "")
	s.soak = 5 * time.Second
	var out bytes.Buffer
	// So short a soak only grows. Its report is complete all the same.
	if err := s.run(t.Context(), &out, testWriter{t}); err != nil && !strings.Contains(err.Error(), "grew by") {
		t.Fatal(err)
	}
	var all []growth
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for i, g := range all {
		if g.Title != soaked[i].title || g.Early <= 0 || g.Late <= 0 {
			t.Errorf("%+v", g)
		}
	}
	if len(all) != len(soaked) {
		t.Errorf("%d sizes, want %d", len(all), len(soaked))
	}
}

func TestRefusedDeliveriesAreMeasured(t *testing.T) {
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("set EYELET_LONG=1 to run it")
	}
	t.Setenv("GOPROXY", "off") // tests use no network
	b, err := newBench(t.Context(), short(t, ""), testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	defer b.disk.close()
	for _, keep := range []string{"memory", "off"} {
		if cost, err := b.refusedRound(t.Context(), keep); err != nil || cost <= 0 {
			t.Errorf("%s: %f us, %v", keep, cost, err)
		}
	}
}
