package inspect

import (
	"encoding/hex"
	"encoding/json"
	"html/template"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/replay"
)

// The bounds of a body on the page. The saved delivery has all of it.
const (
	maxText   = 256 << 10 // bytes of a body as text, and of its readable form
	maxHex    = 16 << 10  // bytes of a body in hexadecimal
	maxIndent = 64        // levels; deeper ones are indented like this one
	maxPairs  = 1000      // members of a form
)

// bodyView is a body in several forms.
type bodyView struct {
	Size     int64
	Dropped  bool          // it is no longer kept
	Readable template.HTML // indented JSON; empty if it is not JSON
	Form     []replay.Field
	Text     string // empty if it is not UTF-8
	Hex      string
	Cut      bool
}

func newBodyView(body []byte, contentType string) bodyView {
	v := bodyView{Size: int64(len(body)), Cut: len(body) > maxText}
	text := body[:min(len(body), maxText)]
	for len(text) > 0 && len(text) < len(body) && !utf8.RuneStart(body[len(text)]) {
		text = text[:len(text)-1]
	}
	if utf8.Valid(text) {
		v.Text = clean(string(text))
	}
	v.Hex = strings.TrimSuffix(hex.Dump(body[:min(len(body), maxHex)]), "\n")
	kind, _, _ := mime.ParseMediaType(contentType)
	switch {
	case json.Valid(body): // at most 10,000 levels
		v.Readable = indent(body)
	case kind == "application/x-www-form-urlencoded":
		v.Form = formOf(string(text))
	}
	return v
}

// formOf returns the members of a form in their order.
func formOf(text string) (pairs []replay.Field) {
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		value, wrong := url.QueryUnescape(value)
		if err != nil || wrong != nil || len(pairs) == maxPairs {
			return nil
		}
		pairs = append(pairs, replay.Field{Name: name, Value: value})
	}
	return pairs
}

// indent returns valid JSON with line breaks and marked tokens, with the members in their order and
// numbers and strings unchanged. Neither depth nor size of a body can make it large.
func indent(body []byte) template.HTML {
	var b strings.Builder
	depth := 0
	line := func() {
		b.WriteByte('\n')
		b.WriteString(strings.Repeat("  ", min(depth, maxIndent)))
	}
	for i := 0; i < len(body); {
		if b.Len() > maxText {
			b.WriteString("\n…")
			break
		}
		c := body[i]
		n := tokenLength(body[i:])
		switch c {
		case '{', '[':
			b.WriteByte(c)
			if next := skipSpace(body, i+1); body[next] == c+2 { // empty: the braces are 2 apart in ASCII
				b.WriteByte(c + 2)
				n = next + 1 - i
				break
			}
			depth++
			line()
		case '}', ']':
			depth--
			line()
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			line()
		case ':':
			b.WriteString(": ")
		case ' ', '\t', '\r', '\n':
		default:
			mark(&b, kindOf(body, i, n), string(body[i:i+n]))
		}
		i += n
	}
	return template.HTML(b.String()) //nolint:gosec // every token is escaped by mark
}

func mark(b *strings.Builder, kind, token string) {
	if len(token) > maxText {
		token = strings.ToValidUTF8(token[:maxText], "") + "…"
	}
	b.WriteString(`<span class="` + kind + `">` + template.HTMLEscapeString(clean(token)) + `</span>`)
}

// tokenLength returns the length of the token with which valid JSON begins.
func tokenLength(text []byte) int {
	if text[0] != '"' {
		n := slices.IndexFunc(text, func(c byte) bool { return strings.IndexByte("{}[],:\" \t\r\n", c) >= 0 })
		if n < 0 {
			return len(text)
		}
		return max(n, 1)
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func skipSpace(text []byte, i int) int {
	for i < len(text)-1 && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
		i++
	}
	return i
}

// kindOf returns the class of a token: k for a name, s for a string, n for a number, l for a word.
func kindOf(body []byte, i, n int) string {
	switch c := body[i]; {
	case c == '"' && i+n < len(body) && body[skipSpace(body, i+n)] == ':':
		return "k"
	case c == '"':
		return "s"
	case c == '-' || c >= '0' && c <= '9':
		return "n"
	}
	return "l"
}
