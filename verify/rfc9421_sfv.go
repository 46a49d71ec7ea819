package verify

import (
	"encoding/base64"
	"strings"
)

// The scanner reads structured fields (RFC 8941) of unauthenticated clients. It allocates only the
// list of members, and strings with escapes. It is stricter than the RFC: every accepted value can
// be written in only one way, so the text is its own canonical form. Leading zeros, "?1" for a
// flag, and base64 with stray bits are refused, and so are Dates and Display Strings, which RFC
// 9421 does not know.

// sfKind is the type of a bare item (RFC 8941 section 3.3).
type sfKind byte

const (
	sfInteger sfKind = iota + 1
	sfDecimal
	sfString
	sfToken
	sfBytes
	sfBoolean
)

// sfItem is a bare item: its type and its text, with quotes or colons. A flag (a parameter
// without a value) is a boolean without text.
type sfItem struct {
	kind sfKind
	text string
}

func (i sfItem) flag() bool { return i.kind == sfBoolean && i.text == "" }

func (i sfItem) str() (string, bool) {
	if i.kind != sfString {
		return "", false
	}
	s := i.text[1 : len(i.text)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	for n := 0; n < len(s); n++ {
		if s[n] == '\\' {
			n++
		}
		b.WriteByte(s[n])
	}
	return b.String(), true
}

// sfMember is a member of a Dictionary.
type sfMember struct {
	key   string
	value string // with its parameters; "" for a member without "="
	list  bool   // an Inner List
	item  sfItem // the bare item, unless it is a list
}

// sfScanner reads a text. Its methods return false at the first error; the position is then
// undefined.
type sfScanner struct {
	s     string
	i     int
	extra bool // spaces were skipped that the canonical form does not have
	// octets is how Byte Sequences are written without padding, which is then optional. Nil is
	// base64 with its padding: the canonical form.
	octets *base64.Encoding
}

func (p *sfScanner) end() bool { return p.i == len(p.s) }

// peek returns the next byte, or 0 at the end. No field contains a 0.
func (p *sfScanner) peek() byte {
	if p.end() {
		return 0
	}
	return p.s[p.i]
}

func (p *sfScanner) skip(c byte) bool {
	if p.peek() != c || p.end() {
		return false
	}
	p.i++
	return true
}

// spaces skips spaces. More of them than the canonical form has are extra.
func (p *sfScanner) spaces(canonical int) {
	start := p.i
	for p.peek() == ' ' {
		p.i++
	}
	p.extra = p.extra || p.i-start > canonical
}

func (p *sfScanner) blanks() {
	for p.peek() == ' ' || p.peek() == '\t' {
		p.i++
	}
}

func (p *sfScanner) key() (string, bool) {
	start := p.i
	if c := p.peek(); !isLower(c) && c != '*' {
		return "", false
	}
	for c := p.peek(); isLower(c) || isDigit(c) || c == '_' || c == '-' || c == '.' || c == '*'; c = p.peek() {
		p.i++
	}
	return p.s[start:p.i], true
}

func (p *sfScanner) bareItem() (sfItem, bool) {
	start := p.i
	var kind sfKind
	switch c := p.peek(); {
	case c == '"':
		kind = p.stringItem()
	case c == ':':
		kind = p.bytesItem()
	case c == '-' || isDigit(c):
		kind = p.numberItem()
	case c == '*' || isLower(c) || isUpper(c):
		kind = p.tokenItem()
	case c == '?':
		kind = p.booleanItem()
	}
	return sfItem{kind: kind, text: p.s[start:p.i]}, kind != 0
}

func (p *sfScanner) stringItem() sfKind {
	for p.i++; !p.end(); p.i++ {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return sfString
		case c == '\\':
			p.i++
			if c := p.peek(); c != '"' && c != '\\' {
				return 0
			}
		case c < ' ' || c > '~':
			return 0
		}
	}
	return 0
}

func (p *sfScanner) bytesItem() sfKind {
	p.i++
	n := strings.IndexByte(p.s[p.i:], ':')
	if n < 0 || !p.isOctets(p.s[p.i:p.i+n]) {
		return 0
	}
	p.i += n + 1
	return sfBytes
}

// numberItem reads an Integer of at most 15 digits, or a Decimal of at most 12 and 3.
func (p *sfScanner) numberItem() sfKind {
	negative := p.skip('-')
	whole := p.digits()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return 0
	}
	if !p.skip('.') {
		if len(whole) > 15 || negative && whole == "0" {
			return 0
		}
		return sfInteger
	}
	part := p.digits()
	if len(whole) > 12 || len(part) == 0 || len(part) > 3 || len(part) > 1 && part[len(part)-1] == '0' ||
		negative && whole == "0" && part == "0" {
		return 0
	}
	return sfDecimal
}

