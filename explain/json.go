package explain

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// jsonLimits bound a body that is written again: indented forms grow with the square of its
// nesting.
var jsonLimits = strictjson.Limits{Depth: 64, Values: 100_000}

// jsonValue is a JSON value whose members keep their order. Numbers keep their text.
type jsonValue struct {
	kind      byte // '{', '[', '"', or 0 for numbers and literals
	text, raw []byte
	members   []jsonMember
}

type jsonMember struct {
	name, raw []byte // decoded, and as it came; unused in arrays
	value     jsonValue
}

// parseJSON returns false for a text that is not JSON, is beyond the limits, or takes longer than
// the function allows.
func parseJSON(text []byte, more func(n int) bool) (v jsonValue, ok bool) {
	if !utf8.Valid(text) { // no library writes it so
		return v, false
	}
	p := jsonParser{Scanner: strictjson.NewScanner(text, jsonLimits), more: more}
	v, err := p.value()
	return v, err == nil && p.End() == nil
}

type jsonParser struct {
	strictjson.Scanner
	more func(n int) bool
	read int // bytes in memory since the last call of more
}

const (
	valueBytes = 128      // that a value takes in memory
	lookEvery  = 64 << 10 // of them
)

func (p *jsonParser) value() (v jsonValue, err error) {
	if p.read += valueBytes; p.read > lookEvery {
		if !p.more(p.read) {
			return v, context.DeadlineExceeded
		}
		p.read = 0
	}
	switch v.kind = p.Next(); v.kind {
	case '{':
		err = p.Object(func(name []byte) error {
			decoded, _ := strictjson.AppendString(nil, name)
			one, err := p.value()
			v.members = append(v.members, jsonMember{decoded, name, one})
			return err
		})
	case '[':
		err = p.Array(func() error {
			one, err := p.value()
			v.members = append(v.members, jsonMember{value: one})
			return err
		})
	case '"':
		raw, bad := p.Value()
		if err = bad; err == nil {
			v.text, _ = strictjson.AppendString(nil, raw)
			v.raw = raw
			p.read += len(raw)
		}
	default:
		v.kind = 0
		v.text, err = p.Value()
	}
	return v, err
}

// jsonStyle is how a library writes JSON.
type jsonStyle struct {
	name               string
	item, key, indent  string
	ascii, slash, html bool // escapes: beyond ASCII, "/", and "<", ">", "&"
	sorted, newline    bool
	crlf               bool // lines end with CRLF
	verbatim           bool // strings are written as they came, with their escapes
	upper              bool // hexadecimal digits of escapes
	numbers            bool // in their shortest form
	rare               bool // not combined with other changes
}

// jsonStyles are those of the usual libraries, the most frequent first.
var jsonStyles = jsonStyleList()

func jsonStyleList() []jsonStyle {
	base := []jsonStyle{
		{name: "compact, as JavaScript writes it", item: ",", key: ":"},
		{name: "with a space after commas and colons and \\u escapes, as Python writes it", item: ", ", key: ": ",
			ascii: true},
		{name: "indented by 2 spaces", item: ",", key: ": ", indent: "  "},
		{name: "compact with < > & escaped, as Go writes it", item: ",", key: ":", html: true},
		{name: "compact with \\/ and \\u escapes, as PHP writes it", item: ",", key: ":", slash: true, ascii: true},
		{name: "compact with \\/", item: ",", key: ":", slash: true},
		{name: "compact with \\u escapes", item: ",", key: ":", ascii: true},
		{name: "with a space after commas and colons", item: ", ", key: ": "},
		{name: "indented by 4 spaces", item: ",", key: ": ", indent: "    "},
		{name: "indented by 4 spaces with \\u escapes, as Python writes it", item: ",", key: ": ", indent: "    ",
			ascii: true},
		{name: "indented by 2 spaces with \\u escapes", item: ",", key: ": ", indent: "  ", ascii: true},
		{name: "indented by tabs", item: ",", key: ": ", indent: "\t"},
		{name: "indented with ' : ', as Jackson writes it", item: ",", key: " : ", indent: "  "},
		{name: "indented by 4 spaces with \\/, as PHP writes it", item: ",", key: ": ", indent: "    ", slash: true,
			ascii: true},
		{name: "compact with \\u escapes in capitals", item: ",", key: ":", ascii: true, upper: true},
		{name: "compact with < > & and \\u escapes, as .NET writes it", item: ",", key: ":", html: true, ascii: true,
			upper: true},
	}
	all := slices.Clone(base)
	for _, s := range base {
		if s.slash || s.ascii || s.html {
			continue
		}
		s.name, s.verbatim, s.rare = s.name+", escapes as they came", true, true
		all = append(all, s)
	}
	for _, s := range all {
		if s.indent != "" {
			s.name, s.crlf, s.rare = s.name+", lines ending with CRLF", true, true
			all = append(all, s)
		}
	}
	for _, change := range []func(*jsonStyle){
		func(s *jsonStyle) { s.name, s.sorted = s.name+", keys sorted", true },
		func(s *jsonStyle) { s.name, s.newline = s.name+", a newline after it", true },
		func(s *jsonStyle) { s.name, s.numbers = s.name+", numbers in their shortest form", true },
		func(s *jsonStyle) {
			s.name, s.sorted, s.newline = s.name+", keys sorted, a newline after it", true, true
		},
	} {
		for _, s := range base {
			change(&s)
			s.rare = true
			all = append(all, s)
		}
	}
	return all
}

