package inspect

import (
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect/internal/series"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Point is one step of the time series of a receiver. Durations are in seconds, and within 7 % of
// the exact ones; they are missing if there was nothing to measure.
type Point struct {
	Time       time.Time `json:"time"` // when the step began
	Accepted   uint32    `json:"accepted"`
	Duplicates uint32    `json:"duplicates"` // also quarantined ones
	Refused    uint32    `json:"refused"`
	Attempts   uint32    `json:"attempts"` // of handlers
	Failed     uint32    `json:"failed"`   // of Attempts
	// AcceptP50 and AcceptP95 are the median and the 95th percentile of the time from the head of
	// an accepted delivery to its response, RunP50 and RunP95 those of attempts.
	AcceptP50 float64 `json:"accept_p50,omitempty"`
	AcceptP95 float64 `json:"accept_p95,omitempty"`
	RunP50    float64 `json:"run_p50,omitempty"`
	RunP95    float64 `json:"run_p95,omitempty"`
	// Waiting is the most tasks that waited, and Oldest the longest age of one in seconds: samples
	// of the store, every 20 seconds.
	Waiting uint32 `json:"waiting"`
	Oldest  uint32 `json:"oldest"`
}

// The rhythm of the time series: when the store is asked for waiting work, and after how many such
// samples the file is written.
const (
	sampleEvery = 20 * time.Second
	saveEvery   = 15
)

// countSeries counts a delivery or an attempt.
func (a *activity) countSeries(s *seen) {
	if s.Kind == receiver.KindAttempt {
		if s.Reason != dedup.ReasonStale { // it did not run
			a.series.Run(s.at, s.State != dedup.Done, s.Took)
		}
		return
	}
	switch s.verdict() {
	case accepted:
		a.series.Deliver(s.at, series.Accepted, s.Took)
	case duplicate, quarantined:
		a.series.Deliver(s.at, series.Repeated, 0)
	case refused:
		a.series.Deliver(s.at, series.Refused, 0)
	case handshake:
	}
}

// keepSeries samples the store and saves the series until the inspector is stopped.
func (p *Inspector) keepSeries() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		if st, err := p.o.Store.Stats(p.jobs.ctx); err == nil {
			p.activity.series.Sample(time.Now(), st.Pending, st.Oldest)
		}
		select {
		case <-tick.C:
		case <-p.jobs.ctx.Done():
			return
		}
		if n%saveEvery == 0 {
			p.saveSeries()
		}
	}
}

func (p *Inspector) loadSeries() {
	if p.o.SeriesFile == "" {
		return
	}
	if err := p.activity.series.Load(p.o.SeriesFile); err != nil {
		p.o.Log.Warn("the time series were not read and begin again", "error", err)
	}
}

func (p *Inspector) saveSeries() {
	if p.o.SeriesFile == "" {
		return
	}
	if err := p.activity.series.Save(p.o.SeriesFile); err != nil {
		p.o.Log.Warn("the time series were not saved", "error", err)
	}
}

// seriesSteps are the values of the parameter step.
var seriesSteps = map[string]series.Step{
	"": series.Minute, "1m": series.Minute, "15m": series.Quarter, "1h": series.Hour, "6h": series.SixHours,
}

func (p *Inspector) serveSeries(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("step")
	step, ok := seriesSteps[name]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("parameter \"step\": %q is not 1m, 15m, 1h or 6h", name))
		return
	}
	respond(w, p.points(step, step.Size()), nil)
}

// points returns the last steps in which the process ran, the oldest first.
func (p *Inspector) points(step series.Step, n int) []Point {
	points := []Point{}
	for _, one := range p.activity.series.Last(step, n, time.Now()) {
		if one.Number == 0 {
			continue
		}
		out := Point{
			Time: one.Start(step), Accepted: one.Accepted, Duplicates: one.Repeated, Refused: one.Refused,
			Attempts: one.Attempts, Failed: one.Failed, Waiting: one.Waiting, Oldest: one.Oldest,
		}
		if one.Accepted > 0 {
			out.AcceptP50, out.AcceptP95 = one.Accept.P50().Seconds(), one.Accept.P95().Seconds()
		}
		if one.Attempts > 0 {
			out.RunP50, out.RunP95 = one.Run.P50().Seconds(), one.Run.P95().Seconds()
		}
		points = append(points, out)
	}
	return points
}