func (p *sfScanner) digits() string {
	start := p.i
	for isDigit(p.peek()) {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *sfScanner) tokenItem() sfKind {
	for c := p.peek(); isTokenChar(c) || c == ':' || c == '/'; c = p.peek() {
		p.i++
	}
	return sfToken
}

// booleanItem reads ?0 or ?1. As a parameter, ?1 must be written without its value; see param.
func (p *sfScanner) booleanItem() sfKind {
	p.i++
	if !p.skip('0') && !p.skip('1') {
		return 0
	}
	return sfBoolean
}

// param reads a parameter if there is one.
func (p *sfScanner) param() (key string, value sfItem, more, ok bool) {
	if !p.skip(';') {
		return "", sfItem{}, false, true
	}
	p.spaces(0)
	if key, ok = p.key(); !ok {
		return "", sfItem{}, false, false
	}
	if !p.skip('=') {
		return key, sfItem{kind: sfBoolean}, true, true
	}
	value, ok = p.bareItem()
	if value.kind == sfBoolean && value.text == "?1" {
		ok = false
	}
	return key, value, ok, ok
}

func (p *sfScanner) params() bool {
	for {
		_, _, more, ok := p.param()
		if !ok || !more {
			return ok
		}
	}
}

func (p *sfScanner) innerList() bool {
	if !p.skip('(') {
		return false
	}
	for more := p.nextItem(0); more; more = p.nextItem(1) {
		if !p.item() {
			return false
		}
	}
	return p.skip(')') && p.params()
}

func (p *sfScanner) item() bool {
	_, ok := p.bareItem()
	return ok && p.params()
}

// nextItem skips the spaces before an item of a list, and reports whether there is one: n is the
// number of spaces in the canonical form. A list that ends, or goes on without a space, has none.
func (p *sfScanner) nextItem(n int) bool {
	start := p.i
	if p.spaces(n); p.peek() == ')' {
		p.extra = p.extra || p.i > start
		return false
	}
	return p.i-start >= n
}

func (p *sfScanner) member() (m sfMember, ok bool) {
	m.key, ok = p.key()
	return m, ok && p.value(&m)
}

// value reads what follows the key of a member.
func (p *sfScanner) value(m *sfMember) (ok bool) {
	if !p.skip('=') {
		m.item = sfItem{kind: sfBoolean}
		return p.params()
	}
	start := p.i
	if p.peek() == '(' {
		m.list, ok = true, p.innerList()
	} else if m.item, ok = p.bareItem(); ok {
		ok = (m.item.kind != sfBoolean || m.item.text != "?1") && p.params()
	}
	m.value = p.s[start:p.i]
	return ok
}

// nextMember goes to the first or next member of a Dictionary, and reports whether there is one.
func (p *sfScanner) nextMember(first bool) (more, ok bool) {
	if first {
		p.spaces(0)
		return !p.end(), true
	}
	if p.blanks(); p.end() {
		return false, true
	}
	ok = p.skip(',')
	p.blanks()
	return ok && !p.end(), ok && !p.end() // no comma, or a trailing one
}

// parseDictionary reads a Dictionary of at most limit members, each key once, into a buffer. Of
// two members with one key RFC 8941 takes the last and other parsers the first: neither is taken.
func parseDictionary(buffer []sfMember, text string, limit int) ([]sfMember, bool) {
	return readDictionary(buffer, sfScanner{s: text}, limit)
}

func readDictionary(buffer []sfMember, p sfScanner, limit int) ([]sfMember, bool) {
	members := buffer[:0]
	for {
		more, ok := p.nextMember(len(members) == 0)
		if !more {
			return members, ok
		}
		m, ok := p.member()
		if !ok || len(members) == limit || findMember(members, m.key) != nil {
			return nil, false
		}
		members = append(members, m)
	}
}

func findMember(members []sfMember, key string) *sfMember {
	for i := range members {
		if members[i].key == key {
			return &members[i]
		}
	}
	return nil
}

// canonical returns the canonical form of a list or an item with parameters (RFC 8941 section
// 4.1), which was scanned: it lacks spaces after "(", ";" and another space, and before ")".
func canonical(text string) string {
	out := make([]byte, 0, len(text))
	quoted, escaped := false, false
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case quoted:
			quoted, escaped = c != '"', c == '\\'
		case c == ' ' && (strings.IndexByte("(;", out[len(out)-1]) >= 0 || strings.IndexByte(" )", text[i+1]) >= 0):
			continue
		default:
			quoted = c == '"'
		}
		out = append(out, c)
	}
	return string(out)
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// IsToken reports whether the text is a token (RFC 9110 section 5.6.2), such as a field name.
func IsToken(text string) bool {
	for i := range len(text) {
		if !isTokenChar(text[i]) {
			return false
		}
	}
	return text != ""
}

// isTokenChar reports whether c is a tchar (RFC 9110 section 5.6.2).
func isTokenChar(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// Base64 and base64url without padding and stray bits.
var (
	unpadded    = base64.RawStdEncoding.Strict()
	unpaddedURL = base64.RawURLEncoding.Strict()
)

// isOctets reports whether s is what Byte Sequences hold, without stray bits, so no text with other
// digits encodes the same bytes.
func (p *sfScanner) isOctets(s string) bool {
	encoding := strictBase64
	if p.octets != nil {
		encoding = p.octets
		digits := strings.TrimRight(s, "=")
		if len(digits) < len(s) && len(s)%4 != 0 || len(s)-len(digits) > 2 {
			return false
		}
		s = digits
	}
	var buf [768]byte // 1,024 characters, decoded
	for ; len(s) > 1024; s = s[1024:] {
		if out, ok := decodeBase64(encoding, buf[:0], s[:1024]); !ok || len(out) < len(buf) {
			return false
		}
	}
	_, ok := decodeBase64(encoding, buf[:0], s)
	return ok || s == ""
}
