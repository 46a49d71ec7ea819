package verify

import (
	"net/http"
	"slices"
	"strings"
)

// TrimOWS returns a field value without the optional white space around it: spaces and tabs, and nothing else (RFC 9110
// section 5.6.3). Every reader of a field value uses it. A reader with a wider notion of white space would take another
// value out of a field than the one that was signed.
func TrimOWS(value string) string { return strings.Trim(value, " \t") }

// Normalize returns the request with the optional white space around every field value taken off, which is not a part of
// the value (RFC 9110 section 5.5). HTTP/1 has taken it off already, other transports and programs may not have. It
// returns r itself where there is none, and otherwise a copy with a header of its own.
//
// A receiver verifies a normalized request, reads identifiers from it and keeps its fields. What was verified is then
// what everything after it reads.
func Normalize(r *http.Request) *http.Request {
	var header http.Header
	for name, lines := range r.Header {
		trimmed := trimLines(lines)
		if len(lines) == 0 || &trimmed[0] == &lines[0] {
			continue
		}
		if header == nil {
			header = make(http.Header, len(r.Header))
			for name, lines := range r.Header {
				header[name] = lines
			}
		}
		header[name] = trimmed
	}
	if header == nil {
		return r
	}
	out := r.WithContext(r.Context())
	out.Header = header
	return out
}

// trimLines returns the lines of a field without the optional white space around each. It returns the same slice where
// there is none.
func trimLines(lines []string) []string {
	if !slices.ContainsFunc(lines, func(line string) bool { return TrimOWS(line) != line }) {
		return lines
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = TrimOWS(line)
	}
	return out
}
