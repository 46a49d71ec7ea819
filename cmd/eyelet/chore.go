package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/inspect"
)

// choreWorkers is how many events are changed at once, so that they share the store's durable steps.
const choreWorkers = 16

// chore is what a person can have done to events, one by one or to all that match.
type chore struct {
	use, short, long string
	verb, done       string // "reopen", "reopened"
	state            string // of the events that it is for
	method, path     string // of the request for one event, behind /events/EVENT
	adds             bool   // --add gives events to handlers that they do not have
	careful          bool   // flags select what was kept aside only where they say so
	destroys         bool   // wants --yes, and touches no event of another state
}

var (
	reopening = chore{
		use: "reopen", short: "Run dead letters and deliveries that were kept aside",
		long: "Makes the dead tasks of events pending again, with their attempts counted from zero. A delivery that was\n" +
			"kept aside runs once with its own payload; flags select it with --aside or --reason only. The answer that\n" +
			"duplicates get stays what it was.",
		verb: "reopen", done: "reopened", state: "dead", method: http.MethodPost, path: "/reopen", adds: true, careful: true,
	}
	retrying = chore{
		use: "retry", short: "Run waiting events now",
		long: "Makes tasks that wait for their next attempt due now. Their attempts stay as they are; dead letters are\n" +
			"reopened instead.",
		verb: "retry", done: "made due", state: "pending", method: http.MethodPost, path: "/retry",
	}
	purging = chore{
		use: "purge", short: "Forget dead letters for good",
		long: "Forgets dead letters with their payload, their answer and their key: a delivery that comes again is new.\n" +
			"Events that are selected by flags are purged with --yes only.",
		verb: "purge", done: "purged", state: "dead", method: http.MethodDelete, destroys: true,
	}
)

// choreFlags are the flags of a chore.
type choreFlags struct {
	config, format string
	dryRun, yes    bool
	progress       bool
	add            []string
	*filters
}

func (p *program) choreCommand(what chore) *cobra.Command {
	c := &cobra.Command{
		Use: what.use + " [EVENT...]", Short: what.short, Args: cobra.ArbitraryArgs,
		Long: what.long + "\n\n" +
			"EVENT is our own id, as the lists show it; \"-\" reads one a line from standard input. Without any, the\n" +
			"events that match all flags are taken, the oldest first. Exits 1 when one was refused.",
	}
	file, format := p.configFlag(c), outputFlag(c)
	f := &choreFlags{filters: filterFlags(c, what.state)}
	f.careful = what.careful
	c.Flags().BoolVar(&f.all, "all", false, "all of them")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the events and change nothing")
	c.Flags().BoolVar(&f.progress, "progress", false, "tell how it gets on, even if nobody looks at a terminal")
	if what.destroys {
		c.Flags().BoolVar(&f.yes, "yes", false, "purge what the flags select without looking at it first")
	}
	if what.adds {
		c.Flags().StringArrayVar(&f.add, "add", nil, "handler to give the event to, for one that had none (by name)")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		f.config, f.format = *file, *format
		return p.doChore(c, what, f, args)
	}
	return c
}

func (p *program) doChore(c *cobra.Command, what chore, f *choreFlags, args []string) error {
	if err := checkOutput(f.format); err != nil {
		return err
	}
	named, err := p.named(args)
	if err != nil {
		return err
	}
	if err := f.choose(named, args); err != nil {
		return err
	}
	order, err := p.order(c, f, len(named) > 0)
	if err != nil {
		return err
	}
	return p.withEvents(c, f.config, func(api eventsAPI) error {
		found, err := f.selection(c.Context(), api, named)
		if err != nil {
			return err
		}
		if f.left > 0 {
			p.tell("left alone: %s, kept aside; --aside selects those\n", many(f.left, "delivery"))
		}
		if f.dryRun {
			return p.rehearse(c.Context(), api, what, f, found)
		}
		if what.destroys && len(named) == 0 && !f.yes && len(found) > 0 {
			return usage.Errorf("look at them with --dry-run, then write --yes", "this would %s %s for good", what.verb, many(len(found), "event"))
		}
		j := &job{done: what.done, format: f.format, asked: f.progress, lenient: len(named) == 0, inOrder: mayHaveLanes(found)}
		j.act = func(ctx context.Context, e selected) (fate, error) { return what.act(ctx, api, e, order) }
		if err := p.work(c.Context(), found, j); err != nil {
			return err
		}
		if !api.live && what.path != "" && j.count > 0 {
			p.tell("%s\n", "no server runs: they are run when serve starts")
		}
		return nil
	})
}

// mayHaveLanes reports whether an event is in a lane, or was named and not looked at. Those are reopened one after
// another, so that of a lane no event overtakes an older one.
func mayHaveLanes(found []selected) bool {
	for _, e := range found {
		if e.line == nil || slices.ContainsFunc(e.line.Tasks, func(t inspect.Task) bool { return t.Lane != "" }) {
			return true
		}
	}
	return false
}

