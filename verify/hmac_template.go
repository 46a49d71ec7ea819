package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// part is literal text of a template, or a placeholder with an argument ("header:X-Id").
type part struct {
	literal string
	kind    partKind
	arg     string
}

// partKind is the kind of a part: literal text or a placeholder.
type partKind string

const (
	partText      partKind = "" // literal text
	partBody      partKind = "body"
	partJCS       partKind = "jcs"
	partURL       partKind = "url"
	partTimestamp partKind = "timestamp"
	partID        partKind = "id"
	partHeader    partKind = "header"
	partConfig    partKind = "config"
	partSig       partKind = "sig"
	partEd25519   partKind = "ed25519"
	partECDSA     partKind = "ecdsa"
	partAlg       partKind = "alg"
	partKID       partKind = "kid"
)

var entryParts = []partKind{partSig, partEd25519, partECDSA, partAlg, partKID, partTimestamp}

const defaultEntry = "{sig}"

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
		parts = append(parts, part{kind: partKind(name), arg: arg})
		s = after
	}
	return parts, nil
}

// entryPattern is the form of one entry of a signature field.
type entryPattern []part

type entry struct {
	sig, ed25519, ecdsa, alg, kid, timestamp string
	hasTimestamp                             bool
}

func parseEntry(s string) (entryPattern, error) {
	parts, err := parseTemplate(s)
	if err != nil {
		return nil, fmt.Errorf("entry %q: %w", s, err)
	}
	seen := map[partKind]bool{}
	adjacent := false
	for _, p := range parts {
		switch {
		case p.kind == partText:
			adjacent = false
			continue
		case adjacent:
			return nil, fmt.Errorf("entry %q: two placeholders without text between them", s)
		case seen[p.kind]:
			return nil, fmt.Errorf("entry %q: {%s} twice", s, p.kind)
		case p.arg != "" || !slices.Contains(entryParts, p.kind):
			return nil, fmt.Errorf("entry %q: unknown placeholder {%s}", s, p.text())
		}
		seen[p.kind], adjacent = true, true
	}
	switch {
	case seen[partSig] && seen[partEd25519]:
		return nil, fmt.Errorf("entry %q: both {sig} and {ed25519}", s)
	case seen[partECDSA] && (seen[partSig] || seen[partEd25519]):
		return nil, fmt.Errorf("entry %q: both {ecdsa} and another signature", s)
	case !seen[partSig] && !seen[partEd25519] && !seen[partECDSA] && !seen[partTimestamp]:
		return nil, fmt.Errorf("entry %q: neither {sig}, {ed25519}, {ecdsa} nor {timestamp}", s)
	}
	return parts, nil
}

func (p part) text() string {
	if p.arg == "" {
		return string(p.kind)
	}
	return string(p.kind) + ":" + p.arg
}

func (p entryPattern) holds(name partKind) bool {
	return slices.ContainsFunc(p, func(q part) bool { return q.kind == name })
}

