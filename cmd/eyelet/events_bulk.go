package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// bulkWorkers is the number of events that are changed at once, which share commits of the store.
const bulkWorkers = opsclient.Workers

// bulkAction is an action on events, which are named or selected.
type bulkAction struct {
	use, short, long string
	verb, done       string // "reopen", "reopened"
	state            string // of the events that it applies to
	method, path     string // of the request for one event, after /events/EVENT
	adds             bool   // --add adds tasks for further handlers
	careful          bool   // selects quarantined deliveries only if a flag asks for them
	destroys         bool   // needs --yes
	again            bool   // asks unless --yes is given; --handler limits it to the task of a handler
}

var (
	reopening = bulkAction{
		use: "reopen", short: "Run dead letters and quarantined deliveries",
		long: "Makes the dead tasks of events pending again, with their attempts counted from zero. A quarantined\n" +
			"delivery runs once with its own payload; only --quarantined and --reason select it. The stored\n" +
			"response for duplicates does not change.",
		verb: "reopen", done: "reopened", state: "dead", method: http.MethodPost, path: "/reopen", adds: true,
		careful: true,
	}
	rerunning = bulkAction{
		use: "rerun", short: "Run events again, also those that were handled",
		long: "Makes the tasks of events pending again, whether they are done or dead: a new run of the stored\n" +
			"event, with its attempts counted from zero. Earlier attempts stay in the history, and the stored\n" +
			"response for duplicates does not change. --handler runs the task of this handler alone. Refused are\n" +
			"events with an open task or without their payload, and quarantined deliveries, which reopen runs.\n\n" +
			rerunEffects + "\nIt asks before, and --yes answers; without a terminal it needs --yes.",
		verb: "rerun", done: "rerun", method: http.MethodPost, path: "/rerun", careful: true, again: true,
	}
	retrying = bulkAction{
		use: "retry", short: "Run waiting events now",
		long: "Makes tasks that wait for their next attempt due now. Their attempts are not reset. For dead\n" +
			"letters use reopen.",
		verb: "retry", done: "made due", state: "pending", method: http.MethodPost, path: "/retry",
	}
	forgetting = bulkAction{
		use: "forget", short: "Erase events with their payloads and their copies",
		long: "Forgets events that are done or dead, and the deliveries that were quarantined because of them, with\n" +
			"their payloads, their responses and their keys: a repeated delivery is a new event. An event that is\n" +
			"still open is refused. docs/operations.md lists where else data of an event may be, such as logs and\n" +
			"backups, and when the disk space is used again. Events that are selected by flags are forgotten with\n" +
			"--yes only, and all of a state with --all, too.",
		verb: "forget", done: "forgotten", method: http.MethodPost, path: "/forget", destroys: true,
	}
)

// rerunEffects says what a second run does.
const rerunEffects = "The handlers have their effects again, also in transactions of the store. Effects that\n" +
	"the package once has marked do not happen again: the mark is of the event, so those handlers\n" +
	"end without a run."

// bulkFlags are the flags of a bulk action.
type bulkFlags struct {
	config, format string
	dryRun, yes    bool
	progress       bool
	add            []string
	only           string // the handler that runs again; all if empty
	*filters
}

func bulkCommand(p *program, action bulkAction) *cobra.Command {
	c := &cobra.Command{
		Use: action.use + " [EVENT...]", Short: action.short, Args: cobra.ArbitraryArgs,
		Long: action.long + "\n\n" +
			refHelp + "\n\"-\" reads them from standard input, one per line. Without any, all events that match the\n" +
			"flags are taken, the oldest first. Exits 1 when one was refused.",
	}
	file, format := configFlag(c), outputFlag(c)
	f := &bulkFlags{filters: addFilterFlags(c, action.state)}
	f.careful, f.destroys = action.careful, action.destroys
	c.Flags().BoolVar(&f.all, "all", false, "all events")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the events and change nothing")
	c.Flags().BoolVar(&f.progress, "progress", false, "print progress even without a terminal")
	if action.destroys {
		c.Flags().BoolVar(&f.yes, "yes", false, "forget selected events for good")
	}
	if action.again {
		c.Flags().BoolVar(&f.yes, "yes", false, "run them again without asking")
	}
	if action.adds {
		c.Flags().StringArrayVar(&f.add, "add", nil, "handler, by name, to add a task for")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		f.config, f.format = *file, *format
		return runBulk(c, p, action, f, args)
	}
	return c
}

