package inspect

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/inspect/internal/series"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// charts are the time series of the view of the health.
type charts struct {
	Ranges []chartRange
	Range  chartRange // the chosen one
	Charts []chart
	Gaps   bool    // in which the process did not run
	Table  []Point // newest first
	List   string  // path of the deliveries
}

// chartRange is how far back charts go: n steps.
type chartRange struct {
	Name, Words string
	step        series.Step
	n           int
}

// Query is that of the deliveries of the step that begins at a time.
func (c chartRange) Query(start time.Time) template.URL {
	end := start.Add(time.Duration(c.step.Seconds()) * time.Second)
	return listQuery{Since: start.Format(queryTime), Until: end.Format(queryTime)}.URL()
}

// chartRanges are those of the page. The first is the default, and that of the list of deliveries.
var chartRanges = []chartRange{
	{"1h", "1 hour", series.Minute, 60}, {"24h", "24 hours", series.Quarter, 96},
	{"7d", "7 days", series.Hour, 168}, {"30d", "30 days", series.SixHours, 120},
}

// chart is a drawing of one column for each step, in units of 5 by 100 for a column.
type chart struct {
	Title   string
	List    string // path of the deliveries
	Keys    []chartKey
	Most    string // the largest value
	Width   int
	Columns []chartColumn
	Gaps    []bar    // in which the process did not run
	Marks   []string // the times at each quarter of the width
}

// chartKey explains a color. Text is the sum of what has it; "" if that has no meaning.
type chartKey struct{ Sign, Word, Text string }

// chartColumn is a step with something in it.
type chartColumn struct {
	X     int
	Title string
	Query template.URL
	Bars  []bar
}

// bar is a part of a column, with a list of its own if Show is not "".
type bar struct {
	X, Y, W, H int
	Sign, Show string
}

// The drawing of a step.
const (
	columnWidth  = 5
	columnHeight = 100
	leastHeight  = 3 // of a bar that is not zero
)

// quantity is what a chart shows of each step: counts upon each other, or values of which the
// larger one is behind the smaller.
type quantity struct {
	title   string
	stacked bool
	words   func(int64) string
	parts   func(*series.Point) []int64
	keys    []chartKey // of the parts, with the value of show in Text
}

var quantities = []quantity{
	{"Deliveries", true, number, func(p *series.Point) []int64 {
		return []int64{int64(p.Accepted), int64(p.Repeated), int64(p.Refused)}
	}, []chartKey{{"ok", "accepted", "accepted"}, {"dup", "duplicate", "duplicate"}, {"bad", "refused", "refused"}}},
	{"Attempts of handlers", true, number, func(p *series.Point) []int64 {
		return []int64{int64(p.Attempts - p.Failed), int64(p.Failed)}
	}, []chartKey{{"ok", "succeeded", ""}, {"bad", "failed", ""}}},
	{"Tasks that wait", true, number, func(p *series.Point) []int64 { return []int64{int64(p.Waiting)} },
		[]chartKey{{"wait", "waiting", ""}}},
	{"Time to accept", false, elapsed, func(p *series.Point) []int64 { return quantilesOf(p.Accept) },
		[]chartKey{{"dup p95", "p95", ""}, {"dup", "p50", ""}}},
	{"Time of handlers", false, elapsed, func(p *series.Point) []int64 { return quantilesOf(p.Run) },
		[]chartKey{{"dup p95", "p95", ""}, {"dup", "p50", ""}}},
	{"Oldest task that waits", false, elapsed, func(p *series.Point) []int64 {
		return []int64{int64(time.Duration(p.Oldest) * time.Second)}
	}, []chartKey{{"wait", "oldest", ""}}},
}

func number(n int64) string { return grouped(n) }

func elapsed(n int64) string { return duration.Rough(time.Duration(n)) }

func quantilesOf(q series.Quantiles) []int64 {
	return []int64{int64(q.P95()), int64(q.P50())}
}

