package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// part is literal text of a template, or a placeholder with an argument ("header:X-Id").
type part struct {
	literal   string
	name, arg string
}

// parseTemplate parses a text like "v0:{timestamp}:{body}". A literal brace cannot be written:
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

func (p part) text() string {
	if p.arg == "" {
		return p.name
	}
	return p.name + ":" + p.arg
}

func (p entryPattern) holds(name string) bool {
	for _, q := range p {
		if q.name == name {
			return true
		}
	}
	return false
}

// match parses an entry. A placeholder ends at the first occurrence of the text that follows
// it, and the last one takes the rest, so matching is linear.
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

// Signed content is a concatenation. If it can be divided into its parts in several ways, bytes
// can move from one part to its neighbor under the same signature, and one captured delivery
// becomes many.
//
// Each variable part before the body must therefore be followed by text whose first character
// the part cannot hold, and each one after the body preceded by text whose last character it
// cannot hold. The body may hold anything.

// boundary is the character that ends a variable part of the template.
type boundary struct {
	known bool
	char  byte
}

// setBoundaries finds the boundary of every variable part. If one has none, the content is
// refused, or noted as malleable if the vendor signs it that way.
func (p *hmacPlan) setBoundaries(h *HMAC) error {
	p.boundaries = make([]boundary, len(p.template))
	body := slices.IndexFunc(p.template, func(q part) bool { return q.isBody() })
	if body < 0 {
		return nil // setTemplate reports it
	}
	var errs []error
	for i, q := range p.template {
		if p.isConstant(q) || q.isBody() {
			continue
		}
		before := i < body
		next, beside := i+1, "follows"
		if !before {
			next, beside = i-1, "precedes"
		}
		if c, ok := p.edge(next, before); ok && q.endsAt(c) {
			p.boundaries[i] = boundary{known: true, char: c}
			continue
		}
		p.malleable = append(p.malleable, q.name)
		if !h.Malleable {
			errs = append(errs, fmt.Errorf("{%s} has no boundary to what %s it: "+
				"put text between them that it cannot hold, such as a line break", q.text(), beside))
		}
	}
	return errors.Join(errs...)
}

// edge returns the first or last character of a constant part of the template.
func (p *hmacPlan) edge(i int, first bool) (byte, bool) {
	if i < 0 || i >= len(p.template) || !p.isConstant(p.template[i]) {
		return 0, false
	}
	text := p.constant(p.template[i])
	switch {
	case text == "":
		return 0, false
	case first:
		return text[0], true
	}
	return text[len(text)-1], true
}

// isConstant reports whether the part is the same in every delivery.
func (p *hmacPlan) isConstant(q part) bool {
	return q.name == "" || q.name == "config" || q.name == "url" && p.url != ""
}

func (p *hmacPlan) constant(q part) string {
	switch q.name {
	case "config":
		return p.config[q.arg]
	case "url":
		return p.url
	}
	return q.literal
}

func (q part) isBody() bool { return q.name == "body" || q.name == "jcs" }

// endsAt reports whether the character can end the part: its values cannot hold it, or are
// refused if they do.
func (q part) endsAt(c byte) bool {
	switch q.name {
	case "timestamp":
		return !isDigit(c)
	case "url": // unreserved and reserved characters, and the percent sign (RFC 3986 section 2)
		return !isDigit(c) && !isLower(c|0x20) && !strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", rune(c))
	}
	return true // identifiers and fields with this character are refused
}

// checkValue refuses a value that holds the boundary of its part.
func (p *hmacPlan) checkValue(i int, component, value string) error {
	if end := p.boundaries[i]; end.known && strings.IndexByte(value, end.char) >= 0 {
		return &Error{
			Code: ComponentUnsupported, Component: component,
			Err: fmt.Errorf("a %q in the value makes the signed content ambiguous", end.char),
		}
	}
	return nil
}

// openEndedURL reports whether the URL is signed without a boundary. A query, which anyone
// could extend, is then refused.
func (p *hmacPlan) openEndedURL() bool { return slices.Contains(p.malleable, "url") }

// isMalleable reports whether different deliveries can have the same signed content.
func (p *hmacPlan) isMalleable() bool {
	return p.custom != nil || p.templateHolds("jcs") || p.malleable != nil
}
