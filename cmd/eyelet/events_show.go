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
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// showCommand shows one event, or exports deliveries.
func showCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "show [EVENT...]", Short: "Show one event with its payload, or export recorded deliveries",
		Args: cobra.ArbitraryArgs,
		Long: "Shows one event. With --raw its delivery is written to standard output as it was recorded, and with\n" +
			"--dir the deliveries of events that are named or selected, each as EVENT.http. Body, method and target\n" +
			"are byte for byte as they were kept. The fields Authorization and Cookie, and those that hold a\n" +
			"producer's credentials, are never kept. The files hold payloads: only their owner can read them.\n" +
			"-o curl and -o har write one delivery for other programs; `eyelet send` reads them.\n\n" + refHelp +
			" With --state, EVENT is one in that state.",
		Example: "  eyelet events show order-1234\n" +
			"  eyelet events show --raw 1-51iaa0tnruenounm2nthmo0uqst8qan3 > order.http\n" +
			"  eyelet events show --dir deliveries --producer gh --since 1d",
	}
	file := configFlag(c)
	format := c.Flags().StringP("output", "o", "text", "text, wide, json, curl or har")
	f := addFilterFlags(c, "")
	c.Flags().BoolVar(&f.all, "all", false, "all events")
	raw := c.Flags().Bool("raw", false, "write the delivery in the format of *.http files")
	dir := c.Flags().String("dir", "", "folder for the files of deliveries, created if missing")
	progress := c.Flags().Bool("progress", false, "print progress even without a terminal")
	c.RunE = func(c *cobra.Command, args []string) error {
		named, err := readEvents(p.In, args)
		if err != nil {
			return err
		}
		if *dir == "" && len(named) != 1 {
			return usage.Errorf("write eyelet events show EVENT, or --dir FOLDER", "no single event is named")
		}
		if slices.Contains(copyFormats, *format) && (*raw || *dir != "") {
			return usage.Errorf("leave out --raw or --dir", "-o %s is of one event", *format)
		}
		if err := f.check(named, args); err != nil {
			return err
		}
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			if *dir != "" {
				return exportTo(c, client, *dir, f, named, &results{program: p, done: "exported", format: *format,
					progress: *progress, lenient: len(named) == 0})
			}
			state := *f.values["state"]
			event, err := resolve(c.Context(), p, client, named[0], state)
			if err != nil {
				return err
			}
			switch {
			case slices.Contains(copyFormats, *format):
				s, err := p.loadOutline(c, *file)
				if err != nil {
					return err
				}
				return printCopy(c.Context(), p, client, event, deliveriesURL(s), *format)
			case *raw:
				return printRaw(c.Context(), p.Out, client, event)
			}
			return printEvent(c.Context(), p, client, event, state, *format)
		})
	}
	return c
}

