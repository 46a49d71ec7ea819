package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/inspect"
)

// showCommand shows one event. With a state, the event must be in it.
func showCommand(p *program, short, state string) *cobra.Command {
	c := &cobra.Command{Use: "show EVENT", Short: short, Args: cobra.ExactArgs(1),
		Long: short + ".\n\n" + refHelp}
	file, format := configFlag(c), outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			event, err := resolve(c.Context(), p, client, args[0], state)
			if err != nil {
				return err
			}
			return printEvent(c.Context(), p.Out, client, event, state, *format)
		})
	}
	return c
}

// printEvent prints an event. With a state, the event must be in it.
func printEvent(ctx context.Context, w io.Writer, client *opsclient.Client, event, state, format string) error {
	d, text, err := client.Event(ctx, event)
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok && refusal.Status == http.StatusNotFound {
		if len(event) < 4 {
			return failf("no such event: %s; of an id write the number before the hyphen, or at least 4 characters",
				sanitize(event))
		}
		return failf("no such event: %s", sanitize(event))
	} else if err != nil {
		return err
	}
	if state != "" && d.State != state {
		return failf("event %s is not %s: it is %s", sanitize(event), state, d.State)
	}
	if format == "text" {
		return writeDetail(w, d)
	}
	return writeIndented(w, text)
}

func writeIndented(w io.Writer, text []byte) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		return err
	}
	_, err := pretty.WriteTo(w)
	return err
}

// writeDetail writes an event as text, without control characters from clients.
func writeDetail(w io.Writer, d inspect.Detail) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range detailRows(d) {
		if row[1] != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", row[0], sanitize(row[1])) // Flush returns the error
		}
	}
	if len(d.Tasks) > 0 {
		_, _ = fmt.Fprint(t, "\nTASK\tSTATE\tATTEMPT\tNEXT\tWHY\n")
	}
	for _, task := range d.Tasks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", sanitize(task.Handler), task.State, task.Attempt,
			cmp.Or(timeText(task.Due), "-"), brief(taskReason(task)))
	}
	if err := errors.Join(t.Flush(), writeAttempts(w, d)); err != nil {
		return err
	}
	var b strings.Builder
	writeContent(&b, d.Header, d.Text)
	if len(d.Base64) > 0 {
		fmt.Fprintf(&b, "\n(%d bytes that are not text: eyelet events raw %s writes them)\n", len(d.Base64),
			d.Event.Event)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeContent writes fields and a body of a client, without control characters.
func writeContent(b *strings.Builder, header http.Header, text string) {
	if len(header) > 0 {
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(b, "%s: %s\n", sanitize(name), sanitize(value))
		}
	}
	if text != "" {
		b.WriteString("\n")
	}
	for line := range strings.Lines(text) {
		b.WriteString(strings.Map(printable, strings.TrimRight(line, "\r\n")) + "\n")
	}
}

// detailRows returns the rows of the event as a whole; rows without a value are not printed.
func detailRows(d inspect.Detail) [][2]string {
	state := d.State
	if d.QuarantineReason != "" {
		state += ", " + quarantineText(d.Event)
	}
	answer := ""
	if d.Response != nil {
		answer = strconv.Itoa(d.Response.Status)
	}
	return [][2]string{
		{"id", cmp.Or(d.VendorID, d.ID)}, {"event", d.Event.Event}, {"unique by", d.ID}, {"producer", d.Producer},
		{"principal", d.Principal}, {"type", d.Type},
		{"state", state}, {"accepted", timeText(&d.Accepted)}, {"finished", timeText(d.Finished)},
		{"expires", timeText(d.Expires)},
		{"answer", answer}, {"note", d.Note}, {"request", strings.TrimSpace(d.Method + " " + d.Target)},
	}
}

// taskReason returns the reason and the error of a task. The error may begin with the reason.
func taskReason(t inspect.Task) string {
	if t.Reason == "" || t.Error == "" || strings.HasPrefix(t.Error, t.Reason+":") {
		return cmp.Or(t.Error, t.Reason)
	}
	return t.Reason + ": " + t.Error
}

func timeText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}
