package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

const defaultEvents = 20

func eventsCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "events", Short: "Look at the events in the store, and run them again", Args: cobra.NoArgs,
		Long: "Shows the accepted events, and runs them again. The running server is asked through its operations\n" +
			"port; when none runs, the store is opened.",
	}
	c.AddCommand(
		listCommand(p), showCommand(p), eventsTailCommand(p), eventsRefusedCommand(p), bulkCommand(p, retrying),
		bulkCommand(p, reopening), bulkCommand(p, rerunning), bulkCommand(p, forgetting),
	)
	return c
}

func listCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List events, the newest first", Args: cobra.NoArgs}
	file, format := configFlag(c), listFlag(c)
	filters := addFilterFlags(c, "")
	before := c.Flags().String("before", "", "seq from an earlier list: the next page")
	text := c.Flags().String("text", "", "in an identifier, the type, an attribute or the body; upper or lower case")
	limit := c.Flags().Int("limit", defaultEvents, "maximum number")
	all := c.Flags().Bool("all", false, "no limit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		filters.values["before"], filters.values["text"] = before, text
		query, err := eventsQuery(filters.values, filters.quarantined, *limit, *all)
		if err != nil {
			return err
		}
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			n, err := printEvents(c.Context(), p, client, query, *format)
			if err == nil && n == 0 {
				noteUnknown(c, p, query)
			}
			return err
		})
	}
	return c
}

// eventsQuery turns the flags into parameters. It checks them, so that errors name the flag.
func eventsQuery(filters map[string]*string, quarantined bool, limit int, all bool) (url.Values, error) {
	q, err := listQuery(filters, limit, all)
	if err != nil {
		return nil, err
	}
	if quarantined {
		q.Set("quarantined", "true")
	}
	if _, err := inspect.ParseFilter(q); err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	return q, nil
}

// listQuery turns the flags of any list into parameters.
func listQuery(filters map[string]*string, limit int, all bool) (url.Values, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if all {
		q.Set("limit", "0")
	} else if limit < 1 {
		return nil, usage.Errorf("--all lists without a limit", "--limit is less than 1")
	}
	for name, value := range filters {
		if *value == "" {
			continue
		}
		q.Set(name, *value)
		if name == "since" {
			if _, err := duration.Parse(*value); err != nil {
				return nil, usage.Errorf("write 30m, 12h or 7d", "--since is %q, want a duration", *value)
			}
		}
	}
	return q, nil
}

// recentEvents returns the newest events of the running server with their types, for completion.
func recentEvents(ctx context.Context, s *config.Settings) (words []string) {
	client, err := connect(ctx, s)
	if err != nil || client == nil {
		return nil
	}
	newest := url.Values{"limit": {strconv.Itoa(defaultEvents)}}
	_, _ = client.Each(ctx, newest, func(_ []byte, e inspect.Event) error {
		words = append(words, e.Event+"\t"+sanitize(e.Type)+" "+e.State)
		return nil
	})
	return words
}

// printEvents prints a list and returns its length.
func printEvents(
	ctx context.Context, p *program, client *opsclient.Client, q url.Values, format string,
) (n int, err error) {
	dead := q.Get("state") == dedup.Dead.String() || q.Has("quarantined")
	heads := eventHeads
	if dead {
		heads = append(slices.Clone(heads), "WHY")
	}
	t := p.table(format, heads...)
	searched, err := client.Each(ctx, q, func(line []byte, e inspect.Event) error {
		if n++; format == "json" {
			_, err := fmt.Fprintf(p.Out, "%s\n", line)
			return err
		}
		row := eventRow(e)
		if dead {
			row = append(row, whyOf(e))
		}
		t.Row(row...)
		return nil
	})
	if err == nil && format != "json" && n == 0 {
		p.eprintf("no events\n")
	}
	err = errors.Join(err, t.Write(p.Out))
	if err == nil && searched != nil {
		p.eprintf("%s\n", sayOf(*searched))
	}
	return n, err
}

// sayOf says how far a search looked and how to continue it.
func sayOf(s inspect.Searched) string {
	text := "searched " + count(s.Records, "event")
	if s.Back != nil {
		text += ", back to " + s.Back.Format(time.RFC3339)
	}
	if s.Dropped > 0 {
		text += fmt.Sprintf("; the body of %d is no longer kept", s.Dropped)
	}
	if s.Before > 0 {
		text += fmt.Sprintf("; for older ones add --before %d", s.Before)
	}
	return text
}

// eventHeads are the column heads of eventRow.
var eventHeads = []string{"ACCEPTED", "EVENT", "ENDPOINT", "TYPE", "STATE", "ATTEMPT", "ID"}

// quarantineText says why a delivery was quarantined, and of which event it is.
func quarantineText(e inspect.Event) string {
	text := "quarantined: " + e.QuarantineReason
	if e.Original != "" {
		text += " of " + sanitize(e.Original)
	}
	return text
}

func eventRow(e inspect.Event) []any {
	state := e.State
	if e.QuarantineReason != "" {
		state += " (" + quarantineText(e) + ")"
	} else if e.Note != "" && len(e.Tasks) == 0 { // no handler
		state += " (" + sanitize(e.Note) + ")"
	} else if why := reasons(e); len(why) > 0 {
		state += " (" + strings.Join(why, ", ") + ")"
	}
	if e.Unverified != "" {
		state += " UNVERIFIED"
	}
	var attempt any = e.Attempt
	if e.Attempt <= 1 {
		attempt = table.Minor(strconv.Itoa(e.Attempt))
	}
	return []any{e.Accepted, table.ID(e.Event), sanitize(e.Endpoint), sanitize(e.Type), table.State(state), attempt,
		table.Minor(sanitize(cmp.Or(e.VendorID, e.ID)))}
}

// reasons returns the reasons of the tasks in the state of the event.
func reasons(e inspect.Event) []string {
	var why []string
	for _, t := range e.Tasks {
		if t.State == e.State && t.Reason != "" && !slices.Contains(why, sanitize(t.Reason)) {
			why = append(why, sanitize(t.Reason))
		}
	}
	return why
}
