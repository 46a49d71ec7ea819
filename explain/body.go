package explain

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxGrown is how much longer than the body a form of it may be.
const maxGrown = 4

// bodies yields the state with each form that the body may have had when it was signed. Forms are
// made one by one, and equal ones only once. Without all it yields those that are combined with
// other changes.
func bodies(s *search, st state, all bool, yield func(state) bool) bool {
	if s.d.Unread {
		return true
	}
	f := &former{search: s, state: st, yield: yield, all: all, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	f.seen[maphash.Bytes(f.seed, st.body)] = true
	for _, forms := range []func(*former) bool{
		(*former).ends, (*former).rewritten, (*former).encoded, (*former).charsets, (*former).wrapped, (*former).packed,
	} {
		if !forms(f) {
			return false
		}
	}
	return true
}

// former makes the forms of a body.
type former struct {
	*search
	state
	yield func(state) bool
	all   bool
	seed  maphash.Seed
	seen  map[uint64]bool
}

// form yields one form.
func (f *former) form(cause Cause, detail string, body []byte) bool {
	if len(body) > maxGrown*len(f.body)+len("payload=")+2 {
		return true
	}
	sum := maphash.Bytes(f.seed, body)
	if f.seen[sum] {
		return true
	}
	f.seen[sum] = true
	if f.ctx.Err() != nil {
		f.spent = true
	}
	next := f.with(change{cause: cause, detail: detail})
	next.body = body
	return !f.spent && f.yield(next)
}

var bom = []byte("\xef\xbb\xbf")

// ends changes the ends of the body and of its lines.
func (f *former) ends() bool {
	b := f.body
	lf := bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	return f.form(bodyNewline, "the signed body ends with a newline", append(slices.Clip(b), '\n')) &&
		f.form(bodyNewline, "the signed body ends without a newline", bytes.TrimRight(b, "\r\n")) &&
		f.form(bodyNewline, "the signed body ends with CRLF", append(slices.Clip(b), "\r\n"...)) &&
		f.form(bodyNewline, "the signed body has no white space at its ends", bytes.TrimSpace(b)) &&
		f.form(bodyLineEnds, "the signed lines end with LF", lf) &&
		f.form(bodyLineEnds, "the signed lines end with CRLF", bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))) &&
		f.form(bodyLineEnds, "the signed body has no line ends",
			bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r"), nil), []byte("\n"), nil)) &&
		f.form(bodyBOM, "the signed body begins with it", append(slices.Clip(bom), b...)) &&
		f.form(bodyBOM, "the signed body is without it", bytes.TrimPrefix(b, bom)) &&
		f.form(bodyEmpty, "", nil)
}

// rewritten writes the JSON as the usual libraries do.
func (f *former) rewritten() bool {
	v, ok := parseJSON(f.body)
	if !ok {
		return true
	}
	for _, style := range jsonStyles {
		if style.rare && !f.all {
			continue
		}
		text, short := style.write(v, maxGrown*len(f.body))
		if short && !f.form(bodyRewritten, "it was signed "+style.name, text) {
			return false
		}
	}
	return true
}

// encoded undoes and makes encodings of the whole body.
func (f *former) encoded() bool {
	text := string(f.body)
	if u, err := strconv.Unquote(`"` + text + `"`); err == nil &&
		!f.form(bodyEscaped, "it came with backslashes before its quotes", []byte(u)) {
		return false
	}
	if u, err := url.QueryUnescape(text); err == nil && !f.form(bodyEscaped, "it came percent-encoded", []byte(u)) {
		return false
	}
	trimmed := bytes.TrimSpace(f.body)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		raw := make([]byte, enc.DecodedLen(len(trimmed)))
		if n, err := enc.Decode(raw, trimmed); err == nil && n > 0 &&
			!f.form(bodyBase64, "it came in base64", raw[:n]) {
			return false
		}
	}
	return f.form(bodyBase64, "it was signed in base64", base64.StdEncoding.AppendEncode(nil, f.body)) &&
		f.form(bodyEscaped, "it was signed percent-encoded", []byte(url.QueryEscape(text)))
}

// charsets undoes conversions between UTF-8 and Latin-1.
func (f *former) charsets() bool {
	if latin, ok := toLatin1(f.body); ok {
		detail := "it was signed as Latin-1 and came as UTF-8"
		if utf8.Valid(latin) {
			detail = "its UTF-8 was read as Latin-1 and encoded again"
		}
		if !f.form(bodyCharset, detail, latin) {
			return false
		}
	}
	high := slices.ContainsFunc(f.body, func(c byte) bool { return c >= utf8.RuneSelf })
	if !high {
		return true
	}
	wide := make([]byte, 0, 2*len(f.body))
	for _, c := range f.body {
		wide = utf8.AppendRune(wide, rune(c))
	}
	detail := "it was signed as UTF-8 and came as Latin-1"
	if utf8.Valid(f.body) {
		detail = "it was signed with its UTF-8 encoded twice"
	}
	return f.form(bodyCharset, detail, wide)
}

// toLatin1 returns false for text that has no other form in Latin-1.
func toLatin1(b []byte) (out []byte, ok bool) {
	if !utf8.Valid(b) {
		return nil, false
	}
	for _, r := range string(b) {
		if r > 0xff {
			return nil, false
		}
		ok = ok || r >= utf8.RuneSelf
		out = append(out, byte(r))
	}
	return out, ok
}

// wrapped undoes and makes strings and forms with JSON in them.
func (f *former) wrapped() bool {
	text := string(f.body)
	var inner string
	if len(f.body) > 0 && f.body[0] == '"' && json.Unmarshal(f.body, &inner) == nil &&
		!f.form(bodyDoubleJSON, "it came as a string that holds JSON", []byte(inner)) {
		return false
	}
	trimmed := bytes.TrimSpace(f.body)
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		if !f.form(bodyDoubleJSON, "it was signed as a string that holds JSON", jsonString(f.body)) ||
			!f.form(bodyForm, "it was signed as the member payload of a form",
				[]byte("payload="+url.QueryEscape(text))) {
			return false
		}
		return true
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return true
	}
	for _, name := range []string{"payload", "data", "body", "json"} {
		if v := form.Get(name); v != "" && !f.form(bodyForm, "it came as the member "+name+" of a form", []byte(v)) {
			return false
		}
	}
	if bytes.IndexByte(f.body, '=') < 0 {
		return true
	}
	return f.form(bodyForm, "the form was signed with its members sorted", []byte(form.Encode())) &&
		f.form(bodyForm, "the form was signed with %20 in place of +", bytes.ReplaceAll(f.body, []byte("+"),
			[]byte("%20"))) &&
		f.form(bodyForm, "the form was signed with + in place of %20", bytes.ReplaceAll(f.body, []byte("%20"),
			[]byte("+")))
}

// jsonString writes text as a string, without escapes that are not needed.
func jsonString(text []byte) []byte {
	b, _ := jsonStyle{}.write(jsonValue{kind: '"', text: text}, maxGrown*len(text)+2)
	return b
}

func isGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b }

// packed undoes gzip, up to the largest body of the producer.
func (f *former) packed() bool {
	if !isGzip(f.body) {
		return true
	}
	z, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		return true
	}
	most := f.own.MaxBody
	plain, err := io.ReadAll(io.LimitReader(z, most+1))
	if errors.Is(err, io.ErrUnexpectedEOF) || err != nil || int64(len(plain)) > most {
		return true
	}
	next := f.with(change{cause: bodyCompressed, detail: "it was signed before it was compressed with gzip"})
	next.body = plain
	return !f.spent && f.yield(next)
}