// charts returns the time series of a range; of the first one if there is none of the name. list is
// the path of the deliveries.
func (h *history) charts(name, list string) charts {
	v := charts{Ranges: chartRanges, Range: chartRanges[0], List: list}
	for _, one := range chartRanges {
		if one.Name == name {
			v.Range = one
		}
	}
	now := time.Now()
	points := h.series.Last(v.Range.step, v.Range.n, now)
	for _, q := range quantities {
		v.Charts = append(v.Charts, q.draw(points, v.Range, now, list))
	}
	v.Gaps = len(v.Charts[0].Gaps) > 0
	v.Table = pointsOf(v.Range.step, points)
	slices.Reverse(v.Table)
	return v
}

// hour returns the deliveries of the last hour.
func (h *history) hour(list string) chart {
	now, last := time.Now(), chartRanges[0]
	return quantities[0].draw(h.series.Last(last.step, last.n, now), last, now, list)
}

func (q *quantity) draw(points []series.Point, of chartRange, now time.Time, list string) chart {
	most, sums := int64(0), make([]int64, len(q.keys))
	for i := range points {
		most = max(most, q.height(q.parts(&points[i])))
		for k, n := range q.parts(&points[i]) {
			sums[k] += n
		}
	}
	c := chart{Title: q.title, List: list, Most: q.words(most), Width: columnWidth * len(points), Marks: of.marks(now)}
	for k, key := range q.keys {
		if key.Text = ""; q.stacked && len(q.keys) > 1 {
			key.Text = q.words(sums[k])
		}
		c.Keys = append(c.Keys, key)
	}
	for i := range points {
		x := i * columnWidth
		switch one := &points[i]; {
		case one.Number != 0 && q.height(q.parts(one)) > 0:
			c.Columns = append(c.Columns, q.column(one, x, most, of))
		case one.Number != 0:
		case len(c.Gaps) > 0 && c.Gaps[len(c.Gaps)-1].X+c.Gaps[len(c.Gaps)-1].W == x:
			c.Gaps[len(c.Gaps)-1].W += columnWidth
		default:
			c.Gaps = append(c.Gaps, bar{X: x, W: columnWidth, H: columnHeight})
		}
	}
	return c
}

// height is the value to which the parts of a step reach.
func (q *quantity) height(parts []int64) int64 {
	height := int64(0)
	for _, n := range parts {
		if q.stacked {
			height += n
		} else {
			height = max(height, n)
		}
	}
	return height
}

func (q *quantity) column(p *series.Point, x int, most int64, of chartRange) chartColumn {
	start := p.Start(of.step)
	c := chartColumn{X: x, Query: of.Query(start), Title: start.Format("2 Jan 15:04")}
	y := columnHeight
	for k, n := range q.parts(p) {
		c.Title += fmt.Sprintf("%s %s %s", map[bool]string{true: ":", false: ","}[k == 0], q.keys[k].Word, q.words(n))
		if n == 0 {
			continue
		}
		height := max(leastHeight, int(float64(n)/float64(most)*columnHeight))
		if !q.stacked {
			y = columnHeight
		}
		y = max(0, y-height)
		key := q.keys[k]
		c.Bars = append(c.Bars, bar{X: x, Y: y, W: columnWidth - 1, H: height, Sign: key.Sign, Show: key.Text})
	}
	return c
}

// marks returns the times at each quarter of the width.
func (c chartRange) marks(now time.Time) []string {
	layout := "2 Jan"
	if c.step <= series.Quarter {
		layout = "15:04"
	}
	first := now.Unix()/c.step.Seconds() - int64(c.n) + 1
	var marks []string
	for i := range int64(4) {
		at := (first + i*int64(c.n)/4) * c.step.Seconds()
		marks = append(marks, time.Unix(at, 0).UTC().Format(layout))
	}
	return marks
}
