package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/inspect"
)

const defaultEvents = 20

func (p *program) eventsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "events", Short: "Look at the events in the store, and run them again", Args: cobra.NoArgs,
		Long: "Shows the events that were accepted, and runs them again. The running server is asked through its\n" +
			"operations port; when none runs, the store is opened.",
	}
	c.AddCommand(
		p.eventsListCommand(), p.eventsShowCommand(), p.eventsRawCommand(), p.eventsTailCommand(),
		p.choreCommand(retrying), p.choreCommand(reopening),
	)
	return c
}

func (p *program) eventsListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List events, the newest first", Args: cobra.NoArgs}
	return p.listCommand(c, "")
}

// listCommand gives a command that lists events its flags; the state is fixed unless it is "".
func (p *program) listCommand(c *cobra.Command, state string) *cobra.Command {
	file, format := p.configFlag(c), outputFlag(c)
	filters := filterFlags(c, state)
	before := c.Flags().String("before", "", "seq from an earlier list: the next page")
	limit := c.Flags().Int("limit", defaultEvents, "at most so many")
	all := c.Flags().Bool("all", false, "without a limit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		filters.words["before"] = before
		query, err := eventsQuery(filters.words, filters.aside, *limit, *all)
		if err != nil {
			return err
		}
		return p.withEvents(c, *file, func(api eventsAPI) error {
			return p.listEvents(c.Context(), api, query, *format)
		})
	}
	return c
}

// eventsQuery turns the flags into parameters, which are checked here so that the mistake is the flag's.
func eventsQuery(filters map[string]*string, aside bool, limit int, all bool) (url.Values, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if all {
		q.Set("limit", "0")
	} else if limit < 1 {
		return nil, usage.Errorf("--all is without a limit", "--limit is less than 1")
	}
	for name, value := range filters {
		if *value == "" {
			continue
		}
		q.Set(name, *value)
		if name == "since" {
			d, err := config.ParseDuration(*value)
			if err != nil {
				return nil, usage.Errorf("write 30m, 12h or 7d", "--since is %q, want a duration", *value)
			}
			q.Set(name, d.String())
		}
	}
	if aside {
		q.Set("aside", "true")
	}
	if _, err := inspect.ParseFilter(q); err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	return q, nil
}

func (p *program) eventsShowCommand() *cobra.Command {
	return p.showCommand("Show one event with its payload", "")
}

// showCommand shows one event, which must be in the given state when there is one.
func (p *program) showCommand(short, state string) *cobra.Command {
	c := &cobra.Command{Use: "show EVENT", Short: short, Args: cobra.ExactArgs(1)}
	file := p.configFlag(c)
	format := c.Flags().StringP("output", "o", "json", "text or json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		return p.withEvents(c, *file, func(api eventsAPI) error {
			return p.showEvent(c.Context(), api, args[0], state, *format)
		})
	}
	return c
}

// eventsAPI is the events API of package inspect, of a running server or over a store that was opened for it.
type eventsAPI struct {
	do   func(*http.Request) (*http.Response, error)
	live bool // a server runs, and with it the handlers
}

func (a eventsAPI) get(ctx context.Context, path string) (*http.Response, error) {
	return a.send(ctx, http.MethodGet, path, nil)
}

// send sends a body of JSON, if any.
func (a eventsAPI) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return a.do(req)
}

// withEvents finds the running server, or opens the store.
func (p *program) withEvents(c *cobra.Command, file string, do func(eventsAPI) error) error {
	s, err := p.outline(c, file)
	if err != nil {
		return err
	}
	if api, ok, err := runningAPI(s, c.Context()); ok || err != nil {
		if err != nil {
			return err
		}
		return do(api)
	}
	if err := requireStore(s); err != nil {
		return err
	}
	store, err := s.OpenStore(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	api := inspect.API(store)
	return errors.Join(do(eventsAPI{do: func(r *http.Request) (*http.Response, error) {
		return askHandler(api, r), nil
	}}), store.Close())
}

// askHandler asks a handler of this process as if it were a server.
func askHandler(h http.Handler, req *http.Request) *http.Response {
	r, w := io.Pipe()
	started := make(chan *http.Response, 1)
	go func() {
		a := &answering{header: http.Header{}, pipe: w, started: started, body: r}
		h.ServeHTTP(a, req)
		a.WriteHeader(http.StatusOK)
		_ = w.Close() // never fails
	}()
	return <-started
}

// answering is a response that is read while it is written.
type answering struct {
	header  http.Header
	pipe    *io.PipeWriter
	body    *io.PipeReader
	started chan *http.Response
	wrote   bool
}

func (a *answering) Header() http.Header { return a.header }

func (a *answering) WriteHeader(status int) {
	if !a.wrote {
		a.wrote = true
		a.started <- &http.Response{StatusCode: status, Header: a.header, Body: a.body}
	}
}

func (a *answering) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.pipe.Write(b)
}

