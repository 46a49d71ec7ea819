package main

import (
	"fmt"
	"time"
)

// progress prints how many events are done, of how many, and how fast.
type progress struct {
	program *program
	verb    string
	total   int
	began   time.Time
	printed time.Time
	every   time.Duration
	rewrite bool // on a terminal: overwrite the line
	shown   bool
}

// newProgress returns a progress on a terminal, or if --progress asks for it; else nil.
func newProgress(p *program, asked bool, verb string, total int) *progress {
	onTerminal := p.terminal(p.Err)
	if !asked && !onTerminal {
		return nil
	}
	g := &progress{program: p, verb: verb, total: total, began: time.Now(), every: time.Second}
	if onTerminal {
		g.rewrite, g.every = true, 100*time.Millisecond
	}
	g.printed = g.began
	return g
}

// at reports that n are done, at most once per interval.
func (g *progress) at(n int) {
	if g == nil || time.Since(g.printed) < g.every {
		return
	}
	g.printed = time.Now()
	g.line(n)
}

// end prints the last count.
func (g *progress) end(n int) {
	if g == nil || g.rewrite && !g.shown {
		return
	}
	g.line(n)
	if g.rewrite {
		g.program.eprintf("\n")
	}
}

func (g *progress) line(n int) {
	g.shown = true
	rate := float64(n) / max(time.Since(g.began).Seconds(), 1e-3)
	text := fmt.Sprintf("%s %d of %d (%.0f/s)", g.verb, n, g.total, rate)
	if g.rewrite {
		g.program.eprintf("\r\x1b[K%s", text)
		return
	}
	g.program.eprintf("%s\n", text)
}
