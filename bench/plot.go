package main

import (
	"bytes"
	"fmt"
	"math"
)

// The layout of the plot, in pixels.
const (
	plotLabels = 110 // width of the names
	plotBars   = 300 // width of the longest bar
	plotPanel  = plotLabels + plotBars + 70
	plotRow    = 22
)

// colors are those of the receivers: Eyelet differs from the others.
var colors = map[string]string{"eyelet": "#1b7837"}

// plot returns an SVG of the rate and the CPU time of each receiver, for both numbers of clients. A
// line on each bar goes from the smallest to the largest round.
func (r *results) plot() []byte {
	var b bytes.Buffer
	y := 20
	for _, name := range []string{"new-64", "new-256"} {
		rows := 0
		for i, panel := range []struct {
			title  string
			figure func(figures) float64
		}{
			{"handled deliveries per second", perSecond},
			{"CPU per delivery, µs", cpu},
		} {
			rows = max(rows, r.panel(&b, i*plotPanel+10, y, name, panel.title, panel.figure))
		}
		y += (rows+1)*plotRow + 20
	}
	const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<style>text{fill:#1f2328}path{stroke:#1f2328}.page{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}path{stroke:#e6edf3}.page{fill:#0d1117}}</style>
<rect width="100%%" height="100%%" class="page"/>
`
	return append(fmt.Appendf(nil, head, 2*plotPanel+20, y), append(b.Bytes(), "</svg>\n"...)...)
}

// panel draws the bars of one figure of a workload, and returns their number.
func (r *results) panel(b *bytes.Buffer, x, y int, workload, title string, figure func(figures) float64) int {
	var names []string
	var values []spread
	longest := 0.0
	for _, d := range descriptions {
		var all []float64
		for _, round := range r.of(workload) {
			if f, ok := round[d.name]; ok {
				all = append(all, figure(f))
			}
		}
		if s := spreadOf(all); !math.IsNaN(s.Median) && s.Max > 0 {
			names, values, longest = append(names, d.name), append(values, s), max(longest, s.Max)
		}
	}
	for _, m := range r.Workloads {
		if m.Name == workload {
			fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s: %s</text>\n", x, y, m.Title, title)
		}
	}
	for i, s := range values {
		top := y + 8 + i*plotRow
		at := func(v float64) int { return x + plotLabels + int(v/longest*plotBars) }
		color, ok := colors[names[i]]
		if !ok {
			color = "#92a8b8"
		}
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x, top+13, names[i])
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"16\" fill=\"%s\"/>\n",
			at(0), top, max(1, at(s.Median)-at(0)), color)
		fmt.Fprintf(b, "<path d=\"M%d %dH%d\"/>\n", at(s.Min), top+8, at(s.Max))
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", at(s.Max)+5, top+13, number(s.Median))
	}
	return len(values)
}
