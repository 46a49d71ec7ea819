package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/inspect"
)

const defaultEvents = 20

func (p *program) eventsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "events", Short: "Look at the events in the store", Args: cobra.NoArgs,
		Long: "Shows the events that were accepted. The running server is asked through its operations port; when\n" +
			"none runs, the store is opened.",
	}
	c.AddCommand(p.eventsListCommand(), p.eventsShowCommand())
	return c
}

func (p *program) eventsListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List events, the newest first", Args: cobra.NoArgs}
	file, format := p.configFlag(c), outputFlag(c)
	filters := map[string]*string{}
	for name, help := range map[string]string{
		"id": "idempotency identifier", "producer": "name of the producer", "endpoint": "name of the endpoint",
		"type": `event type, or "prefix*"`, "handler": "name of a handler with a task", "before": "seq from an earlier list: the next page",
		"state": "pending, running, done or dead; several with commas", "since": "accepted within, such as 1h or 7d",
	} {
		filters[name] = c.Flags().String(name, "", help)
	}
	aside := c.Flags().Bool("aside", false, "only deliveries that were kept aside")
	limit := c.Flags().Int("limit", defaultEvents, "at most so many")
	all := c.Flags().Bool("all", false, "without a limit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		query, err := eventsQuery(filters, *aside, *limit, *all)
		if err != nil {
			return err
		}
		return p.withEvents(c, *file, func(ask asking) error {
			return p.listEvents(c.Context(), ask, query, *format)
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
		return nil, wrong("--all is without a limit", "--limit is less than 1")
	}
	for name, value := range filters {
		if *value == "" {
			continue
		}
		q.Set(name, *value)
		if name == "since" {
			d, err := parseDuration(*value)
			if err != nil {
				return nil, wrong("write 30m, 12h or 7d", "--since is %q, want a duration", *value)
			}
			q.Set(name, d.String())
		}
	}
	if aside {
		q.Set("aside", "true")
	}
	if _, err := inspect.ParseFilter(q); err != nil {
		return nil, wrong("", "%v", err)
	}
	return q, nil
}

func (p *program) eventsShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show EVENT", Short: "Show one event with its payload", Args: cobra.ExactArgs(1)}
	file := p.configFlag(c)
	format := c.Flags().StringP("output", "o", "json", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *format != "json" {
			return wrong("write -o json", "unknown output %q", *format)
		}
		return p.withEvents(c, *file, func(ask asking) error {
			return p.showEvent(c.Context(), ask, args[0])
		})
	}
	return c
}

// asking sends a request to the events API.
type asking func(ctx context.Context, path string) (*http.Response, error)

// withEvents finds the running server, or opens the store.
func (p *program) withEvents(c *cobra.Command, file string, do func(asking) error) error {
	src := p.source(c, file)
	src.flags = &pflag.FlagSet{} // --producer and the like are no settings
	s, err := src.load()
	if err != nil {
		return err
	}
	if ask := s.runningServer(c.Context()); ask != nil {
		return do(ask)
	}
	kind, dir, err := s.storeKind()
	if err != nil {
		return wrong("", "%v", err)
	}
	if kind == "memory" {
		return wrong("start one: eyelet serve --config "+s.file, "no server runs, and a store in memory is gone with its server")
	}
	if _, err := os.Stat(dir); err != nil {
		return &mistake{at: s.Node.place("store"), what: "there is no store yet: " + dir + ": " + cause(err), hint: "serve makes it when it starts"}
	}
	store, err := s.openStore(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	api := inspect.API(store)
	return errors.Join(do(func(ctx context.Context, path string) (*http.Response, error) {
		return askHandler(ctx, api, path)
	}), store.Close())
}

// runningServer returns how to ask the server of these settings, or nil when none answers.
func (s *settings) runningServer(ctx context.Context) asking {
	dir, err := s.stateDir()
	if err != nil {
		return nil
	}
	token, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		return nil
	}
	address, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil {
		return nil
	}
	client := &http.Client{}
	ask := func(ctx context.Context, path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strings.TrimSpace(string(address))+path, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		return client.Do(req)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := ask(ctx, "/events?limit=1&id=-")
	if err != nil {
		return nil // it is gone and left its files behind
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil // somebody else has the port
	}
	return ask
}

// askHandler asks a handler of this process as if it were a server.
func askHandler(ctx context.Context, h http.Handler, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	started := make(chan *http.Response, 1)
	go func() {
		a := &answering{header: http.Header{}, pipe: w, started: started, body: r}
		h.ServeHTTP(a, req)
		a.WriteHeader(http.StatusOK)
		_ = w.Close() // never fails
	}()
	return <-started, nil
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
	var problem struct{ Title string }
	if json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&problem) != nil || problem.Title == "" {
		problem.Title = http.StatusText(res.StatusCode)
	}
	return failed("%s", problem.Title)
}

func (p *program) listEvents(ctx context.Context, ask asking, q url.Values, format string) error {
	res, err := ask(ctx, "/events?"+q.Encode())
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if err := answered(res); err != nil {
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	n := 0
	for lines.Scan() {
		var line struct {
			inspect.Event
			Error string `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return failed("the answer of the server is no list of events")
		}
		if line.Error != "" {
			return errors.Join(failed("the list is not complete: %s", line.Error), t.Flush())
		}
		if n++; format == "json" {
			if _, err := fmt.Fprintf(p.Out, "%s\n", lines.Bytes()); err != nil {
				return err
			}
			continue
		}
		if n == 1 {
			_, _ = fmt.Fprintln(t, "ACCEPTED\tEVENT\tENDPOINT\tTYPE\tSTATE\tATTEMPT\tID")
		}
		_, _ = fmt.Fprintln(t, eventRow(line.Event)) // Flush tells
	}
	if err := lines.Err(); err != nil {
		return failed("the list is not complete: %v", err)
	}
	if format == "text" && n == 0 {
		p.tell("%s\n", "no events")
	}
	return t.Flush()
}

func eventRow(e inspect.Event) string {
	state := e.State
	if e.Aside != "" {
		state += " (kept aside: " + e.Aside + ")"
	}
	return strings.Join([]string{
		e.Accepted.Format(time.RFC3339), e.Event, shown(e.Endpoint), shown(e.Type), state, strconv.Itoa(e.Attempt), shown(e.ID),
	}, "\t")
}

func (p *program) showEvent(ctx context.Context, ask asking, event string) error {
	res, err := ask(ctx, "/events/"+url.PathEscape(event))
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if err := answered(res); err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return failed("the answer was cut: %v", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		return failed("the answer of the server is no event")
	}
	_, err = pretty.WriteTo(p.Out)
	return err
}
