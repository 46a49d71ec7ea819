package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/dedup"
)

// tailFilter is what a person wants to see of the feed.
type tailFilter struct {
	kind, endpoint, typ, handler string
	limit                        int
}

func (p *program) eventsTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "tail", Short: "Follow deliveries and attempts as they happen", Args: cobra.NoArgs,
		Long: "Follows the running server: a line for each delivery that it answers and for each attempt of a handler,\n" +
			"from now on, until Ctrl-C or until the server stops. A reader that is too slow is told how many lines it\n" +
			"lost; the server never waits for it.",
	}
	file, format := p.configFlag(c), outputFlag(c)
	var f tailFilter
	c.Flags().StringVar(&f.kind, "kind", "", "delivery, attempt or hanging")
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "name of the endpoint")
	c.Flags().StringVar(&f.typ, "type", "", `event type, or "prefix*"`)
	c.Flags().StringVar(&f.handler, "handler", "", "name of a handler")
	c.Flags().IntVar(&f.limit, "limit", 0, "end after so many lines; 0 is without a limit")
	complete(c, "kind", "delivery", "attempt", "hanging")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		s, err := p.outline(c, *file)
		if err != nil {
			return err
		}
		api, ok, err := runningAPI(s, c.Context())
		if err != nil {
			return err
		}
		if !ok {
			return failed("no server runs, so there is nothing to follow; start one: eyelet serve --config %s", s.File)
		}
		return p.tail(c.Context(), api, f, *format)
	}
	return c
}

func (p *program) tail(ctx context.Context, api eventsAPI, f tailFilter, format string) error {
	res, err := api.get(ctx, "/tail")
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // a stream that is left
	if err := answered(res); err != nil {
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for n := 0; (f.limit == 0 || n < f.limit) && lines.Scan(); {
		if len(lines.Bytes()) == 0 {
			continue // a sign of life
		}
		var h happening
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			return failed("the answer of the server is no feed")
		}
		if !f.wants(h) {
			continue
		}
		n++
		line := h.row()
		if format == "json" {
			line = lines.Text()
		}
		if _, err := fmt.Fprintln(p.Out, line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return failed("the server is gone: %v", err)
	}
	return nil
}

func (f tailFilter) wants(h happening) bool {
	if h.Kind == "lost" {
		return true
	}
	return (f.typ == "" || dedup.MatchType(f.typ, h.Type)) &&
		(f.kind == "" || f.kind == h.Kind) && (f.endpoint == "" || f.endpoint == h.Endpoint) &&
		(f.handler == "" || f.handler == h.Handler)
}

// row is the line for a person.
func (h happening) row() string {
	words := []string{h.Time.Format(time.RFC3339), h.Kind}
	switch h.Kind {
	case "lost":
		return strings.Join(append(words, strconv.Itoa(h.Lost)+" lines: this reader is too slow"), " ")
	case "delivery":
		words = append(words, shown(h.Endpoint), shown(h.Type), strconv.Itoa(h.Status), h.Code)
	default:
		words = append(words, shown(h.Handler), shown(h.Type), "attempt "+strconv.Itoa(h.Attempt), h.State)
		if h.Reason != "" {
			words = append(words, shown(h.Reason))
		}
	}
	return strings.Join(append(words, shown(h.Event), shown(h.ID)), " ")
}
