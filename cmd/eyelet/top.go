package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/load"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// topRefresh is the time between two looks.
const topRefresh = 2 * time.Second

func topCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "top", Short: "Show what producers and handlers do now", Args: cobra.NoArgs,
		Long: "Asks the running server every two seconds, until q or Ctrl-C. Counts and percentiles are of the last\n" +
			"minute; of the time since the server started at first, with --once and without a terminal. Those of\n" +
			"producers are of all responses, those of handlers of attempts. A failed attempt may be retried.\n\n" +
			"With -o json each refresh is a line, with the counts between since and time, and seconds.",
	}
	file, format := configFlag(c), listFlag(c)
	once := c.Flags().Bool("once", false, "look once")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.loadOutline(c, *file)
		if err != nil {
			return err
		}
		t := &top{program: p, settings: s, format: *format}
		if *format != "json" && !*once && p.hasCursor(p.Out) && isTerminal(p.In) {
			return t.show(c.Context())
		}
		for {
			r, err := t.look(c.Context())
			if c.Context().Err() != nil {
				return nil //nolint:nilerr // a person ended it
			} else if err != nil {
				return err
			}
			if *format != "json" {
				return t.write(p.Out, r)
			}
			if err := p.encode(r); err != nil || *once {
				return err
			}
			wait(c.Context())
		}
	}
	return c
}

// top looks at a server again and again.
type top struct {
	*program
	settings *config.Settings
	format   string
	history  load.History
}

// look reports what the server did since the oldest sample, or since its start. It connects each
// time: another server may have started.
func (t *top) look(ctx context.Context) (load.Report, error) {
	client, err := connectRunning(ctx, t.settings)
	if err != nil {
		return load.Report{}, err
	}
	s, err := load.Take(ctx, client)
	if err != nil {
		return load.Report{}, err
	}
	return t.history.Add(s), nil
}

// write writes a report for a person.
func (t *top) write(w io.Writer, r load.Report) error {
	state := "accepting"
	if !r.Accepting {
		state = "NOT ACCEPTING: " + sanitize(r.Problem)
	}
	oldest := ""
	if r.Oldest != nil {
		oldest = " (oldest " + duration.Rough(r.Time.Sub(*r.Oldest)) + ")"
	}
	lines := []string{fmt.Sprintf("%s, up %s, waiting %d%s, running %d, dead %d", state,
		duration.Rough(r.Time.Sub(r.Started)), r.Waiting, oldest, r.Running, r.Dead)}
	if h := r.Hour; h != nil {
		lines = append(lines,
			fmt.Sprintf("this hour: %d accepted, %s, %d refused, p50 %s, p95 %s", h.Accepted,
				count(int(h.Duplicates), "duplicate"), h.Refused, took(h.AcceptP50), took(h.AcceptP95)),
			fmt.Sprintf("           %s, %d failed, p50 %s, p95 %s", count(int(h.Attempts), "attempt"), h.Failed,
				took(h.RunP50), took(h.RunP95)))
	}
	span := r.Time.Sub(r.Since)
	lines = append(lines, "per minute, over the last "+duration.Rough(span)+":")
	producers := t.table(t.format, "PRODUCER", "ACCEPTED", "DUPLICATE", "REFUSED", "P50", "P95", "LAST")
	for _, one := range r.Producers {
		last := any("-")
		if !one.Last.IsZero() {
			last = one.Last
		}
		producers.Row(sanitize(one.Name), perMinute(one.Accepted, span), perMinute(one.Duplicates, span),
			perMinute(one.Refused, span), took(one.P50), took(one.P95), last)
	}
	handlers := t.table(t.format, "HANDLER", "ATTEMPTS", "FAILED", "P50", "P95", "STATE")
	for _, one := range r.Handlers {
		state := map[bool]table.State{true: "paused", false: "runs"}[one.Paused]
		handlers.Row(sanitize(one.Name), perMinute(one.Attempts, span), perMinute(one.Failed, span), took(one.P50),
			took(one.P95), state)
	}
	producers.Above, handlers.Above = "\n", "\n"
	for _, line := range lines {
		if producers.Width > 0 {
			line = table.Fit(line, producers.Width)
		}
		_, _ = fmt.Fprintln(w, line) // the tables report an error
	}
	return errors.Join(producers.Write(w), handlers.Write(w))
}

func perMinute(n float64, span time.Duration) string {
	switch rate := n / span.Minutes(); {
	case n == 0:
		return "0"
	case rate < .1:
		return "<0.1"
	case rate < 10:
		return fmt.Sprintf("%.1f", rate)
	default:
		return fmt.Sprintf("%.0f", rate)
	}
}

// took is a duration in seconds for a person.
func took(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return duration.Rough(time.Duration(seconds * float64(time.Second)))
}

// wait waits for the next refresh, or for the end of ctx.
func wait(ctx context.Context) {
	select {
	case <-time.After(topRefresh):
	case <-ctx.Done():
	}
}

// show shows reports on a terminal until a person ends it.
func (t *top) show(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := tea.NewProgram(topScreen{top: t, ctx: ctx}, tea.WithContext(ctx), tea.WithInput(t.In),
		tea.WithOutput(t.Out), tea.WithAltScreen(), tea.WithoutSignalHandler())
	if _, err := screen.Run(); !errors.Is(err, tea.ErrProgramKilled) { // ctx ended
		return err
	}
	return nil
}

// topScreen is a [tea.Model]. Its messages are a topLook and those of a terminal.
type topScreen struct {
	*top
	ctx    context.Context //nolint:containedctx // of looking
	height int
	last   topLook
}

// topLook is a report, or why there is none.
type topLook struct {
	report load.Report
	err    error
}

func (m topScreen) next() tea.Msg {
	r, err := m.look(m.ctx)
	return topLook{r, err}
}

// Init implements [tea.Model].
func (m topScreen) Init() tea.Cmd { return m.next }

// Update implements [tea.Model]. A server that is away leaves its last report.
func (m topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.height = msg.Height
	case tea.KeyMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" || key == "esc" {
			return m, tea.Quit
		}
	case topLook:
		if msg.err != nil {
			msg.report = m.last.report
		}
		m.last = msg
		return m, func() tea.Msg {
			wait(m.ctx)
			return m.next()
		}
	}
	return m, nil
}

// View implements [tea.Model].
func (m topScreen) View() string {
	var b strings.Builder
	if !m.last.report.Time.IsZero() {
		_ = m.write(&b, m.last.report) // a Builder never fails
	}
	foot := "q end"
	if m.last.err != nil {
		foot += "  " + sanitize(m.last.err.Error())
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:max(0, min(len(lines), m.height-1))], table.Fit(foot, m.width())), "\n")
}
