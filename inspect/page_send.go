package inspect

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// FieldEdited is a field of a delivery that was edited and sent from the page, beside those of
// [replay.Original]. No signature covers it.
const FieldEdited = "Eyelet-Edited"

// maxEdited is the largest body that can be edited, in bytes. A form has up to three for each.
const maxEdited = 64 << 10

// Sent is the response to a delivery that was edited and sent.
type Sent struct {
	Status int
	Code   string // of a problem
}

// String describes the response.
func (s Sent) String() string {
	if s.Code != "" {
		return fmt.Sprintf("answered %d, %s", s.Status, strings.ReplaceAll(s.Code, "_", " "))
	}
	return fmt.Sprintf("answered %d", s.Status)
}

// editable returns the body of a delivery as a form can hold it.
func editable(r *dedup.Record) (text string, ok bool) {
	text = string(r.Payload.Body)
	ok = len(text) <= maxEdited && !r.Dropped() && utf8.ValidString(text) && clean(text) == text &&
		r.Payload.Attributes[receiver.UnverifiedAttribute] == "" // it would be signed
	return text, ok
}

// edited returns a body from a form, which has every end of a line as CRLF.
func edited(r *dedup.Record, text string) []byte {
	if !strings.Contains(string(r.Payload.Body), "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return []byte(text)
}