func runBulk(c *cobra.Command, p *program, action bulkAction, f *bulkFlags, args []string) error {
	named, err := readEvents(p.In, args)
	if err != nil {
		return err
	}
	if action.again {
		f.only = *f.values["handler"]
		if len(args) > 0 {
			*f.values["handler"] = "" // it selects no events
		}
	}
	if err := f.check(named, args); err != nil {
		return err
	}
	action.state = *f.values["state"]
	body, err := f.request(c, p, len(named) > 0)
	if err != nil {
		return err
	}
	return p.withEvents(c, f.config, func(client *opsclient.Client) error {
		found, err := f.selection(c, p, client, named)
		if err != nil {
			return err
		}
		if f.skipped > 0 {
			p.eprintf("skipped %s in quarantine; --quarantined selects those\n", count(f.skipped, "delivery"))
		}
		if f.dryRun {
			return dryRun(c.Context(), p, client, action, f, found)
		}
		if action.destroys && len(named) == 0 && !f.yes && len(found) > 0 {
			return usage.Errorf("look at them with --dry-run, then write --yes", "this would %s %s for good",
				action.verb, count(len(found), "event"))
		}
		if action.again && !f.yes {
			if err := confirmRerun(p, len(found)); err != nil {
				return err
			}
		}
		r := &bulkRun{program: p, done: action.done, format: f.format, progress: f.progress,
			lenient: len(named) == 0 && !action.again, inOrder: mayHaveLanes(found)}
		r.apply = func(ctx context.Context, e selected) (string, error) {
			return "", action.apply(ctx, client, e, body)
		}
		if err := r.run(c.Context(), found); err != nil {
			return err
		}
		if !client.Live && !action.destroys && r.count > 0 {
			p.eprintf("no server runs: they are run when serve starts\n")
		}
		return nil
	})
}

// mayHaveLanes reports whether an event is in a lane, or was named and not looked up. Such events
// are reopened one by one, so that none overtakes an older one of its lane.
func mayHaveLanes(found []selected) bool {
	for _, e := range found {
		if e.line == nil || slices.ContainsFunc(e.line.Tasks, func(t inspect.Task) bool { return t.Lane != "" }) {
			return true
		}
	}
	return false
}

