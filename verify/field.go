package verify

import (
	"net/http"
	"slices"
	"strings"
)

// TrimOWS trims optional white space: spaces and tabs, and nothing else (RFC 9110 section
// 5.6.3). All readers of field values use it. A reader that trimmed more would read another
// value than the signed one.
func TrimOWS(value string) string { return strings.Trim(value, " \t") }

// Normalize trims the optional white space around every field value, which is not part of the
// value (RFC 9110 section 5.5). HTTP/1 does so itself; other transports may not. It returns r
// if there is none, else a copy with its own header.
//
// A receiver verifies the normalized request and then uses only that one, so everything after
// the check reads what was verified.
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

// trimLines trims every line of a field. It returns the same slice if there is nothing to trim.
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
