package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/replay"
)

// sendOutcome is the outcome of one delivery of send or replay.
type sendOutcome struct {
	// outcome is that of the delivery draft (section 6.2), as forward handlers classify it.
	outcome forward.Outcome
	// verdict is the outcome in words. An accepted delivery is accepted, duplicate or quarantined;
	// one without an answer failed.
	verdict string
}

// outcomeOf classifies the response to a delivery, or the error that replay.Send returned without
// one.
func outcomeOf(rec *replay.Recording, r replay.Result, err error) sendOutcome {
	_, keyed := rec.Header()["Idempotency-Key"]
	switch {
	case errors.Is(err, replay.ErrNoAnswer):
		return sendOutcome{forward.Classify(0, keyed), "failed"}
	case err != nil: // nothing was sent, and a repetition would fail too
		return sendOutcome{forward.Terminal, "failed"}
	}
	s := sendOutcome{outcome: forward.Classify(r.Status, keyed)}
	var receipt struct{ Status string }
	_ = json.Unmarshal(r.Body, &receipt) // other receivers send no receipt
	switch {
	case s.outcome != forward.Accepted && r.Replayed:
		s.verdict = s.outcome.String() + ", as before"
	case s.outcome != forward.Accepted:
		s.verdict = s.outcome.String()
	case receipt.Status == "quarantined":
		s.verdict = verdictQuarantined
	case r.Replayed:
		s.verdict = "duplicate"
	default:
		s.verdict = s.outcome.String()
	}
	return s
}

// exitOf returns the exit code for these outcomes: terminal ones outweigh transient ones.
func exitOf(outcomes ...forward.Outcome) int {
	code := exitOK
	for _, o := range outcomes {
		switch {
		case o == forward.Accepted:
		case o == forward.Transient && code == exitOK:
			code = exitTransient
		case o != forward.Transient:
			code = exitFailed
		}
	}
	return code
}

// exitWith returns an error that ends the program with the code and a message, which may be empty;
// nil for exitOK.
func exitWith(code int, what string) error {
	if code == exitOK {
		return nil
	}
	return &failure{what: what, code: code}
}

// adviceFields are the fields of a response that say what to do next.
var adviceFields = []string{"WWW-Authenticate", "Accept-Signature", "Retry-After", "Deprecation", "Sunset", "Link"}

// sent is what is known about a delivery that was sent.
type sent struct {
	rec *replay.Recording
	now time.Time // of its signature
	replay.Result
	err error // without an answer
	sendOutcome
}

// sentObject is the same in JSON.
type sentObject struct {
	File         string            `json:"file"`
	Event        string            `json:"event,omitempty"`
	Status       int               `json:"status,omitempty"`
	Outcome      string            `json:"outcome"`
	Verdict      string            `json:"verdict"`
	Code         string            `json:"code,omitempty"`
	Error        string            `json:"error,omitempty"`
	Replayed     bool              `json:"replayed"`
	Body         string            `json:"body"`
	Took         float64           `json:"took"`
	Sent         int               `json:"sent"` // bytes
	SignedOffset float64           `json:"signed_offset"`
	ClockOffset  *float64          `json:"receiver_clock_offset,omitempty"`
	Fields       map[string]string `json:"fields,omitempty"` // advice
	Hint         string            `json:"hint,omitempty"`
}

func (s sent) object() sentObject {
	o := sentObject{File: s.rec.Name, Event: s.rec.Note("event"), Status: s.Status, Outcome: s.outcome.String(),
		Verdict: s.verdict, Code: s.Code, Replayed: s.Replayed, Body: string(s.Body), Took: s.Took.Seconds(),
		Sent: len(s.rec.Body), SignedOffset: time.Until(s.now).Round(time.Second).Seconds(),
		Fields: map[string]string{}, Hint: versionHint(s.rec, s.Result)}
	if s.err != nil {
		o.Error = s.err.Error()
	}
	if offset, dated := clockOffset(s.Result); dated {
		seconds := offset.Seconds()
		o.ClockOffset = &seconds
	}
	for _, name := range adviceFields {
		if value := s.Header.Get(name); value != "" {
			o.Fields[strings.ToLower(strings.ReplaceAll(name, "-", "_"))] = value
		}
	}
	return o
}