// sorted returns the value with the keys of every object in order.
func (v jsonValue) sorted() jsonValue {
	v.members = slices.Clone(v.members)
	for i := range v.members {
		v.members[i].value = v.members[i].value.sorted()
	}
	if v.kind == '{' {
		slices.SortStableFunc(v.members, func(a, b jsonMember) int { return bytes.Compare(a.name, b.name) })
	}
	return v
}

// mapped returns the value with its strings changed, but not its keys.
func (v jsonValue) mapped(change func(text []byte) []byte) jsonValue {
	if v.kind == '"' {
		v.text = change(v.text)
	}
	v.members = slices.Clone(v.members)
	for i := range v.members {
		v.members[i].value = v.members[i].value.mapped(change)
	}
	return v
}

// write returns the value in the style, or false if it is longer than the limit.
func (s jsonStyle) write(v jsonValue, limit int) ([]byte, bool) {
	w := &jsonWriter{jsonStyle: s, limit: limit}
	w.b.Grow(max(0, limit/maxGrown)) // about the length of the body
	w.value(&v, 0)
	if s.newline {
		w.b.WriteByte('\n')
	}
	return w.b.Bytes(), w.b.Len() <= limit
}

type jsonWriter struct {
	jsonStyle
	b     bytes.Buffer
	limit int
}

func (w *jsonWriter) value(v *jsonValue, depth int) {
	switch {
	case w.b.Len() > w.limit:
	case v.kind == '{', v.kind == '[':
		w.list(v, depth)
	case v.kind == '"':
		w.text(v.text, v.raw)
	case w.numbers:
		if f, err := strconv.ParseFloat(string(v.text), 64); err == nil {
			w.b.Write(strconv.AppendFloat(nil, f, 'f', -1, 64))
			return
		}
		w.b.Write(v.text)
	default:
		w.b.Write(v.text)
	}
}

func (w *jsonWriter) list(v *jsonValue, depth int) {
	members := v.members
	w.b.WriteByte(v.kind)
	for i := range members {
		if w.b.Len() > w.limit {
			return
		}
		if i > 0 {
			w.b.WriteString(w.item)
		}
		w.line(depth + 1)
		if v.kind == '{' {
			w.text(members[i].name, members[i].raw)
			w.b.WriteString(w.key)
		}
		w.value(&members[i].value, depth+1)
	}
	if len(members) > 0 {
		w.line(depth)
	}
	w.b.WriteByte(v.kind + 2) // "}" and "]" are two after "{" and "["
}

func (w *jsonWriter) line(depth int) {
	if w.indent != "" {
		if w.crlf {
			w.b.WriteByte('\r')
		}
		w.b.WriteByte('\n')
		for range depth {
			w.b.WriteString(w.indent)
		}
	}
}

// shortEscapes are the escapes of one character (RFC 8259 section 7).
var shortEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func (w *jsonWriter) text(text, raw []byte) {
	if w.verbatim {
		w.b.Write(raw)
		return
	}
	w.b.WriteByte('"')
	for _, r := range string(text) {
		short := shortEscapes[r]
		switch {
		case w.b.Len() > w.limit:
			return
		case r == '/' && w.slash:
			w.b.WriteString(`\/`)
		case short != "":
			w.b.WriteString(short)
		case r < 0x20, w.html && (r == '<' || r == '>' || r == '&' || r == 0x2028 || r == 0x2029),
			w.ascii && r > 0x7e && r < 0x10000:
			w.unit(r)
		case w.ascii && r >= 0x10000:
			r -= 0x10000
			w.unit(0xd800 + r>>10)
			w.unit(0xdc00 + r&0x3ff)
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

func (w *jsonWriter) unit(r rune) {
	if w.upper {
		fmt.Fprintf(&w.b, `\u%04X`, r)
	} else {
		fmt.Fprintf(&w.b, `\u%04x`, r)
	}
}

// looksRewritten reports what in a body betrays a program that wrote it: every object has its
// keys in alphabetical order, as maps of Go and jq -S write them. Few keys show nothing.
func (v jsonValue) looksRewritten() string {
	if pairs, sorted := v.order(); sorted && pairs >= 4 {
		return "its keys are in alphabetical order; their order before is lost"
	}
	return ""
}

// order counts the pairs of neighboring keys, and reports whether all are in order.
func (v *jsonValue) order() (pairs int, sorted bool) {
	sorted = true
	for i := range v.members {
		if i > 0 && v.kind == '{' {
			pairs++
			sorted = sorted && bytes.Compare(v.members[i-1].name, v.members[i].name) <= 0
		}
		inner, in := v.members[i].value.order()
		pairs, sorted = pairs+inner, sorted && in
	}
	return pairs, sorted
}