// order returns the body of the requests: the handlers to add, which the configuration must know.
func (p *program) order(c *cobra.Command, f *choreFlags, named bool) ([]byte, error) {
	if len(f.add) == 0 {
		return nil, nil
	}
	if !named {
		return nil, usage.Errorf("name the events", "--add is for events that are named, not for all that match")
	}
	src := p.source(c, f.config)
	src.Flags = nil // --producer is no setting
	s, err := src.Load()
	if err != nil {
		return nil, err
	}
	plan, err := s.Build(c.Context(), config.BuildOptions{Stdout: io.Discard})
	if err != nil {
		return nil, err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	names := plan.HandlerNames
	var o inspect.Order
	for _, name := range f.add {
		if !slices.Contains(names, name) {
			return nil, usage.Errorf(usage.DidYouMean(name, names), "unknown handler %q", name)
		}
		o.Tasks = append(o.Tasks, inspect.NewTask{Handler: name})
	}
	return json.Marshal(o)
}

// act does the chore to one event. An error ends the work.
func (what chore) act(ctx context.Context, api eventsAPI, e selected, order []byte) (fate, error) {
	path := "/events/" + url.PathEscape(e.event)
	if what.destroys && e.line == nil {
		line, refused, err := api.summary(ctx, e.event)
		if err != nil || refused != "" {
			return fate{Event: e.event, Error: refused}, err
		}
		if line.State != what.state {
			return fate{Event: e.event, Error: "it is not " + what.state + ": it is " + line.State}, nil
		}
	}
	res, err := api.send(ctx, what.method, path+what.path, order)
	if err != nil {
		return fate{}, failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read as far as it is needed
	switch {
	case res.StatusCode < 300:
		_, err := io.Copy(io.Discard, res.Body) // the connection is used again
		return fate{Event: e.event}, err
	case res.StatusCode < 500:
		return fate{Event: e.event, Error: problemTitle(res)}, nil
	}
	return fate{}, failed("%s", problemTitle(res))
}

// summary looks an event up; refused says why there is none.
func (a eventsAPI) summary(ctx context.Context, event string) (line inspect.Event, refused string, err error) {
	res, err := a.get(ctx, "/events/"+url.PathEscape(event))
	if err != nil {
		return line, "", failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if res.StatusCode == http.StatusNotFound {
		return line, problemTitle(res), nil
	}
	if err := answered(res); err != nil {
		return line, "", err
	}
	if err := json.NewDecoder(res.Body).Decode(&line); err != nil {
		return line, "", failed("the answer of the server is no event")
	}
	return line, "", nil
}

// rehearse lists what a chore would be done to.
func (p *program) rehearse(ctx context.Context, api eventsAPI, what chore, f *choreFlags, found []selected) error {
	n, missing := 0, 0
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	for _, e := range found {
		line := e.line
		if line == nil {
			looked, refused, err := api.summary(ctx, e.event)
			if err != nil {
				return err
			}
			if refused != "" {
				missing++
				p.tell("%s\n", "eyelet: "+shown(e.event)+": "+refused)
				if f.format == "json" {
					err = json.NewEncoder(p.Out).Encode(fate{Event: e.event, Result: "refused", Error: refused})
				}
				if err != nil {
					return err
				}
				continue
			}
			line = &looked
		}
		if n++; n == 1 && f.format == "text" {
			_, _ = fmt.Fprintln(t, eventHeads)
		}
		if f.format == "json" {
			if err := json.NewEncoder(p.Out).Encode(line); err != nil {
				return err
			}
			continue
		}
		_, _ = fmt.Fprintln(t, eventRow(*line)) // Flush tells
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if f.format == "text" {
		p.say("would %s %s\n", what.verb, many(n, "event"))
	}
	if missing > 0 {
		return &failure{}
	}
	return nil
}

// fate is what became of one event. Error is why it was refused.
type fate struct {
	Event  string `json:"event"`
	Result string `json:"result"` // what was done, "skipped" or "refused"
	File   string `json:"file,omitempty"`
	Error  string `json:"error,omitempty"`
}

// job is work on many events.
type job struct {
	done    string // what is said of an event that it was done to: "reopened"
	format  string
	asked   bool // for progress
	inOrder bool // one after another
	lenient bool // the events were selected: that one changed in the meantime is no failure
	act     func(ctx context.Context, e selected) (fate, error)

	count, skipped, refused int
}

// work does a job to events, some at once, and says what became of them. The first error ends it.
func (p *program) work(ctx context.Context, events []selected, j *job) error {
	fates, ended := make(chan fate), make(chan error, 1)
	go func() {
		defer close(fates)
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(choreWorkers)
		if j.inOrder {
			group.SetLimit(1)
		}
		for _, e := range events {
			if inner.Err() != nil {
				break
			}
			group.Go(func() error {
				o, err := j.act(inner, e)
				if err == nil {
					fates <- o
				}
				return err
			})
		}
		ended <- errors.Join(group.Wait(), ctx.Err())
	}()
	bar := p.newProgress(j.asked, j.done, len(events))
	var lost error
	for o := range fates {
		lost = errors.Join(lost, p.note(j, o))
		bar.at(j.count + j.skipped + j.refused)
	}
	bar.end(j.count + j.skipped + j.refused)
	if err := errors.Join(<-ended, lost); err != nil {
		return failed("stopped after %d of %d: %v", j.count+j.skipped+j.refused, len(events), err)
	}
	return p.sumUp(j)
}

// note counts a fate and prints it where it is wanted.
func (p *program) note(j *job, o fate) error {
	switch {
	case o.Error == "":
		j.count++
		o.Result = j.done
	case j.lenient:
		j.skipped++
		o.Result = "skipped"
	default:
		j.refused++
		o.Result = "refused"
	}
	if j.format == "json" {
		return json.NewEncoder(p.Out).Encode(o)
	}
	if o.Error != "" {
		p.tell("%s\n", "eyelet: "+shown(o.Event)+": "+o.Result+": "+shown(o.Error))
	}
	return nil
}

func (p *program) sumUp(j *job) error {
	if j.format == "text" {
		p.say("%s %s", j.done, many(j.count, "event"))
		if j.skipped > 0 {
			p.say(", skipped %d", j.skipped)
		}
		p.say("\n")
	}
	if j.refused > 0 {
		return &failure{}
	}
	return nil
}