// printLine prints one line, of an acceptance without a reservation only if not just failures are
// wanted.
func (s sent) printLine(p *program, failures bool) {
	if !failures || s.outcome != forward.Accepted || s.verdict == verdictQuarantined {
		p.printf("%s: %s\n", s.rec.Name, s.line())
	}
}

// line returns the outcome in one line.
func (s sent) line() string {
	if s.err != nil {
		return s.verdict + ": " + usage.OneLine(s.err.Error())
	}
	line := fmt.Sprintf("%d %s", s.Status, s.verdict)
	if s.Code != "" {
		line += ": " + sanitize(s.Code)
	}
	return line
}

// print prints all that is known.
func (s sent) print(p *program) {
	p.printf("%s\n", s.line())
	if detail := problemDetail(s.Result); detail != "" {
		p.printf("%s\n", sanitize(detail))
	} else if body := strings.TrimSpace(string(s.Body)); body != "" && s.Code == "" {
		p.printf("%s\n", sanitize(body))
	}
	if s.outcome != forward.Accepted {
		s.printRefusal(p)
	}
	if s.verdict == verdictQuarantined {
		p.printf("hint: its signed bytes or its identifier are known, so it may be a replay: change them, such as\n" +
			"with --override; or read it (eyelet events list --quarantined), and run it with eyelet events reopen\n")
	}
	if hint := versionHint(s.rec, s.Result); hint != "" {
		p.printf("hint: %s\n", hint)
	}
}

var (
	versionMember = regexp.MustCompile(`"((?:api|event)_?[vV]ersion)":"([^"]+)"`)
	datedVersion  = regexp.MustCompile(`\b20\d\d-\d\d-\d\d(?:\.\w+)?`)
)

// versionHint says how to send another version of the vendor's API, if an application that is not a
// receiver of ours refused a delivery that has one: libraries of vendors compare it with theirs.
func versionHint(rec *httpfile.File, r replay.Result) string {
	sent := versionMember.FindSubmatch(rec.Body)
	if sent == nil || r.Code != "" || r.Status < 400 || r.Status > 499 {
		return ""
	}
	wanted := "VERSION"
	for _, other := range datedVersion.FindAllString(string(r.Body), -1) {
		if other != string(sent[2]) {
			wanted = other
		}
	}
	return fmt.Sprintf("the delivery has %s %s; if the application wants another: --override %s=%s", sent[1], sent[2],
		sent[1], wanted)
}

// printRefusal prints what a refusal says about the next attempt, and the times.
func (s sent) printRefusal(p *program) {
	for _, name := range adviceFields {
		if value := s.Header.Get(name); value != "" && name != "Link" {
			p.printf("%s: %s\n", name, sanitize(value))
		}
	}
	if at := time.Until(s.now).Round(time.Second); at < -time.Second || at > time.Second {
		p.printf("signed for %s, which is %s\n", s.now.UTC().Format(time.RFC3339), relative(at, "now"))
	}
	if offset, _ := clockOffset(s.Result); offset < -2*time.Second || offset > 2*time.Second {
		p.printf("the receiver's clock is %s\n", relative(offset, "ours"))
	}
}

// relative returns an offset in words: 2s before now.
func relative(offset time.Duration, to string) string {
	if offset < 0 {
		return fmt.Sprintf("%s before %s", duration.Rough(-offset), to)
	}
	return fmt.Sprintf("%s after %s", duration.Rough(offset), to)
}

// clockOffset returns how far the receiver's clock is ahead of ours, from the Date of its response
// (RFC 9110 section 6.6.1), which has whole seconds.
func clockOffset(r replay.Result) (offset time.Duration, ok bool) {
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return date.Sub(time.Now().Truncate(time.Second)), true
}

// problemDetail returns the detail or the title of a problem (RFC 9457); "" without one.
func problemDetail(r replay.Result) string {
	var problem struct{ Title, Detail string }
	if r.Code == "" || json.Unmarshal(r.Body, &problem) != nil {
		return ""
	}
	return cmp.Or(problem.Detail, problem.Title)
}
