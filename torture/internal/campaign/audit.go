package campaign

import (
	"cmp"
	"slices"
	"time"
)

// FleetTally holds the counts of several receivers that share a store.
type FleetTally struct {
	Receivers int            `json:"receivers"`
	Faults    map[string]int `json:"faults"`
	Effects   string         `json:"effects"`
	// Refused counts the results of receivers that had lost the lease, and Stale those that the
	// store accepted all the same.
	Refused int `json:"stale_refused"`
	Stale   int `json:"stale_accepted"`
	// Takeovers are the times from the kill or the pause of a receiver to the next start of a
	// handler that it was running. Late counts those of more than the lease and 10 s.
	Takeovers Times `json:"takeovers"`
	Late      int   `json:"taken_over_late"`
	// Recoveries are the times from the return of the database until every receiver accepts
	// deliveries. Stuck counts those of more than a minute.
	Recoveries Times `json:"recoveries"`
	Stuck      int   `json:"recovered_late"`
}

func (f *FleetTally) broken() bool {
	return f.Stale+f.Late+f.Stuck > 0
}

// Times are durations in milliseconds.
type Times struct {
	Count  int     `json:"count"`
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
}

func timesOf(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	slices.Sort(all)
	at := func(per1000 int) float64 {
		return float64(all[(len(all)-1)*per1000/1000].Microseconds()) / 1000
	}
	return Times{Count: len(all), Median: at(500), P99: at(990), Max: at(1000)}
}

const (
	latestTakeover = 10 * time.Second // after the end of the lease
	latestRecovery = time.Minute
)

// span is a time in which not every receiver had the database.
type span struct{ from, to time.Time }

// audit reads the log of several receivers.
type audit struct {
	o     *oracle
	tally *Tally
	fleet *FleetTally
	lease time.Duration
	// interrupted are the times at which a process was killed or paused, in order.
	interrupted map[int][]time.Time
	outages     []span

	tasks     map[task]*taskRuns
	lanes     map[string]string // the event of a lane that runs
	ends      map[string]int    // of events in lanes: the place of the end of the last attempt
	takeovers []time.Duration
}

// taskRuns is the runs of a task so far.
type taskRuns struct {
	attempt, pid   int // of the last start
	started, ended time.Time
	accepted       int // the attempt whose outcome was accepted and final
}

func (j *audit) read(r run) {
	key := task{r.event, r.handler}
	k := j.tasks[key]
	if k == nil {
		k = &taskRuns{}
		j.tasks[key] = k
	}
	switch r.kind {
	case kindStart:
		j.start(r, k)
	case kindEnd:
		if r.attempt == k.attempt && r.pid == k.pid {
			k.ended = r.at
			j.endInLane(r)
		}
	case kindFailed:
		if r.attempt == k.attempt {
			k.ended = r.at
			j.leaveLane(r) // it waits, and another one that was on its way with it may be before it
		}
	case kindOutcome:
		j.outcome(r, k)
	case kindRefused:
		j.fleet.Refused++
	}
}

// start checks a start of a handler. A receiver that was paused before it called the handler may
// do so late, as an attempt before the last one.
func (j *audit) start(r run, k *taskRuns) {
	if r.attempt < k.attempt {
		return
	}
	if k.accepted > 0 && r.attempt > k.accepted {
		j.o.violation(&j.fleet.Stale, "%s: handler %s runs as attempt %d, and attempt %d was accepted as the last",
			r.vendor, r.handler, r.attempt, k.accepted)
	}
	j.startInLane(r)
	// Answers wait for their producer, and those who kill receivers for the others.
	if r.attempt > k.attempt && k.attempt > 0 && r.handler != "ask" && r.handler != "crasher" {
		j.takeover(r, k)
	}
	k.attempt, k.pid, k.started, k.ended = r.attempt, r.pid, r.at, time.Time{}
}

// takeover measures how long it took to start an interrupted task again. While the database does
// not answer, no task can be taken.
func (j *audit) takeover(r run, k *taskRuns) {
	for _, from := range j.interrupted[k.pid] {
		if from.Before(k.started) || !from.Before(r.at) {
			continue
		}
		if !k.ended.IsZero() && k.ended.Before(from) {
			return
		}
		for _, out := range j.outages {
			if out.from.Before(r.at) && out.to.After(from) {
				from = out.to
			}
		}
		took := max(0, r.at.Sub(from))
		if j.takeovers = append(j.takeovers, took); took > j.lease+latestTakeover {
			j.o.violation(&j.fleet.Late, "%s: handler %s was taken over after %v", r.vendor, r.handler, took)
		}
		return
	}
}

// outcome checks that the store accepts no result of an attempt after a later one has begun.
func (j *audit) outcome(r run, k *taskRuns) {
	final := r.detail == "done" || r.detail == "dead"
	switch {
	case k.attempt > r.attempt && (final || k.started.Before(r.at)):
		j.o.violation(&j.fleet.Stale, "%s: handler %s is %s as attempt %d, and attempt %d has begun", r.vendor,
			r.handler, r.detail, r.attempt, k.attempt)
	case final:
		k.accepted = r.attempt
	}
	if r.detail == "dead" {
		j.leaveLane(r)
	}
}

// startInLane checks that no other task of the lane runs.
func (j *audit) startInLane(r run) {
	s := j.o.sent[r.vendor]
	if s == nil || r.handler != "laned" {
		return
	}
	if other := j.lanes[s.lane]; other != "" && other != r.vendor {
		j.o.violation(&j.tally.Disordered, "%s starts, and %s of the same lane has not ended", r.vendor, other)
	}
	j.lanes[s.lane] = r.vendor
}

// leaveLane notes that another task of the lane may start.
func (j *audit) leaveLane(r run) {
	if s := j.o.sent[r.vendor]; s != nil && r.handler == "laned" && j.lanes[s.lane] == r.vendor {
		j.lanes[s.lane] = ""
	}
}

func (j *audit) endInLane(r run) {
	if j.leaveLane(r); r.handler == "laned" {
		j.tally.Laned++
		j.ends[r.vendor] = j.tally.Laned
	}
}

// order requires that an event that was acknowledged before another one of its lane was sent also
// ran before it. The order of two that were on their way at once is free.
func (j *audit) order() {
	ran := map[string][]string{}
	for vendor := range j.ends {
		lane := j.o.sent[vendor].lane
		ran[lane] = append(ran[lane], vendor)
	}
	for _, ids := range ran {
		slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(j.ends[a], j.ends[b]) })
		var last string // of those so far, the one that was sent last
		for _, id := range ids {
			s := j.o.sent[id]
			if last != "" && !s.answered.IsZero() && s.answered.Before(j.o.sent[last].began) {
				j.o.violation(&j.tally.Disordered, "%s ran before %s, which was acknowledged before it was sent", last,
					id)
			}
			if last == "" || s.began.After(j.o.sent[last].began) {
				last = id
			}
		}
	}
}
