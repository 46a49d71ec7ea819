package verify

import (
	"errors"
	"fmt"
	"strings"
)

// part is a piece of a template: literal text, or a placeholder with an argument ("header:X-Id").
type part struct {
	literal   string
	name, arg string
}

// parseTemplate takes a text like "v0:{timestamp}:{body}" apart. There is no way to write a literal brace:
// no producer signs one.
func parseTemplate(s string) ([]part, error) {
	var parts []part
	for s != "" {
		lit, rest, found := strings.Cut(s, "{")
		if strings.Contains(lit, "}") {
			return nil, errors.New(`a "}" without its "{"`)
		}
		if lit != "" {
			parts = append(parts, part{literal: lit})
		}
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed || strings.Contains(inner, "{") {
			return nil, errors.New(`a "{" without its "}"`)
		}
		name, arg, _ := strings.Cut(inner, ":")
		if name == "" {
			return nil, errors.New("an empty placeholder")
		}
		parts = append(parts, part{name: name, arg: arg})
		s = after
	}
	return parts, nil
}

// entryPattern is the form of one entry of a signature field.
type entryPattern []part

// entry is what one entry said.
type entry struct {
	sig, ed25519, alg, kid, timestamp string
	hasTimestamp                      bool
}

func parseEntry(s string) (entryPattern, error) {
	parts, err := parseTemplate(s)
	if err != nil {
		return nil, fmt.Errorf("entry %q: %w", s, err)
	}
	seen := map[string]bool{}
	placeholder := false
	for _, p := range parts {
		switch {
		case p.name == "":
			placeholder = false
			continue
		case placeholder:
			return nil, fmt.Errorf("entry %q: two placeholders without text between them", s)
		case seen[p.name]:
			return nil, fmt.Errorf("entry %q: {%s} twice", s, p.name)
		case p.arg != "" || !strings.Contains(" sig ed25519 alg kid timestamp ", " "+p.name+" "):
			return nil, fmt.Errorf("entry %q: unknown placeholder {%s}", s, p.text())
		}
		seen[p.name], placeholder = true, true
	}
	switch {
	case seen["sig"] && seen["ed25519"]:
		return nil, fmt.Errorf("entry %q: both {sig} and {ed25519}", s)
	case !seen["sig"] && !seen["ed25519"] && !seen["timestamp"]:
		return nil, fmt.Errorf("entry %q: neither {sig}, {ed25519} nor {timestamp}", s)
	}
	return parts, nil
}

// text is the placeholder as it was written, without its braces.
func (p part) text() string {
	if p.arg == "" {
		return p.name
	}
	return p.name + ":" + p.arg
}

// holds reports whether the pattern has the placeholder.
func (p entryPattern) holds(name string) bool {
	for _, q := range p {
		if q.name == name {
			return true
		}
	}
	return false
}

// match reads an entry. A placeholder takes the text up to the first occurrence of what follows it, the last
// one everything that is left, so matching is linear.
func (p entryPattern) match(s string) (entry, bool) {
	var e entry
	for i, q := range p {
		if q.name == "" {
			rest, ok := strings.CutPrefix(s, q.literal)
			if !ok {
				return entry{}, false
			}
			s = rest
			continue
		}
		value := s
		if i+1 < len(p) {
			n := strings.Index(s, p[i+1].literal)
			if n < 0 {
				return entry{}, false
			}
			value = s[:n]
		}
		s = s[len(value):]
		e.set(q.name, value)
	}
	return e, s == ""
}

func (e *entry) set(name, value string) {
	switch name {
	case "sig":
		e.sig = value
	case "ed25519":
		e.ed25519 = value
	case "alg":
		e.alg = value
	case "kid":
		e.kid = value
	case "timestamp":
		e.timestamp, e.hasTimestamp = value, true
	}
}

// format writes an entry of the pattern's form.
func (p entryPattern) format(e entry) string {
	var b strings.Builder
	for _, q := range p {
		switch q.name {
		case "":
			b.WriteString(q.literal)
		case "sig":
			b.WriteString(e.sig)
		case "alg":
			b.WriteString(e.alg)
		case "kid":
			b.WriteString(e.kid)
		case "timestamp":
			b.WriteString(e.timestamp)
		}
	}
	return b.String()
}
