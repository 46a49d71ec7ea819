package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// tailKinds are the kinds of entries that the tail can be limited to.
var tailKinds = []string{"delivery", "attempt", "hanging"}

// tailFilter selects entries of the tail.
type tailFilter struct {
	kind, endpoint, typ, handler string
	limit                        int
}

func eventsTailCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "tail", Short: "Follow deliveries and attempts as they happen", Args: cobra.NoArgs,
		Long: "Follows the running server from now on: a line for each delivery that it answers and each attempt\n" +
			"of a handler, until Ctrl-C or until the server stops. A slow reader loses lines and gets their\n" +
			"number; the server never waits for it. Of several receivers that share a store it follows the one\n" +
			"of this configuration, which each line names.",
	}
	file, format := configFlag(c), outputFlag(c)
	var f tailFilter
	c.Flags().StringVar(&f.kind, "kind", "", "delivery, attempt or hanging")
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "name of the endpoint")
	c.Flags().StringVar(&f.typ, "type", "", `event type, or "prefix*"`)
	c.Flags().StringVar(&f.handler, "handler", "", "name of a handler")
	c.Flags().IntVar(&f.limit, "limit", 0, "end after this many lines; 0 is no limit")
	completeFlag(c, "kind", tailKinds...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		client, _, err := p.running(c, *file)
		if err != nil {
			return err
		}
		return tail(c.Context(), p.Out, client, f, *format)
	}
	return c
}

func tail(ctx context.Context, w io.Writer, client *opsclient.Client, f tailFilter, format string) error {
	n := 0
	return client.Tail(ctx, func(line []byte, e opsapi.TailEntry) (bool, error) {
		if !f.matches(e) {
			return true, nil
		}
		n++
		text := tailRow(e)
		if format == "json" {
			text = string(line)
		}
		_, err := fmt.Fprintln(w, text)
		return f.limit == 0 || n < f.limit, err
	})
}

func (f tailFilter) check() error {
	switch {
	case f.kind != "" && !slices.Contains(tailKinds, f.kind):
		return usage.Errorf("write delivery, attempt or hanging", "--kind is %q", f.kind)
	case f.limit < 0:
		return usage.Errorf("leave it out to follow without a limit", "--limit is less than 0")
	}
	return nil
}

func (f tailFilter) matches(e opsapi.TailEntry) bool {
	if e.Kind == "lost" {
		return true
	}
	return (f.typ == "" || dedup.MatchType(f.typ, e.Type)) && (f.kind == "" || f.kind == e.Kind) &&
		(f.endpoint == "" || f.endpoint == e.Endpoint) && (f.handler == "" || f.handler == e.Handler)
}

// tailRow returns the line of an entry as text.
func tailRow(e opsapi.TailEntry) string {
	words, why := []string{e.Time.Format(time.RFC3339), e.Kind}, ""
	if e.Receiver != "" {
		words = slices.Insert(words, 1, sanitize(e.Receiver))
	}
	switch e.Kind {
	case "lost":
		return strings.Join(append(words, strconv.Itoa(e.Lost)+" lines: this reader is too slow"), " ")
	case "delivery":
		words = append(words, sanitize(e.Endpoint), sanitize(e.Type), strconv.Itoa(e.Status), e.Code)
		if e.Why != "" {
			why = ": " + sanitize(e.Why)
		}
	default:
		words = append(words, sanitize(e.Handler), sanitize(e.Type), "attempt "+strconv.Itoa(e.Attempt), e.State)
		if e.Reason != "" {
			words = append(words, sanitize(e.Reason))
		}
	}
	return strings.Join(append(words, sanitize(e.Event), sanitize(e.ID)), " ") + why
}
