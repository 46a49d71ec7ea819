package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// filters are the flags that select events.
type filters struct {
	values      map[string]*string // by parameter of the events API
	quarantined bool
	all         bool   // --all of commands that change or export
	state       string // fixed by the command; "" for a flag --state
	// destroys says that a state alone selects nothing: all of it needs --all.
	destroys bool
}

// addFilterFlags adds the flags that select events. The state is fixed unless it is "".
func addFilterFlags(c *cobra.Command, state string) *filters {
	f := &filters{values: map[string]*string{}, state: state}
	help := map[string]string{
		"id": "idempotency identifier, or the sender's", "producer": "name of the producer",
		"endpoint": "name of the endpoint",
		"type":     `event type, or "prefix*"`, "handler": "name of a handler with a task",
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
		c.Flags().BoolVar(&f.quarantined, "quarantined", false, "only quarantined deliveries")
		c.Flags().BoolVar(&f.quarantined, "aside", false, "the same")
		_ = c.Flags().MarkHidden("aside") // it exists
	}
	return f
}

// completeFlag adds the values of a flag to shell completion.
func completeFlag(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words,
		cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a bug: the flag does not exist
	}
}

// any reports whether a flag selects events, --all included. state says whether --state counts.
func (f *filters) any(state bool) bool {
	for name, value := range f.values {
		if *value != "" && (name != "state" || state && f.state == "" && !f.destroys) {
			return true
		}
	}
	return f.quarantined || f.all
}

// query returns the parameters of a list without a limit.
func (f *filters) query() (url.Values, error) {
	return eventsQuery(f.values, f.quarantined, 0, true)
}

// selection completes a job with the named events, else with those that match.
func (f *filters) selection(ctx context.Context, p *program, client *opsclient.Client, order *inspect.JobRequest,
	refs []string) error {
	for _, ref := range refs {
		event, err := resolve(ctx, p, client, ref, *f.values["state"])
		if err != nil {
			return err
		}
		order.Events = append(order.Events, event)
	}
	if len(refs) > 0 {
		return nil
	}
	q, err := f.query()
	order.Filter = q.Encode()
	return err
}

// noteSelection says what a filter did not select.
func noteSelection(c *cobra.Command, p *program, order inspect.JobRequest, s *inspect.JobSelection) {
	if s.Quarantined > 0 {
		p.eprintf("skipped %s in quarantine; --quarantined selects those\n", count(s.Quarantined, "delivery"))
	}
	if s.Total == 0 {
		q, _ := url.ParseQuery(order.Filter) // encoded by us
		noteUnknown(c, p, q)
	}
}

// noteUnknown says which names in a filter that found nothing are not in the configuration. Events
// of a producer that was removed are found by its name, so a name alone is no mistake.
func noteUnknown(c *cobra.Command, p *program, q url.Values) {
	s := p.readable(c)
	if s == nil {
		return
	}
	for _, flag := range []string{"producer", "endpoint", "handler"} {
		name, known := q.Get(flag), flagNames[flag](s)
		if name == "" || slices.Contains(known, name) {
			continue
		}
		hint := usage.DidYouMean(name, known)
		if hint != "" {
			hint = "; " + hint
		}
		p.eprintf("the configuration has no %s %q%s\n", flag, name, hint)
	}
}

// readEvents returns the events in the arguments; "-" reads them from standard input, one per
// line.
func readEvents(stdin io.Reader, args []string) ([]string, error) {
	var events []string
	for _, arg := range args {
		if strings.HasSuffix(arg, ".http") { // what raw --dir wrote
			event, err := recordedEvent(arg)
			if err != nil {
				return nil, err
			}
			arg = event
		}
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

// recordedEvent returns the stored event that a recording came from.
func recordedEvent(file string) (string, error) {
	rec, err := readRecording(file)
	if err == nil && rec.Note("event") == "" {
		err = usage.Errorf("`eyelet events show --raw` writes it",
			`%s has no note "# event: ..." of a stored event`, file)
	}
	if err != nil {
		return "", err
	}
	return rec.Note("event"), nil
}

// check checks that events are either named or selected.
func (f *filters) check(named []string, args []string) error {
	switch {
	case len(args) > 0 && f.any(false): // the state is that of the events that are meant
		return usage.Errorf("leave one of them out", "events are both named and selected by flags")
	case len(args) == 0 && !f.any(true):
		return usage.Errorf("name events, or select them with --producer, --type, --since, ..., or --all",
			"no events are selected")
	case len(args) > 0 && len(named) == 0:
		return usage.Errorf("write one event a line", "standard input names no event")
	}
	return nil
}

// refHelp explains the arguments that name events.
const refHelp = "EVENT is an id as in lists, the number that it begins with, at least its first 4 characters if\n" +
	"no other event begins with them, or the sender's identifier if no other event has it."

// maxCandidates is how many events an ambiguous name lists.
const maxCandidates = 10

// resolve returns the event that a name means: its id, its number, the beginning of the id, or the
// sender's identifier. Of several those in the state are preferred, if there is one. Without any it
// returns the name, which is then unknown.
func resolve(ctx context.Context, p *program, client *opsclient.Client, ref, state string) (string, error) {
	for _, q := range []url.Values{{"event": {ref}}, {"ref": {ref}, "state": {state}}, {"ref": {ref}}} {
		if q.Has("state") && state == "" {
			continue
		}
		q.Set("limit", strconv.Itoa(maxCandidates+1))
		var found []inspect.Event
		_, err := client.Each(ctx, q, func(_ []byte, e inspect.Event) error {
			found = append(found, e)
			return nil
		})
		switch {
		case err != nil:
			return "", err
		case len(found) == 1:
			return found[0].Event, nil
		case len(found) > 1:
			return "", ambiguous(p, ref, found)
		}
	}
	return ref, nil
}

// ambiguous lists the events that a name may mean.
func ambiguous(p *program, ref string, found []inspect.Event) error {
	more := ""
	if len(found) > maxCandidates {
		found, more = found[:maxCandidates], "at least "
	}
	on := &program{Out: p.Err, Environ: p.Environ}
	t := on.table("", eventHeads...)
	for _, e := range found {
		t.Row(eventRow(e)...)
	}
	_ = t.Write(p.Err)
	return failf("%s is the name of %s%s: name one by its id", sanitize(ref), more, count(len(found), "event"))
}
