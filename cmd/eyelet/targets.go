package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// targetsFile is the file in the store's folder that keeps what the targets of forward handlers taught us.
const targetsFile = "targets.json"

// openTargets gives the state its file. A store in memory has none.
func openTargets(c *config.Settings, state *forward.State, log *slog.Logger) error {
	file, err := c.StoreFile(targetsFile)
	if err != nil {
		return err
	}
	if err := state.Open(file, log); err != nil {
		return usage.Errorf("move the file away to have every target switched on, where the configuration says it is", "%v", err)
	}
	return nil
}

// targetLine is a line of the list of targets.
type targetLine struct {
	Name      string    `json:"name"`
	On        bool      `json:"on"`
	Since     time.Time `json:"since,omitzero"` // off since
	Reason    string    `json:"reason,omitempty"`
	Terminals int       `json:"terminals"`
	Moved     string    `json:"moved,omitempty"` // as it is shown
	Sunset    time.Time `json:"sunset,omitzero"`
	Legal     time.Time `json:"legal,omitzero"`
}

func targetsOf(state *forward.State) []targetLine {
	all := []targetLine{}
	for _, s := range state.List() {
		t := targetLine{Name: s.Name, On: !s.Off, Since: s.Since, Reason: s.Reason, Terminals: s.Terminals, Sunset: s.Sunset, Legal: s.Legal}
		if s.Moved != "" {
			t.Moved = forward.RedactURL(s.Moved)
		}
		all = append(all, t)
	}
	return all
}

// tellOff names the targets that are switched off, for readiness. The receiver is ready all the same: it
// accepts events, and they wait.
func tellOff(w io.Writer, state *forward.State) {
	for _, t := range targetsOf(state) {
		if !t.On {
			_, _ = fmt.Fprintf(w, "target %s is switched off since %s: %s\n", t.Name, t.Since.Format(time.RFC3339), usage.OneLine(t.Reason))
		}
	}
}

// targetsAPI serves GET /targets, a JSON array, and POST /targets?name=NAME&switch=on|off&reason=TEXT.
func targetsAPI(state *forward.State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)         // <secret>
		_ = e.Encode(targetsOf(state)) // a reader that is gone asks again
	})
	mux.HandleFunc("POST /targets", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		err := switchTarget(state, q.Get("name"), q.Get("switch"), q.Get("reason"))
		switch {
		case errors.Is(err, forward.ErrUnknownTarget):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, errSwitch):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, "done, but a restart would undo it: "+err.Error(), http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}

var errSwitch = errors.New("switch is neither on nor off")

func switchTarget(state *forward.State, name, to, reason string) error {
	switch to {
	case "on":
		return state.SwitchOn(name)
	case "off":
		return state.SwitchOff(name, reason, time.Now())
	}
	return errSwitch
}

func (p *program) targetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "targets", Short: "Look at the targets of forward handlers, and switch them on and off", Args: cobra.NoArgs,
		Long: "A target has the name of its handler. One that answers 410, or refuses too many events in a row for\n" +
			"good, is switched off: its events wait until `eyelet targets on NAME`. The running server is asked\n" +
			"through its operations port; when none runs, the file in the store's folder is changed.",
	}
	list := &cobra.Command{Use: "list", Short: "List the targets", Args: cobra.NoArgs}
	file, format := p.configFlag(list), outputFlag(list)
	list.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		return p.withTargets(c, *file, false, func(h http.Handler) error { return p.listTargets(c.Context(), h, *format) })
	}
	c.AddCommand(list, p.targetSwitch("on", "Send events to a target again"), p.targetSwitch("off", "Let the events of a target wait"))
	return c
}

