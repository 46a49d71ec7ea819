package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func eventsRefusedCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "refused [NUMBER]", Short: "Show deliveries that were refused", Args: cobra.MaximumNArgs(1),
		Long: "Lists the deliveries that the running server refused and still keeps, the newest first, or shows one\n" +
			"of them. With --save it is written as an *.http file, which only its owner can read. Of credentials\n" +
			"there are only the lengths, as in REDACTED(27). The body of an unauthenticated delivery may be anything.",
		Example: "  eyelet events refused --endpoint gh --since 1h\n" +
			"  eyelet events refused 17 --save refused.http",
	}
	file, format := configFlag(c), listFlag(c)
	filters := map[string]*string{
		"endpoint": c.Flags().String("endpoint", "", "name of the endpoint"),
		"code":     c.Flags().String("code", "", "reason, such as signature_mismatch or not_found"),
		"since":    c.Flags().String("since", "", "refused within, such as 1h or 7d"),
	}
	limit := c.Flags().Int("limit", defaultEvents, "maximum number")
	all := c.Flags().Bool("all", false, "no limit")
	save := c.Flags().String("save", "", "file for the delivery")
	c.RunE = func(c *cobra.Command, args []string) error {
		show := func(client *opsclient.Client) error {
			return showRefused(c.Context(), p.Out, client, args[0], *save, *format)
		}
		if len(args) == 0 {
			query, err := listQuery(filters, *limit, *all)
			if err != nil {
				return err
			}
			show = func(client *opsclient.Client) error {
				return printRefused(c.Context(), p, client, query, *format)
			}
		}
		if len(args) == 0 && *save != "" {
			return usage.Errorf("write eyelet events refused 17 --save FILE.http",
				"--save needs the number of a delivery")
		}
		client, _, err := p.running(c, *file)
		if err != nil {
			return err
		}
		return show(client)
	}
	return c
}

// printRefused prints the list.
func printRefused(ctx context.Context, p *program, client *opsclient.Client, q url.Values, format string) error {
	n := 0
	t := p.table(format, "TIME", "NUMBER", "ENDPOINT", "STATUS", "CODE", "PEER", "REQUEST", "SIZE", "MORE")
	err := client.EachRefused(ctx, q, func(line []byte, d inspect.Refused) error {
		if n++; format == "json" {
			_, err := fmt.Fprintf(p.Out, "%s\n", plainJSON(line))
			return err
		}
		more := ""
		if d.More > 0 {
			more = fmt.Sprintf("and %d more like it", d.More)
		}
		t.Row(d.Time, d.Number, sanitize(d.Endpoint), d.Status, sanitize(d.Code), table.Minor(sanitize(d.Peer)),
			brief(d.Method+" "+d.Target), table.Minor(sizeText(d.Size)), more)
		return nil
	})
	if err == nil && format != "json" && n == 0 {
		p.eprintf("no refused deliveries\n")
	}
	return errors.Join(refusedError(err), t.Write(p.Out))
}

// refusedError turns a refusal of the server into the message of the command.
func refusedError(err error) error {
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
		return failf("%s", sanitize(refusal.Title))
	}
	return err
}

func sizeText(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// showRefused prints one refused delivery, or writes it to a file.
func showRefused(ctx context.Context, w io.Writer, client *opsclient.Client, arg, save, format string) error {
	number, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return usage.Errorf("see eyelet events refused", "%q is not the number of a refused delivery", arg)
	}
	if save != "" {
		data, err := client.RawRefused(ctx, number)
		if err != nil {
			return refusedError(err)
		}
		if err := atomicfile.WriteText(save, string(data)); err != nil {
			return failf("%s: %s", save, usage.Cause(err))
		}
		return nil
	}
	d, text, err := client.Refused(ctx, number)
	if err != nil {
		return refusedError(err)
	}
	if format != "json" {
		return writeRefused(w, d)
	}
	return writeIndented(w, plainJSON(text))
}

// writeRefused writes a refused delivery as text, without control characters from clients.
func writeRefused(w io.Writer, d inspect.RefusedDetail) error {
	more := ""
	if d.More > 0 {
		more = fmt.Sprintf("%d like it are not kept", d.More)
	}
	body := d.BodyRead
	if d.BodyRead != "unread" {
		body = fmt.Sprintf("%s, %d bytes", d.BodyRead, d.Size)
	}
	if d.SHA256 != "" {
		body += fmt.Sprintf(", of which %d are kept; SHA-256 %s", d.Kept, d.SHA256)
	}
	var t table.Table
	for _, row := range [][2]string{
		{"number", strconv.FormatUint(d.Number, 10)}, {"time", timeText(&d.Time)}, {"endpoint", d.Endpoint},
		{"answer", strconv.Itoa(d.Status)}, {"code", d.Code}, {"why", d.Why}, {"peer", d.Peer},
		{"request", d.Method + " " + d.Target}, {"url", d.URL}, {"host", d.Host}, {"declared", sizeText(d.Declared)},
		{"body", body}, {"more", more},
	} {
		if row[1] != "" {
			t.Row(row[0], sanitize(row[1]))
		}
	}
	var b strings.Builder
	writeContent(&b, d.Header, d.Text)
	switch {
	case len(d.Base64) > 0:
		fmt.Fprintf(&b, "\n(%d bytes that are not text: eyelet events refused %d --save FILE.http writes them)\n",
			len(d.Base64), d.Number)
	case d.Hidden && d.Text == "":
		b.WriteString("\n(the body is hidden: it may hold a credential, and cannot be read as JSON)\n")
	}
	if err := t.Write(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plainJSON escapes the characters in JSON that could steer a terminal.
func plainJSON(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < 0x7f || printable(r) == r:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.Bytes()
}
