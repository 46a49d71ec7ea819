package preset

import (
	"bytes"
	"strings"
)

// queryVariants returns the query as it is, and where they differ, encoded anew and with %27 for
// its apostrophes: Twilio signs one of these and may send another. They have the same names and
// values. A query that is not a form has no variants.
func queryVariants(query string) [][]byte {
	sent := []byte(query)
	all := [][]byte{sent}
	anew, ok := encodedAnew(query)
	if !ok {
		return all
	}
	if !bytes.Equal(anew, sent) {
		all = append(all, anew)
	}
	if quoted := bytes.ReplaceAll(sent, []byte("'"), []byte("%27")); len(quoted) > len(sent) {
		all = append(all, quoted)
	}
	return all
}

// encodedAnew decodes each name and value of a query and encodes it again, in the same order, as
// encodeURIComponent (ECMA-262) does. All variants of a query have one result. It reports false
// for a query that is not a form.
func encodedAnew(query string) ([]byte, bool) {
	out := make([]byte, 0, len(query)+8)
	decoded := make([]byte, 0, len(query))
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		both, key, ok1 := appendUnescaped(decoded[:0], []byte(name))
		_, text, ok2 := appendUnescaped(both, []byte(value))
		if !ok1 || !ok2 {
			return nil, false
		}
		if len(out) > 0 {
			out = append(out, '&')
		}
		out = append(appendComponent(out, key), '=')
		out = appendComponent(out, text)
	}
	return out, true
}

// componentMarks are the marks that encodeURIComponent leaves as they are.
const componentMarks = "-_.!~*'()"

// appendComponent appends the text as encodeURIComponent encodes it.
func appendComponent(out, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if letter || '0' <= c && c <= '9' || strings.IndexByte(componentMarks, c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return out
}

// twilioScope is the query in the scope of identifiers, one for all variants. Otherwise a captured
// delivery would be a new event under another variant.
func twilioScope(query string) string {
	if anew, ok := encodedAnew(query); ok {
		return string(anew)
	}
	return query
}
