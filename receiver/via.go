package receiver

import "strings"

// MaxVia is the longest name for [Config.Via], in characters.
const MaxVia = 64

// looped reports whether the delivery passed through this receiver before: whether its field Via names it (RFC 9110 section
// 7.6.3). An intermediary must not forward a message to itself without end (section 7.6).
func (d *delivery) looped() bool {
	name := d.rx.cfg.Via
	if name == "" {
		return false
	}
	for _, line := range d.r.Header["Via"] {
		if viaNames(line, name) {
			return true
		}
	}
	return false
}

// viaNames reports whether a line of Via has an entry received by name. An entry is a protocol, white space, who received it,
// and perhaps a comment, in which commas separate nothing.
func viaNames(line, name string) bool {
	depth, from := 0, 0
	for i := 0; i <= len(line); i++ {
		switch {
		case i == len(line) || line[i] == ',' && depth == 0:
			words := strings.FieldsFunc(line[from:i], func(r rune) bool { return r == ' ' || r == '\t' })
			if len(words) > 1 && strings.EqualFold(words[1], name) {
				return true
			}
			from = i + 1
		case line[i] == '(':
			depth++
		case line[i] == ')':
			depth = max(0, depth-1)
		case line[i] == '\\' && depth > 0:
			i++
		}
	}
	return false
}
