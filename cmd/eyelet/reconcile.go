package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/reconcile"
)

func reconcileCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "reconcile PRODUCER", Short: "Find the events that never came in the list of the vendor",
		Long: "The running server compares what the vendor says it sent with its store. What is missing is fetched,\n" +
			"or the vendor is asked to send it again. Without --since it compares what was not compared yet.\n\n" +
			"An event that may have been handled and forgotten is never taken in: --since cannot reach back beyond\n" +
			"the producer's window, or to before this store first served the producer. --adopt-before lifts the\n" +
			"second bound, for good. With -o json each line is the progress after a page, and the last the result.",
		Args: cobra.ExactArgs(1),
	}
	file, format := configFlag(c), outputFlag(c)
	since := c.Flags().String("since", "", "how far to look back: 24h, 3d")
	adopt := c.Flags().String("adopt-before", "", "events from this time (RFC 3339) on are of this store")
	dry := c.Flags().Bool("dry-run", false, "only count what is missing")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, s, err := p.running(c, *file)
		if err != nil {
			return err
		}
		result, err := client.Reconcile(c.Context(), args[0], *since, *adopt, *dry, func(pr reconcile.Progress) error {
			if *format == "json" {
				return p.encode(pr)
			}
			if pr.Ended.IsZero() {
				p.eprintf("%s listed, back to %s\n", count(pr.Listed, "event"), pr.At.Local().Format(time.DateTime))
			}
			return nil
		})
		if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
			found := usage.Errorf("", "%s", refusal.Title)
			if refusal.Status == http.StatusNotFound {
				found = usage.Errorf("write reconcile: {token: ...} at the producer in "+s.File, "%s", refusal.Title)
			}
			return found
		}
		if err == nil && *format != "json" {
			p.printf("%s\n", comparison(&result))
		}
		if err == nil && result.Error != "" {
			err = failf("the comparison stopped: %s; the next one continues there", result.Error)
		}
		return err
	}
	return c
}

// comparison describes the result of a comparison.
func comparison(p *reconcile.Progress) string {
	text := fmt.Sprintf("%s since %s, %d missed", count(p.Listed, "event"), p.Since.Local().Format(time.DateTime),
		p.Missed)
	for _, part := range []struct {
		n    int
		what string
	}{
		{p.Asked, "asked for"}, {p.GivenUp, "that did not come although asked for 5 times"}, {p.OnTheWay, "on the way"},
		{p.Unusable, "not usable: see the log"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if !p.Unknown.IsZero() {
		text += fmt.Sprintf("; what was sent before %s cannot be known", p.Unknown.Local().Format(time.DateTime))
	}
	return text
}
