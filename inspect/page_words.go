package inspect

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// maxShort is how many characters of a name a row shows.
const maxShort = 120

// clean makes control characters and those that change the direction of text visible. It is for
// everything that producers and handlers write: a name must not look like another one.
func clean(s string) string {
	if strings.IndexFunc(s, hides) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hides(r) {
			_, _ = fmt.Fprintf(&b, "\\u{%x}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hides reports characters that are not seen as such. Line ends and tabs are.
func hides(r rune) bool {
	seen := r == '\n' || r == '\r' || r == '\t'
	return !seen && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError)
}

// short is clean for a row.
func short(s string) string {
	if len(s) > maxShort {
		runes := []rune(s[:min(len(s), utf8.UTFMax*(maxShort+1))])
		if len(runes) > maxShort {
			return clean(string(runes[:maxShort])) + "…"
		}
	}
	return clean(s)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// ago is the time since t.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return duration.Rough(max(time.Since(t), 0).Truncate(time.Second)) + " ago"
}

// signedAge says how old a signature was.
func signedAge(seconds *float64) string {
	if *seconds < 0 {
		return roughly(-*seconds) + " ahead"
	}
	return roughly(*seconds) + " old"
}

// roughly is for the seconds of JSON.
func roughly(seconds float64) string {
	return duration.Rough(time.Duration(seconds * float64(time.Second)))
}

func byteSize(n int64) string {
	const k = 1 << 10
	switch {
	case n < k:
		return fmt.Sprintf("%d bytes", n)
	case n < k*k:
		return fmt.Sprintf("%.1f KiB", float64(n)/k)
	case n < k*k*k:
		return fmt.Sprintf("%.1f MiB", float64(n)/(k*k))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(k*k*k))
}

// survives says what an acknowledged event survives.
func survives(durability string) string {
	return map[string]string{
		"none": "nothing: it is in memory", "process": "the end of the process", "machine": "a power cut",
		"replicated": "the loss of the machine",
	}[durability]
}

// grouped writes a number with a comma between thousands.
func grouped(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
