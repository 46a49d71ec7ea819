package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// bulkAction is an action on events, which are named or selected.
type bulkAction struct {
	use, short, long string
	verb, done       string // "reopen", "reopened"
	state            string // of the events that it applies to
	adds             bool   // --add adds tasks for further handlers
	destroys         bool   // needs --yes
	again            bool   // asks unless --yes is given; --handler limits it to a handler, --force runs stale ones
}

var (
	reopening = bulkAction{
		use: "reopen", short: "Run dead letters and quarantined deliveries",
		long: "Makes the dead tasks of events pending again, with their attempts counted from zero. A quarantined\n" +
			"delivery runs once with its own payload; only --quarantined and --reason select it. The stored\n" +
			"response for duplicates does not change.",
		verb: "reopen", done: "reopened", state: "dead", adds: true,
	}
	rerunning = bulkAction{
		use: "rerun", short: "Run events again, also those that were handled",
		long: "Makes the tasks of events pending again, whether they are done or dead: a new run of the stored\n" +
			"event, with its attempts counted from zero. Earlier attempts stay in the history, and the stored\n" +
			"response for duplicates does not change. --handler runs the task of this handler alone. Refused are\n" +
			"events with an open task or without their payload, and quarantined deliveries, which reopen runs. An\n" +
			"event is refused too if a newer one of its lane was handled (newest), unless --force is given.\n\n" +
			rerunEffects + "\nIt asks before, and --yes answers; without a terminal it needs --yes.",
		verb: "rerun", done: "rerun", again: true,
	}
	retrying = bulkAction{
		use: "retry", short: "Run waiting events now",
		long: "Makes tasks that wait for their next attempt due now. Their attempts are not reset. For dead\n" +
			"letters use reopen.",
		verb: "retry", done: "made due", state: "pending",
	}
	forgetting = bulkAction{
		use: "forget", short: "Erase events with their payloads and their copies",
		long: "Forgets events that are done or dead, and the deliveries that were quarantined because of them, with\n" +
			"their payloads, their responses and their keys: a repeated delivery is a new event. An event that is\n" +
			"still open is refused. docs/operations.md lists where else data of an event may be, such as logs and\n" +
			"backups, and when the disk space is used again. Events that are selected by flags are forgotten with\n" +
			"--yes only, and all of a state with --all, too.",
		verb: "forget", done: "forgotten", destroys: true,
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
	force          bool
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
	file, format := configFlag(c), listFlag(c)
	f := &bulkFlags{filters: addFilterFlags(c, action.state)}
	f.destroys = action.destroys
	c.Flags().BoolVar(&f.all, "all", false, "all events")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the events and change nothing")
	c.Flags().BoolVar(&f.progress, "progress", false, "print progress even without a terminal")
	if action.destroys {
		c.Flags().BoolVar(&f.yes, "yes", false, "forget selected events for good")
	}
	if action.again {
		c.Flags().BoolVar(&f.yes, "yes", false, "run them again without asking")
		c.Flags().BoolVar(&f.force, "force", false, "also those that are older than what was handled in their lane")
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
	order, err := f.request(c, p, action, len(named) > 0)
	if err != nil {
		return err
	}
	return p.withEvents(c, f.config, func(client *opsclient.Client) error {
		if err := f.selection(c.Context(), p, client, &order, named); err != nil {
			return err
		}
		run := &bulkRun{command: c, client: client, order: order, results: results{program: p, done: action.done,
			format: f.format, progress: f.progress, lenient: len(named) == 0 && !action.again}}
		if f.dryRun {
			return run.list(action.verb)
		}
		if !f.yes && (action.again || action.destroys && len(named) == 0) {
			if err := run.permit(action); err != nil {
				return err
			}
		}
		if err := run.change(); err != nil {
			return err
		}
		if !client.Live && !action.destroys && run.count > 0 {
			p.eprintf("no server runs: they are run when serve starts\n")
		}
		return nil
	})
}

// request returns the job without its events. Handlers to add must be configured.
func (f *bulkFlags) request(c *cobra.Command, p *program, action bulkAction, named bool) (inspect.JobRequest, error) {
	order := inspect.JobRequest{Action: action.use}
	order.Force = f.force
	if action.destroys && named {
		order.State = *f.values["state"]
	}
	if f.only != "" {
		order.Handlers = []string{f.only}
	}
	if len(f.add) == 0 {
		return order, nil
	}
	if !named {
		return order, usage.Errorf("name the events", "--add is for events that are named")
	}
	src := p.source(c, f.config)
	src.Flags = nil // --producer is a filter here
	_, plan, err := buildPlan(c.Context(), src, false)
	if err != nil {
		return order, err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	for _, name := range f.add {
		if !slices.Contains(plan.HandlerNames, name) {
			return order, usage.Errorf(usage.DidYouMean(name, plan.HandlerNames), "unknown handler %q", name)
		}
		order.Tasks = append(order.Tasks, inspect.NewTask{Handler: name})
	}
	return order, nil
}

// follow calls do for each line of a job: of several jobs, if one cannot name all events.
func follow(ctx context.Context, client *opsclient.Client, order inspect.JobRequest,
	do func(inspect.JobLine) error) error {
	if len(order.Events) == 0 {
		return client.Job(ctx, order, do)
	}
	for chunk := range slices.Chunk(order.Events, inspect.MaxNamed) {
		order.Events = chunk
		if err := client.Job(ctx, order, do); err != nil {
			return err
		}
	}
	return nil
}

// bulkRun is a job that the command follows.
type bulkRun struct {
	results
	command *cobra.Command
	client  *opsclient.Client
	order   inspect.JobRequest
}

// change runs the job and prints the results.
func (r *bulkRun) change() error {
	return r.end(follow(r.command.Context(), r.client, r.order, func(line inspect.JobLine) error {
		if line.Selected != nil {
			r.begin(line.Selected.Total)
			noteSelection(r.command, r.program, r.order, line.Selected)
			return nil
		}
		return r.add(actionResult{Event: line.Event, Error: line.Error, Stale: line.Stale})
	}))
}

// list lists the events that the job would change.
func (r *bulkRun) list(verb string) error {
	r.order.DryRun = true
	t := r.table(r.format, eventHeads...)
	lines := json.NewEncoder(r.Out)
	err := follow(r.command.Context(), r.client, r.order, func(line inspect.JobLine) error {
		switch {
		case line.Selected != nil:
			noteSelection(r.command, r.program, r.order, line.Selected)
		case line.Error != "":
			r.refused++
			r.eprintf("eyelet: %s: %s\n", sanitize(line.Event), line.Error)
			if r.format == "json" {
				return lines.Encode(actionResult{Event: line.Event, Result: "refused", Error: line.Error})
			}
		case r.format == "json":
			return lines.Encode(line.Line)
		default:
			r.noteStale(line.Stale)
			r.count++
			t.Row(eventRow(*line.Line)...)
		}
		return nil
	})
	if err := errors.Join(err, t.Write(r.Out)); err != nil {
		return err
	}
	if r.format != "json" {
		r.printf("would %s %s\n", verb, count(r.count, "event"))
		r.sayStale()
	}
	if r.refused > 0 {
		return &failure{}
	}
	return nil
}

// permit asks whether the job may run, or refuses it. What comes later is not selected any more.
func (r *bulkRun) permit(action bulkAction) error {
	order, n, newest := r.order, len(r.order.Events), uint64(0)
	order.DryRun = true
	if n == 0 {
		err := follow(r.command.Context(), r.client, order, func(line inspect.JobLine) error {
			if line.Line != nil {
				n, newest = n+1, max(newest, line.Line.Seq)
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
		r.order.Filter += "&before=" + strconv.FormatUint(newest+1, 10)
	}
	if action.destroys {
		return usage.Errorf("look at them with --dry-run, then write --yes", "this would %s %s for good", action.verb,
			count(n, "event"))
	}
	return confirmRerun(r.program, n)
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
	Stale  bool   `json:"stale,omitempty"` // it will not run, because a newer event was handled
}

// results counts and prints what became of events.
type results struct {
	*program
	done     string // the result of success: "reopened"
	format   string
	progress bool // --progress
	lenient  bool // the events were selected: a changed one is skipped, not refused

	bar                            *progress
	total, count, skipped, refused int
	stale                          int // of count
}

// begin counts events that results will come of.
func (r *results) begin(events int) {
	r.total += events
	r.bar = cmp.Or(r.bar, newProgress(r.program, r.progress, r.done, r.total))
}

// ended is how many events have a result.
func (r *results) ended() int { return r.count + r.skipped + r.refused }

// add counts a result, and prints it as JSON or if it is a refusal.
func (r *results) add(o actionResult) error {
	switch {
	case o.Error == "":
		r.count++
		r.noteStale(o.Stale)
		o.Result = r.done
	case r.lenient:
		r.skipped++
		o.Result = "skipped"
	default:
		r.refused++
		o.Result = "refused"
	}
	defer func() { r.bar.at(r.ended()) }()
	if r.format == "json" {
		return json.NewEncoder(r.Out).Encode(o)
	}
	if o.Error != "" {
		r.eprintf("eyelet: %s: %s: %s\n", sanitize(o.Event), o.Result, sanitize(o.Error))
	}
	return nil
}

// end prints the summary. The error, if any, ended the results early.
func (r *results) end(err error) error {
	r.bar.end(r.ended())
	if err != nil && r.total > 0 {
		return failf("stopped after %d of %d: %v", r.ended(), r.total, err)
	} else if err != nil {
		return failf("%v", err)
	}
	if r.format != "json" {
		r.printf("%s %s", r.done, count(r.count, "event"))
		if r.skipped > 0 {
			r.printf(", skipped %d", r.skipped)
		}
		r.printf("\n")
		r.sayStale()
	}
	if r.refused > 0 {
		return &failure{}
	}
	return nil
}

func (r *results) noteStale(stale bool) {
	if stale {
		r.stale++
	}
}

// sayStale says how many events will not run.
func (r *results) sayStale() {
	if r.stale > 0 {
		r.printf("%d of %d are older than what was handled and will not run\n", r.stale, r.count)
	}
}
