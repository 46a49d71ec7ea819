package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/eyelet-dev/eyelet/inspect"
)

// writeDetail writes an event for a person. Whatever a stranger sent is shown without control characters.
func writeDetail(w io.Writer, d inspect.Detail) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range detailRows(d) {
		if row[1] != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", row[0], shown(row[1])) // Flush tells
		}
	}
	if len(d.Tasks) > 0 {
		_, _ = fmt.Fprint(t, "\nTASK\tSTATE\tATTEMPT\tNEXT\tWHY\n")
	}
	for _, task := range d.Tasks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", shown(task.Handler), task.State, task.Attempt,
			cmp.Or(timeText(task.Due), "-"), shown(why(task)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	if len(d.Header) > 0 {
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		for _, value := range d.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", shown(name), shown(value))
		}
	}
	switch {
	case len(d.Base64) > 0:
		fmt.Fprintf(&b, "\n(%d bytes that are no text: eyelet events raw %s writes them)\n", len(d.Base64), d.Event.Event)
	case d.Text != "":
		b.WriteString("\n")
		for line := range strings.Lines(d.Text) {
			b.WriteString(strings.Map(printable, strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// detailRows are what is told of the event as a whole; those without a value are left out.
func detailRows(d inspect.Detail) [][2]string {
	state := d.State
	if d.QuarantineReason != "" {
		state += ", kept aside: " + d.QuarantineReason + " of " + d.Original
	}
	answer := ""
	if d.Answer != nil {
		answer = strconv.Itoa(d.Answer.Status)
	}
	return [][2]string{
		{"id", cmp.Or(d.VendorID, d.ID)}, {"event", d.Event.Event}, {"unique by", d.ID}, {"producer", d.Producer}, {"principal", d.Principal}, {"type", d.Type},
		{"state", state}, {"accepted", timeText(&d.Accepted)}, {"finished", timeText(d.Finished)}, {"expires", timeText(d.Expires)},
		{"answer", answer}, {"note", d.Note}, {"request", strings.TrimSpace(d.Method + " " + d.Target)},
	}
}

// why says why a task is where it is; the text of an error may begin with the reason.
func why(t inspect.Task) string {
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

// printable replaces control characters, which could steer a terminal.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