// printEvent prints an event. With a state, the event must be in it.
func printEvent(ctx context.Context, p *program, client *opsclient.Client, event, state, format string) error {
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
	if format != "json" {
		return writeDetail(p, d, format)
	}
	return writeIndented(p.Out, text)
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
func writeDetail(p *program, d inspect.Detail, format string) error {
	var facts table.Table
	for _, row := range detailRows(d) {
		if row[1] != "" {
			facts.Row(row[0], sanitize(row[1]))
		}
	}
	tasks := p.table(format, "TASK", "STATE", "ATTEMPT", "NEXT", "WHY")
	tasks.Above = "\n"
	for _, task := range d.Tasks {
		tasks.Row(sanitize(task.Handler), table.State(task.State), task.Attempt, timeCell(task.Due),
			brief(taskReason(task)))
	}
	if err := errors.Join(facts.Write(p.Out), tasks.Write(p.Out), writeAttempts(p, d, format)); err != nil {
		return err
	}
	var b strings.Builder
	writeContent(&b, d.Header, d.Text)
	if len(d.Base64) > 0 {
		fmt.Fprintf(&b, "\n(%d bytes that are not text: eyelet events show --raw %s writes them)\n", len(d.Base64),
			d.Event.Event)
	}
	_, err := io.WriteString(p.Out, b.String())
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
		{"principal", d.Principal}, {"type", d.Type}, {"UNVERIFIED", d.Unverified},
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

// timeCell is a time in a table.
func timeCell(t *time.Time) any {
	if t == nil {
		return "-"
	}
	return *t
}

func timeText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

func printRaw(ctx context.Context, w io.Writer, client *opsclient.Client, event string) error {
	data, err := rawOf(ctx, client, event)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// rawOf returns the delivery of an event as an *.http file.
func rawOf(ctx context.Context, client *opsclient.Client, event string) ([]byte, error) {
	data, err := client.Raw(ctx, event)
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
		return nil, failf("%s: %s", refusal.Title, sanitize(event))
	}
	return data, err
}

// copyFormats are the forms of a delivery for other programs.
var copyFormats = []string{"curl", "har"}

// printCopy prints the delivery of an event as a curl command or a HAR file.
func printCopy(ctx context.Context, p *program, client *opsclient.Client, event, base, format string) error {
	rec, err := recorded(ctx, client, event)
	if err != nil {
		return err
	}
	if format == "curl" {
		command := rec.Curl(base+rec.Target, bodyFile(event))
		if strings.HasSuffix(command, "'@"+bodyFile(event)+"'") {
			p.eprintf("the body is long or not text: write it to %s, or use -o har\n", bodyFile(event))
		}
		_, err = p.Out.Write([]byte(shown(p, command) + "\n"))
		return err
	}
	text, err := rec.HAR(base + rec.Target)
	if err == nil {
		_, err = p.Out.Write(append(text, '\n'))
	}
	return err
}

// recorded returns the delivery of an event.
func recorded(ctx context.Context, client *opsclient.Client, event string) (*httpfile.File, error) {
	data, err := rawOf(ctx, client, event)
	if err != nil {
		return nil, err
	}
	return httpfile.Parse(event, data)
}

// bodyFile names the file with a body that a curl command cannot hold.
func bodyFile(event string) string { return "body-of-" + event }

// shown returns a text without control characters if it is for a terminal.
func shown(p *program, text string) string {
	if !isTerminal(p.Out) {
		return text
	}
	return printableLines(text)
}

func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Map(printable, line)
	}
	return strings.Join(lines, "\n")
}

// deliveriesURL returns the public base URL of the deliveries, else the address that serve listens
// on.
func deliveriesURL(s *config.Settings) string {
	scheme, listen := "http://", cmp.Or(s.Listen, config.DefaultListen)
	if s.HasTLS() {
		scheme = "https://"
	}
	if host, port, err := net.SplitHostPort(listen); err == nil && host == "" {
		listen = net.JoinHostPort("localhost", port)
	}
	return cmp.Or(strings.TrimSuffix(s.URL, "/"), scheme+listen)
}

// exportTo writes the deliveries of events to files in a folder.
func exportTo(c *cobra.Command, client *opsclient.Client, dir string, f *filters, named []string, r *results) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return usage.Errorf("", "folder %s: %s", dir, usage.Cause(err))
	}
	order := inspect.JobRequest{DryRun: true}
	if err := f.selection(c.Context(), r.program, client, &order, named); err != nil {
		return err
	}
	var events []string
	err := follow(c.Context(), client, order, func(line inspect.JobLine) error {
		if line.Selected != nil {
			noteSelection(c, r.program, order, line.Selected)
		} else {
			events = append(events, line.Event)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.begin(len(events))
	group, ctx := errgroup.WithContext(c.Context())
	group.SetLimit(opsclient.Workers)
	var one sync.Mutex
	for _, event := range events {
		group.Go(func() error {
			result, err := export(ctx, client, dir, event)
			if err != nil {
				return err
			}
			one.Lock()
			defer one.Unlock()
			return r.add(result)
		})
	}
	return r.end(group.Wait())
}

// export writes the delivery of an event to a file in a folder.
func export(ctx context.Context, client *opsclient.Client, dir, event string) (actionResult, error) {
	result := actionResult{Event: event}
	data, err := client.Raw(ctx, event)
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
		result.Error = refusal.Title
		return result, nil
	} else if err != nil {
		return result, err
	}
	result.File = filepath.Join(dir, filepath.Base(event)+".http")
	if err := atomicfile.WriteText(result.File, string(data)); err != nil {
		return result, failf("%s: %s", result.File, usage.Cause(err))
	}
	return result, nil
}