// match parses an entry. A placeholder ends at the first occurrence of the text that follows
// it, and the last one takes the rest, so matching is linear.
func (p entryPattern) match(s string) (entry, bool) {
	var e entry
	for i, q := range p {
		if q.kind == partText {
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
		*e.field(q.kind) = value
		e.hasTimestamp = e.hasTimestamp || q.kind == partTimestamp
	}
	return e, s == ""
}

// field returns the field of a placeholder; parseEntry knows all of them.
func (e *entry) field(kind partKind) *string {
	switch kind {
	case partSig:
		return &e.sig
	case partEd25519:
		return &e.ed25519
	case partECDSA:
		return &e.ecdsa
	case partAlg:
		return &e.alg
	case partKID:
		return &e.kid
	}
	return &e.timestamp
}

func (p entryPattern) format(e entry) (text string) {
	for _, q := range p {
		if text += q.literal; q.kind != partText {
			text += *e.field(q.kind)
		}
	}
	return text
}

// Signed content is a concatenation. If it can be divided into its parts in several ways, bytes
// can move from one part to its neighbor under the same signature, and one captured delivery
// becomes many.
//
// Each variable part before the body must therefore be followed by text whose first character
// the part cannot hold, and each one after the body preceded by text whose last character it
// cannot hold. The body may hold anything. A timestamp without such text has a fixed number of
// digits instead.

// boundary is the character that ends a variable part of the template.
type boundary struct {
	known bool
	char  byte
}

// setBoundaries finds the boundary of every variable part. If one has none, the content is
// refused, or noted as malleable if the vendor signs it that way.
func (p *hmacPlan) setBoundaries() error {
	p.boundaries = make([]boundary, len(p.template))
	body := slices.IndexFunc(p.template, func(q part) bool { return q.isBody() })
	if body < 0 {
		return nil // setTemplate reports it
	}
	var errs []error
	for i, q := range p.template {
		if q.kind == partConfig || q.isBody() || p.constant(q) != "" || p.isDateTime(q) {
			continue
		}
		next, beside, instead := i+1, "follows", ""
		if i > body {
			next, beside = i-1, "precedes"
		}
		if c, ok := p.edge(next, i < body); ok && q.endsAt(c) {
			p.boundaries[i] = boundary{known: true, char: c}
			continue
		}
		if q.kind == partTimestamp && !p.Malleable {
			p.timeDigits = p.TimestampUnit.Digits()
			continue
		}
		p.malleable = append(p.malleable, string(q.kind))
		if q.kind == partURL {
			instead = ", or pin the URL (signed_url)"
		}
		if !p.Malleable {
			errs = append(errs, fmt.Errorf("{%s} has no boundary to what %s it: "+
				"put text between them that it cannot hold, such as a line break%s", q.text(), beside, instead))
		}
	}
	return errors.Join(errs...)
}

// edge returns the first or last character of a constant part of the template.
func (p *hmacPlan) edge(i int, first bool) (byte, bool) {
	if i < 0 || i >= len(p.template) {
		return 0, false
	}
	switch text := p.constant(p.template[i]); {
	case p.isDateTime(p.template[i]):
		return ':', true
	case text == "":
		return 0, false
	case first:
		return text[0], true
	default:
		return text[len(text)-1], true
	}
}

// isDateTime reports whether the part is a date-time. Beside a part without colons its two colons
// show where it begins, and its only Z where it ends.
func (p *hmacPlan) isDateTime(q part) bool {
	return p.TimestampUnit == RFC3339 && q.kind == partTimestamp
}

// constant returns the text of a part that is the same in every delivery, else "".
func (p *hmacPlan) constant(q part) string {
	switch q.kind {
	case partConfig:
		return p.Config[q.arg]
	case partURL:
		return p.URL
	}
	return q.literal
}

func (p part) isBody() bool { return p.kind == partBody || p.kind == partJCS }

// endsAt reports whether the character can end the part: its values cannot hold it, or are
// refused if they do.
func (p part) endsAt(c byte) bool {
	switch p.kind {
	case partTimestamp:
		return !isDigit(c)
	case partURL: // unreserved and reserved characters, and the percent sign (RFC 3986 section 2)
		return !isDigit(c) && !isLower(c|0x20) && !strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", rune(c))
	}
	return true // identifiers and fields with this character are refused
}

// checkValue refuses a value that holds the boundary of its part.
func (p *hmacPlan) checkValue(i int, component, value string) error {
	if end := p.boundaries[i]; end.known && strings.IndexByte(value, end.char) >= 0 {
		why := fmt.Errorf("a %q in the value makes the signed content ambiguous", end.char)
		return &Error{Code: ComponentUnsupported, Component: component, Err: why}
	}
	return nil
}

// openEndedURL reports whether the URL is signed without a boundary. A query, which anyone
// could extend, is then refused.
func (p *hmacPlan) openEndedURL() bool { return slices.Contains(p.malleable, string(partURL)) }

// isMalleable reports whether different deliveries can have the same signed content.
func (p *hmacPlan) isMalleable() bool {
	return p.Contents != nil || p.templateHolds(partJCS) || p.malleable != nil
}
