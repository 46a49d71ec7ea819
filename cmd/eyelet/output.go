package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// printf writes to standard output, and eprintf to standard error. Write errors are ignored: data,
// such as events and verdicts, is written where errors are handled.
func (p *program) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

func (p *program) eprintf(format string, args ...any) { _, _ = fmt.Fprintf(p.Err, format, args...) }

// outputFlag adds -o.
func outputFlag(c *cobra.Command) *string {
	return c.Flags().StringP("output", "o", "text", "text or json")
}

// result prints the result of a command: the object in JSON, or the text.
func (p *program) result(format string, object map[string]any, text string, args ...any) error {
	if format != "json" {
		_, err := fmt.Fprintf(p.Out, text, args...)
		return err
	}
	return p.encode(object)
}

// encode prints a line of JSON in which "<secret>" is readable.
func (p *program) encode(value any) error {
	e := json.NewEncoder(p.Out)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// checkOutput checks -o of the commands that have it.
func checkOutput(c *cobra.Command, _ []string) error {
	if f := c.Flags().Lookup("output"); f != nil && f.Value.String() != "text" && f.Value.String() != "json" {
		return usage.Errorf("write -o text or -o json", "unknown output %q", f.Value.String())
	}
	return nil
}

// terminal reports whether w is a terminal that shows colours.
func (p *program) terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	if _, no := (config.Source{Environ: p.Environ}).Lookup("NO_COLOR"); no {
		return false
	}
	kind, _ := (config.Source{Environ: p.Environ}).Lookup("TERM")
	return kind != "dumb"
}

// width returns that of the terminal, or COLUMNS.
func (p *program) width() int {
	columns, _ := (config.Source{Environ: p.Environ}).Lookup("COLUMNS")
	n, _ := strconv.Atoi(columns)
	if f, ok := p.Out.(*os.File); ok && n <= 0 {
		n, _, _ = term.GetSize(int(f.Fd())) // 0 where it is not a terminal
	}
	if n <= 0 {
		return 80
	}
	return n
}

// sanitize returns text of a client for a terminal: without control characters, and "-" if it is
// empty.
func sanitize(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(printable, strings.ToValidUTF8(text, "?"))
}

// printable replaces control characters, which could steer a terminal.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// count returns "1 event", "2 events", "2 deliveries", "2 keys" or "2 aliases".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		what = stem + "ie"
	} else if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

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