func (p *program) targetSwitch(to, short string) *cobra.Command {
	c := &cobra.Command{Use: to + " NAME", Short: short, Args: cobra.ExactArgs(1)}
	file := p.configFlag(c)
	reason := new(string)
	if to == "off" {
		reason = c.Flags().String("reason", "a person switched it off", "why")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		q := url.Values{"name": {args[0]}, "switch": {to}, "reason": {*reason}}
		return p.withTargets(c, *file, true, func(h http.Handler) error {
			status, text, err := askOnce(c.Context(), h, http.MethodPost, "/targets?"+q.Encode())
			switch {
			case err != nil:
				return err
			case status == http.StatusNotFound:
				return usage.Errorf("`eyelet targets list` names them", "no target is called %q", args[0])
			case status != http.StatusNoContent:
				return failed("%s", text)
			}
			_, err = fmt.Fprintf(p.Out, "target %s is switched %s\n", args[0], to)
			if to == "on" {
				p.tell("its events go on within %v; at once with: eyelet events retry --handler '%s'\n", config.FormatDuration(forward.LongestOffWait), args[0])
			}
			return err
		})
	}
	return c
}

func (p *program) listTargets(ctx context.Context, h http.Handler, format string) error {
	status, text, err := askOnce(ctx, h, http.MethodGet, "/targets")
	var all []targetLine
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &all) != nil {
		return errors.Join(failed("the answer of the server is no list of targets"), err)
	}
	if format == "json" {
		e := json.NewEncoder(p.Out)
		e.SetEscapeHTML(false) // <secret>
		for _, t := range all {
			if err := e.Encode(t); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(p.Err, "no targets: no handler has the setting forward")
		return err
	}
	w := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TARGET\tSTATE\tREFUSED IN A ROW\tNOTES")
	for _, t := range all {
		state := "on"
		if !t.On {
			state = "off since " + t.Since.Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", shown(t.Name), state, t.Terminals, shown(strings.Join(t.notes(), "; ")))
	}
	return w.Flush()
}

func (t *targetLine) notes() []string {
	var notes []string
	if t.Reason != "" {
		notes = append(notes, usage.OneLine(t.Reason))
	}
	if t.Moved != "" {
		notes = append(notes, "moved to "+t.Moved)
	}
	if !t.Sunset.IsZero() {
		notes = append(notes, "ends "+t.Sunset.Format(time.RFC3339))
	}
	if !t.Legal.IsZero() {
		notes = append(notes, "answered 451 at "+t.Legal.Format(time.RFC3339))
	}
	return notes
}

// withTargets finds the running server, or takes the store's lock and works on the file. Only what changes a
// target makes a store where there is none.
func (p *program) withTargets(c *cobra.Command, file string, changes bool, do func(http.Handler) error) error {
	s, err := p.outline(c, file)
	if err != nil {
		return err
	}
	if api, ok, err := runningAPI(s, c.Context()); err != nil {
		return err
	} else if ok {
		return do(api)
	}
	missing := requireStore(s)
	if kind, _, err := s.StoreKind(); missing != nil && (err != nil || kind == "memory") {
		return missing
	}
	src := p.source(c, file)
	src.Flags = &pflag.FlagSet{} // --reason is no setting
	if s, err = src.Load(); err != nil {
		return err // without a server the names of the targets are in the handlers
	}
	plan, err := s.Build(c.Context(), config.BuildOptions{Stdout: io.Discard, TestKeys: true})
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // nothing was opened
	if missing != nil && !changes {
		return do(targetsAPI(plan.Targets)) // nothing was learned yet
	}
	store, err := s.OpenStore(slog.New(slog.DiscardHandler)) // nobody else has the file as long as we have the store
	if err != nil {
		return err
	}
	if err := openTargets(s, plan.Targets, nil); err != nil {
		return errors.Join(err, store.Close())
	}
	return errors.Join(do(targetsAPI(plan.Targets)), store.Close())
}

// ServeHTTP passes a request on to the running server.
func (a eventsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	res, err := a.send(r.Context(), r.Method, r.URL.RequestURI(), nil)
	if err != nil {
		http.Error(w, "the server did not answer", http.StatusBadGateway)
		return
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(res.Body, 4<<20))
}

// askOnce sends a request to a handler of this process and returns its whole answer.
func askOnce(ctx context.Context, h http.Handler, method, path string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		return 0, "", err
	}
	a := &heard{header: http.Header{}}
	h.ServeHTTP(a, req)
	return a.status, strings.TrimSpace(a.text.String()), nil
}

// heard is a response that stays in memory.
type heard struct {
	header http.Header
	status int
	text   strings.Builder
}

func (a *heard) Header() http.Header { return a.header }

func (a *heard) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *heard) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.text.Write(b)
}
