package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// The verdicts on a delivery.
const (
	verdictNew         = "new"
	verdictDuplicate   = "duplicate"
	verdictConflict    = "conflict"
	verdictQuarantined = "quarantined" // kept, but not run
	verdictRefused     = "refused"
	verdictFailed      = "failed"
)

var verdicts = []string{verdictNew, verdictDuplicate, verdictConflict, verdictQuarantined, verdictRefused,
	verdictFailed}

// verdictFor classifies the response to a delivery.
func verdictFor(status int, code string) string {
	switch code {
	case "accepted":
		return verdictNew
	case "replayed":
		return verdictDuplicate
	case "quarantined":
		return verdictQuarantined
	case "idempotency_key_reused":
		return verdictConflict
	}
	switch {
	case status >= 500:
		return verdictFailed
	case status >= 400:
		return verdictRefused
	}
	return verdictNew
}

// expectation is the expected result in the notes of a recording:
//
//	# expect: refused 401 digest_mismatch
//	# id: 8e03978e-40d5-43dd-bc93-6894a57f9324
//	# type: order.paid
//	# sha256: 65ff...
//
// sha256 is the digest of the rest of the file, for bytes that no signature covers.
type expectation struct {
	now           time.Time
	verdict, code string // "" expects nothing
	status        int
	id, typ       string
}

// notesKnown are the notes that dev reads. Others are ignored, unless they look like a misspelled
// one.
var notesKnown = []string{"about", "producer", "now", "expect", "id", "type", "sha256"}

func expectationOf(rec *httpfile.File) (expectation, error) {
	e := expectation{id: rec.Note("id"), typ: rec.Note("type")}
	for _, n := range rec.Notes {
		if near := usage.Nearest(n.Name, notesKnown); near != "" && !slices.Contains(notesKnown, n.Name) {
			return e, noteError(rec, n.Name, fmt.Sprintf("did you mean %q?", near), "unknown note %q", n.Name)
		}
	}
	var err error
	if e.now, err = arrival(rec, ""); err != nil {
		return e, err
	}
	words := strings.Fields(rec.Note("expect"))
	if len(words) == 0 {
		return e, nil
	}
	const hint = `write "# expect: new 202" or "# expect: refused 401 digest_mismatch"`
	if len(words) < 2 || len(words) > 3 || !slices.Contains(verdicts, words[0]) {
		return e, noteError(rec, "expect", hint, "an expectation is a verdict (%s), a status and an optional code",
			strings.Join(verdicts, ", "))
	}
	if e.status, err = strconv.Atoi(words[1]); err != nil || e.status < 100 || e.status > 599 {
		return e, noteError(rec, "expect", hint, "%q is not a status", words[1])
	}
	e.verdict = words[0]
	if len(words) == 3 {
		e.code = words[2]
	}
	return e, nil
}

func noteError(rec *httpfile.File, note, hint, format string, args ...any) error {
	var e *httpfile.Error
	errors.As(rec.Errorf(note, format, args...), &e)
	return &usage.Error{At: usage.Place{File: e.File, Line: e.Line}, What: usage.OneLine(e.Msg), Hint: hint}
}

// misses lists the differences from the expectation.
func (e expectation) misses(o devResult) []string {
	var out []string
	miss := func(what string, want, got any) {
		out = append(out, fmt.Sprintf("expected %s %v, got %v", what, want, got))
	}
	if e.verdict != "" && e.verdict != o.Verdict {
		miss("verdict", e.verdict, o.Verdict)
	}
	if e.status != 0 && e.status != o.Status {
		miss("status", e.status, o.Status)
	}
	if e.code != "" && e.code != o.Code {
		miss("code", e.code, o.Code)
	}
	if e.id != "" && e.id != o.ID {
		miss("id", e.id, sanitize(o.ID))
	}
	if e.typ != "" && e.typ != o.Type {
		miss("type", e.typ, sanitize(o.Type))
	}
	return out
}

// digestLike also matches a damaged note, because a change of any byte must be found, those of the
// note included.
var (
	digestLike = regexp.MustCompile(`(?m)^(?:#.*[0-9a-f]{31}.*|.*sha256: [0-9a-f]{31}.*)\n?`)
	digestNote = regexp.MustCompile(`^# sha256: ([0-9a-f]{64})\n$`)
)

// tampered returns how a recording differs from its note sha256, the digest of the rest of the
// file. Bundled recordings must have the note.
func tampered(data []byte, bundled bool) string {
	at := digestLike.FindIndex(data)
	if at == nil {
		if bundled {
			return `the note "sha256" is missing`
		}
		return ""
	}
	note := digestNote.FindSubmatch(data[at[0]:at[1]])
	sum := sha256.Sum256(append(slices.Clone(data[:at[0]]), data[at[1]:]...))
	if note == nil || hex.EncodeToString(sum[:]) != string(note[1]) {
		return "the file has changed since it was recorded: its sha256 differs (remove that note if you changed it)"
	}
	return ""
}
