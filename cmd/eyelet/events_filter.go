package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/inspect"
)

// filters are the flags that select events.
type filters struct {
	values      map[string]*string // by parameter of the events API
	quarantined bool
	all         bool   // of commands that change or copy: the person means every event
	state       string // fixed by the command; "" where --state is a flag
	// careful leaves out what was kept aside, unless a flag asks for it: it would run for the first time, and it
	// may be a known event under another name, or another payload under a known one.
	careful bool
	skipped int // that were left out
}

// addFilterFlags adds the flags that select events. The state is fixed unless it is "".
func addFilterFlags(c *cobra.Command, state string) *filters {
	f := &filters{values: map[string]*string{}, state: state}
	help := map[string]string{
		"id": "idempotency identifier, or the one that the sender gave", "producer": "name of the producer", "endpoint": "name of the endpoint",
		"type": `event type, or "prefix*"`, "handler": "name of a handler with a task",
		"reason": "reason of a task or of a quarantine, such as exhausted, rejected or same_bytes",
		"state":  "pending, running, done or dead; several with commas", "since": "accepted within, such as 1h or 7d",
	}
	for name, text := range help {
		if name == "state" && state != "" {
			f.values[name] = &f.state
			continue
		}
		f.values[name] = c.Flags().String(name, "", text)
	}
	if state == "" {
		completeFlag(c, "state", "pending", "running", "done", "dead")
	}
	if state != "pending" {
		c.Flags().BoolVar(&f.quarantined, "aside", false, "only deliveries that were kept aside")
	}
	return f
}

// completeFlag tells the shell which words a flag takes.
func completeFlag(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist: a mistake in this program
	}
}

// any reports whether a person selected something, be it everything.
func (f *filters) any() bool {
	for name, value := range f.values {
		if *value != "" && (name != "state" || f.state == "") {
			return true
		}
	}
	return f.quarantined || f.all
}

// query returns the parameters of a list of all that match.
func (f *filters) query() (url.Values, error) {
	return eventsQuery(f.values, f.quarantined, 0, true)
}

// selected is an event that a command is about.
type selected struct {
	event string
	line  *inspect.Event // nil when it was named, and not looked up
}

// selection returns the events that were named, else those that match, the oldest first. It is complete before
// anything is changed, so that what is changed does not come up again.
func (f *filters) selection(ctx context.Context, client *opsclient.Client, named []string) ([]selected, error) {
	var all []selected
	if len(named) > 0 {
		for _, event := range named {
			all = append(all, selected{event: event})
		}
		return all, nil
	}
	q, err := f.query()
	if err != nil {
		return nil, err
	}
	err = client.Each(ctx, q, func(_ []byte, e inspect.Event) error {
		switch {
		case !f.matches(e):
		case f.careful && e.QuarantineReason != "" && !f.quarantined && *f.values["reason"] == "":
			f.skipped++
		default:
			all = append(all, selected{e.Event, &e})
		}
		return nil
	})
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all, err
}

// matches reports whether, of an event that is dead or waits, one task is at once in that state, of the handler and
// of the reason that were asked for: a done task of the handler is no reason to reopen another's. A quarantined delivery
// that no handler takes has its reason without a task.
func (f *filters) matches(e inspect.Event) bool {
	handler, reason := *f.values["handler"], *f.values["reason"]
	if f.state == "" || handler == "" && reason == "" {
		return true
	}
	if len(e.Tasks) == 0 && handler == "" && reason == e.QuarantineReason {
		return true
	}
	for _, t := range e.Tasks {
		if t.State == f.state && (handler == "" || handler == t.Handler) && (reason == "" || reason == t.Reason) {
			return true
		}
	}
	return false
}

// readEvents returns the events of the arguments; "-" stands for standard input, one event a line.
func readEvents(stdin io.Reader, args []string) ([]string, error) {
	var events []string
	for _, arg := range args {
		if arg != "-" {
			events = append(events, arg)
			continue
		}
		lines := bufio.NewScanner(stdin)
		for lines.Scan() {
			if event := strings.TrimSpace(lines.Text()); event != "" {
				events = append(events, event)
			}
		}
		if err := lines.Err(); err != nil && err != io.EOF { //nolint:errorlint // Scan never wraps it
			return nil, usage.Errorf("", "standard input: %v", err)
		}
	}
	return events, nil
}

// check checks that events were named or selected, but not both.
func (f *filters) check(named []string, args []string) error {
	switch {
	case len(args) > 0 && f.any():
		return usage.Errorf("leave one of them out", "events are named, and selected by flags too")
	case len(args) == 0 && !f.any():
		return usage.Errorf("name events, or select them with --producer, --type, --since, ..., or --all", "there is nothing to do this to")
	case len(args) > 0 && len(named) == 0:
		return usage.Errorf("write one event a line", "standard input names no event")
	}
	return nil
}