// answered makes an answer that is no list an error.
func answered(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return failed("%s", problemTitle(res))
}

// problemTitle returns what the API says is wrong.
func problemTitle(res *http.Response) string {
	var problem struct{ Title string }
	if json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem) != nil || problem.Title == "" {
		return http.StatusText(res.StatusCode)
	}
	return problem.Title
}

// eachEvent calls a function for each event of a list, with its line of JSON.
func (a eventsAPI) eachEvent(ctx context.Context, q url.Values, do func(line []byte, e inspect.Event) error) error {
	res, err := a.get(ctx, "/events?"+q.Encode())
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if err := answered(res); err != nil {
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			inspect.Event
			Error string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return failed("the answer of the server is no list of events")
		}
		if line.Error != "" {
			return failed("the list is not complete: %s", line.Error)
		}
		if err := do(lines.Bytes(), line.Event); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return failed("the list is not complete: %v", err)
	}
	return nil
}

func (p *program) listEvents(ctx context.Context, api eventsAPI, q url.Values, format string) error {
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	n := 0
	err := api.eachEvent(ctx, q, func(line []byte, e inspect.Event) error {
		if n++; format == "json" {
			_, err := fmt.Fprintf(p.Out, "%s\n", line)
			return err
		}
		if n == 1 {
			_, _ = fmt.Fprintln(t, eventHeads)
		}
		_, _ = fmt.Fprintln(t, eventRow(e)) // Flush tells
		return nil
	})
	if err == nil && format == "text" && n == 0 {
		p.tell("%s\n", "no events")
	}
	return errors.Join(err, t.Flush())
}

// eventHeads are the heads of the columns of eventRow.
const eventHeads = "ACCEPTED\tEVENT\tENDPOINT\tTYPE\tSTATE\tATTEMPT\tID"

func eventRow(e inspect.Event) string {
	state := e.State
	if e.QuarantineReason != "" {
		state += " (kept aside: " + e.QuarantineReason + " of " + shown(e.Original) + ")"
	} else if why := reasons(e); len(why) > 0 {
		state += " (" + strings.Join(why, ", ") + ")"
	}
	return strings.Join([]string{
		e.Accepted.Format(time.RFC3339), e.Event, shown(e.Endpoint), shown(e.Type), state, strconv.Itoa(e.Attempt), shown(cmp.Or(e.VendorID, e.ID)),
	}, "\t")
}

// reasons say why the tasks that the state of the event stands for are in it.
func reasons(e inspect.Event) []string {
	var why []string
	for _, t := range e.Tasks {
		if t.State == e.State && t.Reason != "" && !slices.Contains(why, shown(t.Reason)) {
			why = append(why, shown(t.Reason))
		}
	}
	return why
}

// showEvent prints an event; the state is the one that it must be in, "" for any.
func (p *program) showEvent(ctx context.Context, api eventsAPI, event, state, format string) error {
	res, err := api.get(ctx, "/events/"+url.PathEscape(event))
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if res.StatusCode == http.StatusNotFound {
		return failed("no such event: %s", shown(event))
	}
	if err := answered(res); err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return failed("the answer was cut: %v", err)
	}
	var pretty bytes.Buffer
	var e inspect.Detail
	if errors.Join(json.Indent(&pretty, text, "", "  "), json.Unmarshal(text, &e)) != nil {
		return failed("the answer of the server is no event")
	}
	if state != "" && e.State != state {
		return failed("event %s is not %s: it is %s", shown(event), state, e.State)
	}
	if format == "text" {
		return writeDetail(p.Out, e)
	}
	_, err = pretty.WriteTo(p.Out)
	return err
}
