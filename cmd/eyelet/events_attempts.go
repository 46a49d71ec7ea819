package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/duration"
)

// writeAttempts draws a timeline of the attempts of each task, and the whole last error if its row
// has only a part of it.
func writeAttempts(p *program, d inspect.Detail, format string) error {
	for _, task := range d.Tasks {
		if len(task.Attempts) == 0 {
			continue
		}
		t := p.table(format)
		t.Above = "\nATTEMPTS of " + sanitize(task.Handler) + "\n"
		before := inspect.Attempt{}
		for _, a := range task.Attempts {
			if left := a.Number - before.Number - 1; left > 0 {
				t.Row("  :", count(left, "attempt")+" more")
			}
			t.Row(fmt.Sprintf("  %d", a.Number), timeCell(a.Started), tookText(a), table.State(outcomeText(a)),
				brief(taskReason(inspect.Task{Reason: a.Reason, Error: a.Error})))
			if a.Reopened != nil {
				t.Row("  :", timeCell(a.Reopened), "run again by an operator")
			}
			before = a
		}
		if task.Due != nil && before.State == "pending" {
			t.Row("  :", timeCell(task.Due), "next")
		}
		if err := errors.Join(t.Write(p.Out), writeReplies(p.Out, task), writeError(p.Out, task, t.Cut)); err != nil {
			return err
		}
	}
	return nil
}

// writeReplies writes what the target answered. Equal replies in a row are written once.
func writeReplies(w io.Writer, task inspect.Task) error {
	var b strings.Builder
	before := ""
	for _, a := range task.Attempts {
		if a.Reply != "" && a.Reply != before {
			fmt.Fprintf(&b, "\nRESPONSE to attempt %d of %s\n", a.Number, sanitize(task.Handler))
			for line := range strings.Lines(a.Reply) {
				fmt.Fprintf(&b, "  %s\n", strings.Map(printable, strings.TrimRight(line, "\r\n")))
			}
		}
		before = a.Reply
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// outcomeText names what followed an attempt.
func outcomeText(a inspect.Attempt) string {
	if a.State == "pending" {
		return "again"
	}
	return a.State
}

func tookText(a inspect.Attempt) string {
	if a.Started == nil || a.Ended == nil {
		return "-"
	}
	return duration.Rough(a.Ended.Sub(*a.Started))
}

// writeError writes the last error of a task with its lines, if its row was cut or shows a part.
func writeError(w io.Writer, task inspect.Task, cut bool) error {
	why := taskReason(task)
	if why == "" || brief(why) == why && !cut {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nLAST ERROR of %s\n", sanitize(task.Handler))
	for line := range strings.Lines(why) {
		fmt.Fprintf(&b, "  %s\n", strings.Map(printable, strings.TrimRight(line, "\r\n")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxBrief is the length of an error in a row, in characters.
const maxBrief = 100

// brief returns an error for a row: on one line, and a long one without its middle. Programs end
// with what made them fail.
func brief(why string) string {
	text := sanitize(strings.ReplaceAll(strings.TrimSpace(why), "\n", " | "))
	if utf8.RuneCountInString(text) <= maxBrief {
		return text
	}
	all := []rune(text)
	const head = maxBrief / 3
	return string(all[:head]) + " ... " + string(all[len(all)-(maxBrief-head-5):])
}

// whyOf returns why an event is a dead letter: the errors of its dead tasks.
func whyOf(e inspect.Event) string {
	var all []string
	add := func(why string) {
		if !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	for _, t := range e.Tasks {
		if t.State == "dead" {
			add(taskReason(t))
		}
	}
	if len(all) == 0 {
		add(e.QuarantineReason)
	}
	if e.QuarantineReason == "malformed" {
		add(e.Note)
	}
	return brief(strings.Join(all, "; "))
}
