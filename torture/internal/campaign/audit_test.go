package campaign

import (
	"testing"
	"time"
)

// verdicts returns what the audit finds in lines of a log. Process 1 was killed at second 10, and
// the database was away from second 20 to 30.
func verdicts(lines ...run) (Tally, FleetTally) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	o := newOracle(nil)
	o.sent["a"] = &sent{typ: typeLane, lane: "1", began: at(1), answered: at(2)}
	o.sent["b"] = &sent{typ: typeLane, lane: "1", began: at(3), answered: at(4)}
	var tally Tally
	var fleet FleetTally
	j := &audit{
		o: o, tally: &tally, fleet: &fleet, lease: time.Second, interrupted: map[int][]time.Time{1: {at(10)}},
		outages: []span{{at(20), at(30)}},
		tasks:   map[task]*taskRuns{}, lanes: map[string]string{}, ends: map[string]int{},
	}
	for i, r := range lines {
		if r.at.IsZero() {
			r.at = at(5).Add(time.Duration(i) * time.Millisecond)
		}
		r.event, r.handler = "event of "+r.vendor, "laned"
		j.read(r)
	}
	j.order()
	fleet.Takeovers = timesOf(j.takeovers)
	return tally, fleet
}

func line(kind, vendor string, attempt, pid int, detail ...string) run {
	r := run{kind: kind, vendor: vendor, attempt: attempt, pid: pid}
	if len(detail) > 0 {
		r.detail = detail[0]
	}
	return r
}

func at(second int, r run) run {
	r.at = time.Unix(int64(second), 0)
	return r
}

func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	start := func(vendor string, attempt, pid int) run { return line(kindStart, vendor, attempt, pid) }
	end := func(vendor string, attempt, pid int) run { return line(kindEnd, vendor, attempt, pid) }
	done := func(vendor string, attempt int) run { return line(kindOutcome, vendor, attempt, 2, "done") }
	for name, tc := range map[string]struct {
		lines                   []run
		stale, late, disordered int
	}{
		"all is well": {lines: []run{
			start("a", 1, 2), end("a", 1, 2), done("a", 1), start("b", 1, 2), end("b", 1, 2), done("b", 1),
		}},
		"the result of a lost lease": {lines: []run{start("a", 1, 1), start("a", 2, 2), done("a", 1)}, stale: 1},
		"a failure of a lost lease": {lines: []run{
			start("a", 1, 1), start("a", 2, 2), line(kindOutcome, "a", 1, 1, "retry"),
		}, stale: 1},
		"a task that is done runs again": {lines: []run{start("a", 1, 1), done("a", 1), start("a", 2, 2)}, stale: 1},
		"a late start of a paused process": {lines: []run{
			start("a", 2, 2), end("a", 2, 2), done("a", 2), start("a", 1, 1), end("a", 1, 1),
			line(kindRefused, "a", 1, 1), start("b", 1, 2), end("b", 1, 2),
		}},
		"two of a lane at once": {lines: []run{start("a", 1, 2), start("b", 1, 2)}, disordered: 1},
		"one that failed makes room": {lines: []run{
			start("a", 1, 2), line(kindFailed, "a", 1, 2), start("b", 1, 2), end("b", 1, 2),
		}},
		"the wrong order": {lines: []run{
			start("b", 1, 2), end("b", 1, 2), done("b", 1), start("a", 1, 2), end("a", 1, 2),
		}, disordered: 1},
		"taken over":      {lines: []run{start("a", 1, 1), at(12, start("a", 2, 2))}},
		"taken over late": {lines: []run{start("a", 1, 1), at(22, start("a", 2, 2)), at(42, done("a", 2))}},
		"taken over much too late": {lines: []run{
			start("a", 1, 1), at(19, line(kindRefused, "b", 1, 1)), at(42, start("a", 2, 2)),
		}, late: 1},
	} {
		tally, fleet := verdicts(tc.lines...)
		if fleet.Stale != tc.stale || fleet.Late != tc.late || tally.Disordered != tc.disordered {
			t.Errorf("%s: %d stale, %d late, %d out of order, want %d, %d, %d", name, fleet.Stale, fleet.Late,
				tally.Disordered, tc.stale, tc.late, tc.disordered)
		}
	}
	_, fleet := verdicts(line(kindStart, "a", 1, 1), at(12, line(kindStart, "a", 2, 2)))
	if fleet.Takeovers.Max != 2000 {
		t.Errorf("the takeover took %+v, want 2 s", fleet.Takeovers)
	}
}
