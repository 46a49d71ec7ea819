package replay

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The fields of a replay about the original delivery; see [Original].
const (
	FieldOriginalEvent    = "Eyelet-Original-Event"
	FieldOriginalAccepted = "Eyelet-Original-Accepted"
	FieldOriginalAttempt  = "Eyelet-Original-Attempt"
)

// neverExported are fields that are not exported, even if a store kept them.
var neverExported = []string{"Authorization", "Proxy-Authorization", "Cookie"}

// Export returns the delivery of a record, which must have its payload, as a recording. Method,
// target and body are kept octet for octet. The fields have canonical names, in the order of these
// names: their original letter case and Host are not kept. Each event of a batch is a delivery of
// its own, with the fields of the batch.
//
// The notes are producer, now (unix time of acceptance), event (our id), id and type (omitted if
// they do not fit a line), accepted (RFC 3339) and attempt (the highest of the tasks). The error
// is dedup.ErrNoPayload if the body was dropped. A head that cannot be written as HTTP/1.1 is an
// error too.
func Export(r dedup.Record) (*Recording, error) {
	if r.Dropped() {
		return nil, fmt.Errorf("event %q: %w", r.Event, dedup.ErrNoPayload)
	}
	attempt := 0
	for _, t := range r.Tasks {
		attempt = max(attempt, t.Attempt)
	}
	rec := &Recording{
		Name: r.Event + ".http", Method: r.Payload.Method, Target: r.Payload.Target, Proto: "HTTP/1.1",
		Body: r.Payload.Body,
	}
	for _, n := range [][2]string{
		{"producer", r.Payload.Producer}, {"now", strconv.FormatInt(r.Accepted.Unix(), 10)}, {"event", r.Event},
		{"id", cmp.Or(r.Payload.VendorID, r.Key.ID)}, {"type", r.Payload.Type},
		{"accepted", r.Accepted.UTC().Format(time.RFC3339Nano)}, {"attempt", strconv.Itoa(attempt)},
	} {
		if fitsLine(n[1]) {
			rec.SetNote(n[0], n[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Payload.Header)) {
		if !exported(name, r.Payload) {
			continue
		}
		for _, value := range r.Payload.Header[name] {
			rec.Fields = append(rec.Fields, Field{Name: name, Value: value})
		}
	}
	if _, err := rec.WriteTo(io.Discard); err != nil { // it would not parse as the same request
		return nil, err
	}
	return rec, nil
}

// exported reports whether a kept field is exported. The Content-Length of a batch is not that of
// its events.
func exported(name string, p dedup.Payload) bool {
	name = http.CanonicalHeaderKey(name)
	if name == "Content-Length" && p.Header.Get(name) != strconv.Itoa(len(p.Body)) {
		return false
	}
	return !slices.Contains(neverExported, name) && name != "Transfer-Encoding"
}

// fitsLine reports whether a note can hold the value unchanged.
func fitsLine(value string) bool {
	return value != "" && value == strings.TrimSpace(value) &&
		strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// Original returns fields with the notes of an exported recording: our id of the event, when it
// was accepted, and its attempts. They are hints: no signature covers them, and any client can
// forge them. Recordings without these notes have none.
func Original(rec *Recording) http.Header {
	h := http.Header{}
	for field, note := range map[string]string{
		FieldOriginalEvent: "event", FieldOriginalAccepted: "accepted", FieldOriginalAttempt: "attempt",
	} {
		if value := rec.Note(note); value != "" {
			h.Set(field, value)
		}
	}
	return h
}
