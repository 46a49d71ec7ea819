package main

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/replay"
)

// sendOutcome is the outcome of one delivery of send or replay.
type sendOutcome struct {
	// outcome is that of the delivery draft (section 6.2), as forward handlers classify it.
	outcome forward.Outcome
	// verdict is the outcome in words. An accepted delivery is accepted, duplicate or kept aside
	// (quarantined); one without an answer failed.
	verdict string
}

// verdictText returns a verdict in the terms of the other commands. The one in JSON is stable.
func verdictText(verdict string) string {
	return strings.Replace(verdict, "kept aside", "quarantined", 1)
}

// outcomeOf classifies the response to a delivery, or the error that replay.Send returned without
// one.
func outcomeOf(rec *replay.Recording, r replay.Result, err error) sendOutcome {
	switch {
	case errors.Is(err, replay.ErrNoAnswer):
		return sendOutcome{forward.Classify(0, isKeyed(rec)), "failed"}
	case err != nil: // nothing was sent, and a repetition would fail too
		return sendOutcome{forward.Terminal, "failed"}
	}
	s := sendOutcome{outcome: forward.Classify(r.Status, isKeyed(rec))}
	var receipt struct{ Status string }
	_ = json.Unmarshal(r.Body, &receipt) // other receivers send no receipt
	switch {
	case s.outcome != forward.Accepted && r.Replayed:
		s.verdict = s.outcome.String() + ", as before"
	case s.outcome != forward.Accepted:
		s.verdict = s.outcome.String()
	case receipt.Status == "kept_aside":
		s.verdict = "kept aside"
	case r.Replayed:
		s.verdict = "duplicate"
	default:
		s.verdict = s.outcome.String()
	}
	return s
}

// isKeyed reports whether the recording carries an Idempotency-Key.
func isKeyed(rec *replay.Recording) bool {
	for _, f := range rec.Fields {
		if strings.EqualFold(f.Name, "Idempotency-Key") {
			return true
		}
	}
	return false
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
