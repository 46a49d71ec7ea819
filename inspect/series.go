package inspect

import (
	"context"
	"fmt"
	"log/slog"
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

// history has the time series of a receiver.
type history struct {
	series series.Series
	store  dedup.Store
	file   string // "" keeps nothing across a restart
	log    *slog.Logger
}

// count counts a delivery or an attempt.
func (h *history) count(s *seen) {
	if s.Kind == receiver.KindAttempt {
		if s.Reason != dedup.ReasonStale { // it did not run
			h.series.Run(s.at, s.State != dedup.Done, s.Took)
		}
		return
	}
	switch s.verdict() {
	case accepted:
		h.series.Deliver(s.at, series.Accepted, s.Took)
	case duplicate, quarantined:
		h.series.Deliver(s.at, series.Repeated, 0)
	case refused:
		h.series.Deliver(s.at, series.Refused, 0)
	case handshake:
	}
}

// keep samples the store and saves the series until ctx ends.
func (h *history) keep(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		if st, err := h.store.Stats(ctx); err == nil {
			h.series.Sample(time.Now(), st.Pending, st.Oldest)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if n%saveEvery == 0 {
			h.save()
		}
	}
}

func (h *history) load() {
	if h.file == "" {
		return
	}
	if err := h.series.Load(h.file); err != nil {
		h.log.Warn("the time series were not read and begin again", "error", err)
	}
}

func (h *history) save() {
	if h.file == "" {
		return
	}
	if err := h.series.Save(h.file); err != nil {
		h.log.Warn("the time series were not saved", "error", err)
	}
}

// seriesSteps are the values of the parameter step.
var seriesSteps = map[string]series.Step{
	"": series.Minute, "1m": series.Minute, "15m": series.Quarter, "1h": series.Hour, "6h": series.SixHours,
}

// ServeHTTP serves the series as JSON.
func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("step")
	step, ok := seriesSteps[name]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("parameter \"step\": %q is not 1m, 15m, 1h or 6h", name))
		return
	}
	respond(w, pointsOf(step, h.series.Last(step, step.Size(), time.Now())), nil)
}

// pointsOf returns the steps in which the process ran.
func pointsOf(step series.Step, all []series.Point) []Point {
	points := []Point{}
	for i := range all {
		one := &all[i]
		if one.Number == 0 {
			continue
		}
		points = append(points, Point{
			Time: one.Start(step), Accepted: one.Accepted, Duplicates: one.Repeated, Refused: one.Refused,
			Attempts: one.Attempts, Failed: one.Failed, Waiting: one.Waiting, Oldest: one.Oldest,
			AcceptP50: one.Accept.P50().Seconds(), AcceptP95: one.Accept.P95().Seconds(),
			RunP50: one.Run.P50().Seconds(), RunP95: one.Run.P95().Seconds(),
		})
	}
	return points
}
