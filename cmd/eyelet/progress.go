package main

import (
	"fmt"
	"io"
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
	shown   bool // the terminal shows the line
	out     [2]io.Writer
}

// clearing removes the line of a progress before other text is printed.
type clearing struct {
	io.Writer
	bar *progress
}

func (c clearing) Write(data []byte) (int, error) {
	if c.bar.shown {
		_, _ = io.WriteString(c.bar.out[1], "\r\x1b[K")
		c.bar.shown = false
	}
	return c.Writer.Write(data)
}

// newProgress returns a progress on a terminal, or if --progress asks for it; else nil.
func newProgress(p *program, asked bool, verb string, total int) *progress {
	onTerminal := p.terminal(p.Err)
	if !asked && !onTerminal {
		return nil
	}
	g := &progress{program: p, verb: verb, total: total, began: time.Now(), every: time.Second}
	g.out = [2]io.Writer{p.Out, p.Err}
	if onTerminal {
		g.rewrite, g.every = true, 100*time.Millisecond
		p.Out, p.Err = clearing{p.Out, g}, clearing{p.Err, g}
	}
	g.printed = g.began
	return g
}

// screenful is how many lines of successes a terminal gets.
const screenful = 20

// hides reports that lines of successes are left out: the terminal would show too many. The last
// count is printed then.
func (g *progress) hides() bool {
	if g == nil || !g.rewrite || g.total <= screenful || !g.program.terminal(g.out[0]) {
		return false
	}
	g.printed = time.Time{}
	return true
}

// at reports that n are done, at most once per interval.
func (g *progress) at(n int) {
	if g == nil || time.Since(g.printed) < g.every {
		return
	}
	g.printed = time.Now()
	g.line(n)
}

// end prints the last count, of a command that took long enough to show one.
func (g *progress) end(n int) {
	if g == nil {
		return
	}
	g.program.Out, g.program.Err = g.out[0], g.out[1]
	if g.rewrite && g.printed.Equal(g.began) {
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
		_, _ = fmt.Fprintf(g.out[1], "\r\x1b[K%s", text)
		return
	}
	g.program.eprintf("%s\n", text)
}