// request returns the body of the requests: the handler that runs again, or the handlers to add,
// which must be configured.
func (f *bulkFlags) request(c *cobra.Command, p *program, named bool) ([]byte, error) {
	if f.only != "" {
		return json.Marshal(inspect.RerunRequest{Handlers: []string{f.only}})
	}
	if len(f.add) == 0 {
		return nil, nil
	}
	if !named {
		return nil, usage.Errorf("name the events", "--add is for events that are named")
	}
	src := p.source(c, f.config)
	src.Flags = nil // --producer is a filter here
	_, plan, err := buildPlan(c.Context(), src, false)
	if err != nil {
		return nil, err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	var request inspect.ReopenRequest
	for _, name := range f.add {
		if !slices.Contains(plan.HandlerNames, name) {
			return nil, usage.Errorf(usage.DidYouMean(name, plan.HandlerNames), "unknown handler %q", name)
		}
		request.Tasks = append(request.Tasks, inspect.NewTask{Handler: name})
	}
	return json.Marshal(request)
}

// apply applies the action to one event. A [*opsclient.Refusal] concerns this event; another error
// ends the run.
func (a bulkAction) apply(ctx context.Context, client *opsclient.Client, e selected, body []byte) error {
	if a.destroys && a.state != "" && e.line == nil {
		d, _, err := client.Event(ctx, e.event)
		if err != nil {
			return err
		}
		if d.State != a.state {
			return &opsclient.Refusal{Title: "it is not " + a.state + ": it is " + d.State}
		}
	}
	return client.Change(ctx, e.event, a.method, a.path, body)
}

// dryRun lists the events that an action would change.
func dryRun(ctx context.Context, p *program, client *opsclient.Client, action bulkAction, f *bulkFlags,
	found []selected) error {
	n, missing := 0, 0
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	lines := json.NewEncoder(p.Out)
	for _, e := range found {
		line, why := e.line, ""
		if line == nil {
			d, _, err := client.Event(ctx, e.event)
			if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
				why = refusal.Title
			} else if err != nil {
				return err
			}
			line = &d.Event
		}
		if why == "" && action.again {
			why = f.refuses(line)
		}
		if why != "" {
			missing++
			p.eprintf("eyelet: %s: %s\n", sanitize(e.event), why)
			if f.format == "json" {
				if err := lines.Encode(actionResult{Event: e.event, Result: "refused", Error: why}); err != nil {
					return err
				}
			}
			continue
		}
		if n++; n == 1 && f.format == "text" {
			_, _ = fmt.Fprintln(t, eventHeads)
		}
		if f.format == "json" {
			if err := lines.Encode(line); err != nil {
				return err
			}
			continue
		}
		_, _ = fmt.Fprintln(t, eventRow(*line)) // Flush returns the error
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if f.format == "text" {
		p.printf("would %s %s\n", action.verb, count(n, "event"))
	}
	if missing > 0 {
		return &failure{}
	}
	return nil
}

// refuses returns why the event cannot run again, or "".
func (f *bulkFlags) refuses(e *inspect.Event) string {
	chosen := slices.DeleteFunc(slices.Clone(e.Tasks), func(t inspect.Task) bool {
		return f.only != "" && t.Handler != f.only
	})
	open := func(t inspect.Task) bool { return t.State == "pending" || t.State == "running" }
	err := dedup.ErrNoTask
	switch {
	case len(chosen) == 0:
	case slices.ContainsFunc(chosen, open):
		err = dedup.ErrOpen
	case e.Dropped:
		err = dedup.ErrNoPayload
	default:
		return ""
	}
	return err.Error()
}

// confirmRerun asks whether events may run again.
func confirmRerun(p *program, events int) error {
	in, ok := p.In.(*os.File)
	switch {
	case events == 0:
		return nil
	case !ok || !term.IsTerminal(int(in.Fd())):
		return usage.Errorf("look at them with --dry-run, then write --yes",
			"this runs the handlers of %s again, with their effects, and there is no terminal to ask",
			count(events, "event"))
	}
	p.eprintf("%s\n\nRun %s again? [y/N] ", rerunEffects, count(events, "event"))
	return confirmed(in)
}

// confirmed reads the answer to a question: nil is yes.
func confirmed(in io.Reader) error {
	answer, err := bufio.NewReader(in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil && err != io.EOF { //nolint:errorlint // ReadString never wraps it
		return err
	}
	return failf("nothing was changed")
}

// actionResult is the result for one event. Error is why it was refused.
type actionResult struct {
	Event  string `json:"event"`
	Result string `json:"result"` // done, "skipped" or "refused"
	File   string `json:"file,omitempty"`
	Error  string `json:"error,omitempty"`
}

// bulkRun applies an action to many events.
type bulkRun struct {
	*program
	done     string // the result of success: "reopened"
	format   string
	progress bool // --progress
	inOrder  bool // one event after another
	lenient  bool // the events were selected: a changed one is skipped, not refused
	// apply applies the action to one event and returns the file that it wrote, if any.
	apply func(ctx context.Context, e selected) (file string, err error)

	count, skipped, refused int
}

// run applies the action to several events at once and prints the results. It ends at the first
// error that is not a refusal.
func (r *bulkRun) run(ctx context.Context, events []selected) error {
	results, ended := make(chan actionResult), make(chan error, 1)
	go func() {
		defer close(results)
		ended <- r.applyAll(ctx, events, results)
	}()
	bar := newProgress(r.program, r.progress, r.done, len(events))
	var lost error
	for o := range results {
		lost = errors.Join(lost, r.add(o))
		bar.at(r.total())
	}
	bar.end(r.total())
	if err := errors.Join(<-ended, lost); err != nil {
		return failf("stopped after %d of %d: %v", r.total(), len(events), err)
	}
	return r.summarize()
}

// applyAll sends a result for each event.
func (r *bulkRun) applyAll(ctx context.Context, events []selected, results chan<- actionResult) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(bulkWorkers)
	if r.inOrder {
		group.SetLimit(1)
	}
	for _, e := range events {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error {
			result := actionResult{Event: e.event}
			file, err := r.apply(inner, e)
			if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
				result.Error = refusal.Title
			} else if err != nil {
				return err
			}
			result.File = file
			results <- result
			return nil
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}

func (r *bulkRun) total() int { return r.count + r.skipped + r.refused }

// add counts a result, and prints it as JSON or if it is a refusal.
func (r *bulkRun) add(o actionResult) error {
	switch {
	case o.Error == "":
		r.count++
		o.Result = r.done
	case r.lenient:
		r.skipped++
		o.Result = "skipped"
	default:
		r.refused++
		o.Result = "refused"
	}
	if r.format == "json" {
		return json.NewEncoder(r.Out).Encode(o)
	}
	if o.Error != "" {
		r.eprintf("eyelet: %s: %s: %s\n", sanitize(o.Event), o.Result, sanitize(o.Error))
	}
	return nil
}

func (r *bulkRun) summarize() error {
	if r.format == "text" {
		r.printf("%s %s", r.done, count(r.count, "event"))
		if r.skipped > 0 {
			r.printf(", skipped %d", r.skipped)
		}
		r.printf("\n")
	}
	if r.refused > 0 {
		return &failure{}
	}
	return nil
}
