package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// devScreen prints one line per delivery, with colours on a terminal only.
type devScreen struct {
	out    io.Writer // write errors are ignored: the exit code still has the result
	json   bool
	colour bool
	width  int // of the longest file name

	handlers bool // their outcomes are known
}

func (f *devCmd) newScreen(recs []devRecording) *devScreen {
	s := &devScreen{out: f.Out, json: f.format == "json", colour: f.terminal(f.Out), handlers: f.config != ""}
	for _, rec := range recs {
		s.width = max(s.width, len(rec.Name))
	}
	return s
}

// The colours of verdicts, as SGR codes.
var colours = map[string]string{
	verdictNew: "32", verdictDuplicate: "36", verdictConflict: "33", verdictQuarantined: "33", verdictRefused: "35",
	verdictFailed: "31",
}

func (s *devScreen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *devScreen) paint(code, text string) string {
	if !s.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *devScreen) delivery(o devResult) {
	if s.json {
		_ = json.NewEncoder(s.out).Encode(o) // see out
		return
	}
	why := cmp.Or(o.About, o.Type)
	if o.Verdict == verdictRefused || o.Verdict == verdictFailed {
		why = strings.Trim(why+": "+strings.ReplaceAll(o.Code, "_", " "), ": ")
	}
	mark := "ok  "
	if !o.OK {
		mark = s.paint("31", "FAIL")
	}
	verdict := s.paint(colours[o.Verdict], fmt.Sprintf("%-11s", o.Verdict))
	s.printf("%s %-*s  %s %d  %s\n", mark, s.width, o.File, verdict, o.Status, sanitize(why))
	for _, miss := range o.Misses {
		s.printf("       %s\n", sanitize(miss))
	}
	for _, handler := range o.Handlers {
		s.printf("       %s\n", sanitize(handler.text()))
	}
	if o.Handlers == nil && s.handlers && o.Verdict == verdictNew {
		s.printf("       no handler matches the type %s\n", sanitize(o.Type))
	}
	for line := range strings.Lines(o.Printed) {
		s.printf("       | %s\n", sanitize(strings.TrimRight(line, "\r\n")))
	}
	if !o.OK && o.Why != "" {
		s.printf("       why: %s\n", sanitize(o.Why))
	}
}

func (s *devScreen) summary(outcomes []devResult, wrongs []string, h stored) {
	n := map[string]int{}
	good := true
	for _, o := range outcomes {
		n[o.Verdict]++
		good = good && o.OK
	}
	if s.json {
		line := map[string]any{"deliveries": len(outcomes), "verdicts": n, "events": h.events,
			"quarantined": h.quarantined,
			"ok":          len(wrongs) == 0 && good}
		if len(wrongs) > 0 {
			line["wrong"] = wrongs
		}
		_ = json.NewEncoder(s.out).Encode(line) // see out
		return
	}
	var counts []string
	for _, v := range verdicts {
		if n[v] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	s.printf("\n%s: %s\n", count(len(outcomes), "delivery"), strings.Join(counts, ", "))
	if len(wrongs) > 0 {
		s.printf("%s\n", s.paint("31", "the store does not hold exactly what was accepted"))
		return
	}
	s.printf("the store holds exactly the %s, and %d quarantined\n", count(h.events, "accepted event"), h.quarantined)
}
