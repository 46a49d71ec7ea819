package explain

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"io"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxGrown is how much longer than the body a form of it may be.
const maxGrown = 4

// bodies yields the state with each form that the body may have had when it was signed. Forms are
// made one by one, and equal ones only once. Without all it yields those that are combined with
// other changes.
func bodies(s *search, st state, all bool) iter.Seq[state] {
	return func(yield func(state) bool) {
		f := &former{search: s, state: st, yield: yield, ended: s.d.Unread, all: all, seed: maphash.MakeSeed()}
		f.seen = map[uint64]bool{maphash.Bytes(f.seed, st.body): true}
		for _, forms := range []func(*former){
			(*former).ends, (*former).rewritten, (*former).encoded, (*former).charsets, (*former).charsetsOfStrings,
			(*former).wide, (*former).normalized, (*former).wrapped, (*former).unpacked, (*former).packed,
		} {
			if f.more() {
				forms(f)
			}
		}
	}
}

// former makes the forms of a body.
type former struct {
	*search
	state
	yield func(state) bool
	ended bool // no more are wanted
	all   bool
	seed  maphash.Seed
	seen  map[uint64]bool
}

// more reports whether more forms are wanted. Those that are long to make ask before.
func (f *former) more() bool { return f.made(0) && !f.ended }

// form tries one form that was made.
func (f *former) form(cause Cause, detail string, body []byte) {
	if !f.more() || !f.made(len(body)) || len(body) > maxGrown*len(f.body)+len("payload=")+2 {
		return
	}
	if sum := maphash.Bytes(f.seed, body); !f.seen[sum] {
		f.seen[sum] = true
		f.add(cause, detail, body)
	}
}

func (f *former) add(cause Cause, detail string, body []byte) {
	next := f.with(change{cause: cause, detail: detail})
	next.body = body
	f.ended = f.ended || !f.yield(next)
}

var bom = []byte("\xef\xbb\xbf")

// ends changes the ends of the body and of its lines.
func (f *former) ends() {
	b := f.body
	lf := bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	f.form(bodyNewline, "the signed body ends with a newline", append(slices.Clip(b), '\n'))
	f.form(bodyNewline, "the signed body ends without a newline", bytes.TrimRight(b, "\r\n"))
	f.form(bodyNewline, "the signed body ends with CRLF", append(slices.Clip(b), "\r\n"...))
	f.form(bodyNewline, "the signed body has no white space at its ends", bytes.TrimSpace(b))
	f.form(bodyLineEnds, "the signed lines end with LF", lf)
	f.form(bodyLineEnds, "the signed lines end with CRLF", bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n")))
	f.form(bodyLineEnds, "the signed body has no line ends",
		bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r"), nil), []byte("\n"), nil))
	f.form(bodyBOM, "the signed body begins with it", append(slices.Clip(bom), b...))
	f.form(bodyBOM, "the signed body is without it", bytes.TrimPrefix(b, bom))
	f.form(bodyEmpty, "", nil)
}

// rewritten writes the JSON as the usual libraries do.
func (f *former) rewritten() {
	v, ok := f.parse()
	if !ok {
		return
	}
	var ordered *jsonValue
	for _, style := range jsonStyles {
		if style.rare && !f.all {
			continue
		}
		if !f.more() {
			return
		}
		of := v
		if style.sorted {
			if ordered == nil {
				ordered = new(v.sorted())
			}
			of = *ordered
		}
		text, short := style.write(of, min(maxGrown*len(f.body), MaxHashed-f.hashed))
		if short {
			f.form(bodyRewritten, "it was signed "+style.name, text)
		} else {
			f.made(len(text))
		}
	}
}

// encoded undoes and makes encodings of the whole body.
func (f *former) encoded() {
	text := string(f.body)
	if u, err := strconv.Unquote(`"` + text + `"`); err == nil {
		f.form(bodyEscaped, "it came with backslashes before its quotes", []byte(u))
	}
	if u, err := url.QueryUnescape(text); err == nil {
		f.form(bodyEscaped, "it came percent-encoded", []byte(u))
	}
	trimmed := bytes.TrimSpace(f.body)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		raw := make([]byte, enc.DecodedLen(len(trimmed)))
		if n, err := enc.Decode(raw, trimmed); err == nil && n > 0 {
			f.form(bodyBase64, "it came in base64", raw[:n])
		}
	}
	f.form(bodyBase64, "it was signed in base64", base64.StdEncoding.AppendEncode(nil, f.body))
	f.escaped(bodyEscaped, "it was signed percent-encoded", "")
}

// escaped tries the body percent-encoded, after a text.
func (f *former) escaped(cause Cause, detail, before string) {
	if f.more() {
		f.form(cause, detail, []byte(before+url.QueryEscape(string(f.body))))
	}
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// wide undoes and makes UTF-16, with and without a byte order mark.
func (f *former) wide() {
	for _, order := range []struct {
		name string
		byteOrder
	}{{"UTF-16, little endian", binary.LittleEndian}, {"UTF-16, big endian", binary.BigEndian}} {
		mark := order.AppendUint16(nil, 0xfeff)
		if text, ok := fromUTF16(bytes.TrimPrefix(f.body, mark), order); ok {
			f.form(bodyCharset, "it came as "+order.name, text)
		}
		if !f.all || !f.more() || !utf8.Valid(f.body) {
			continue
		}
		var units []byte
		for _, u := range utf16.Encode([]rune(string(f.body))) {
			units = order.AppendUint16(units, u)
		}
		f.form(bodyCharset, "it was signed as "+order.name, units)
		f.form(bodyCharset, "it was signed as "+order.name+", with a byte order mark", append(mark, units...))
	}
}

// fromUTF16 returns false for a body that is not ASCII or Latin-1 for the most part.
func fromUTF16(b []byte, order binary.ByteOrder) ([]byte, bool) {
	if len(b) < 2 || len(b)%2 != 0 || bytes.Count(b, []byte{0}) < len(b)/4 {
		return nil, false
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	return []byte(string(utf16.Decode(units))), true
}

// normalized composes and decomposes characters (Unicode Standard Annex 15).
func (f *former) normalized() {
	if f.all && utf8.Valid(f.body) {
		f.form(bodyCharset, "it was signed in the composed form of Unicode (NFC)", norm.NFC.Bytes(f.body))
		f.form(bodyCharset, "it was signed in the decomposed form of Unicode (NFD)", norm.NFD.Bytes(f.body))
	}
}

// wrapped undoes and makes strings and forms with JSON in them.
func (f *former) wrapped() {
	text := string(f.body)
	inner := text
	for range maxTwice {
		if inner == "" || inner[0] != '"' || json.Unmarshal([]byte(inner), &inner) != nil {
			break
		}
		f.form(bodyDoubleJSON, "it came as a string that holds JSON", []byte(inner))
	}
	trimmed := bytes.TrimSpace(f.body)
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		for _, style := range stringStyles {
			if (f.all || style == jsonStyle{}) && f.more() {
				f.form(bodyDoubleJSON, "it was signed as a string that holds JSON", style.quote(f.body))
			}
		}
		f.escaped(bodyForm, "it was signed as the member payload of a form", "payload=")
		return
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return
	}
	for _, name := range []string{"payload", "data", "body", "json"} {
		if v := form.Get(name); v != "" {
			f.form(bodyForm, "it came as the member "+name+" of a form", []byte(v))
		}
	}
	if strings.Contains(text, "=") {
		f.form(bodyForm, "the form was signed with its members sorted", []byte(form.Encode()))
		f.form(bodyForm, "the form was signed with %20 in place of +", []byte(spaced(text)))
		f.form(bodyForm, "the form was signed with + in place of %20", []byte(strings.ReplaceAll(text, "%20", "+")))
	}
}

const maxTwice = 3 // strings in each other that are undone

// stringStyles are how libraries write a string: with the escapes that are needed, as Go, as
// Python, as PHP, and as .NET.
var stringStyles = []jsonStyle{{}, {html: true}, {ascii: true}, {ascii: true, slash: true}, {slash: true},
	{ascii: true, html: true, upper: true}}

// quote writes text as a string.
func (s jsonStyle) quote(text []byte) []byte {
	b, _ := s.write(jsonValue{kind: '"', text: text}, maxGrown*len(text)+2)
	return b
}

func isGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b }

func isZlib(b []byte) bool { return len(b) > 2 && b[0] == 0x78 && (int(b[0])<<8|int(b[1]))%31 == 0 }

// unpacked undoes gzip and deflate, up to the largest body of the producer.
func (f *former) unpacked() {
	open := func(name string, r io.Reader, err error) {
		if err != nil {
			return
		}
		most := min(f.own.MaxBody, int64(MaxHashed-f.hashed))
		plain, err := io.ReadAll(io.LimitReader(r, most+1))
		if !f.made(len(plain)) || err != nil || int64(len(plain)) > most {
			return
		}
		f.add(bodyCompressed, "it was signed before it was compressed with "+name, plain)
	}
	switch {
	case isGzip(f.body):
		r, err := gzip.NewReader(bytes.NewReader(f.body))
		open("gzip", r, err)
	case isZlib(f.body):
		r, err := zlib.NewReader(bytes.NewReader(f.body))
		open("zlib", r, err)
	case strings.EqualFold(f.request.Header.Get("Content-Encoding"), "deflate"):
		open("deflate", flate.NewReader(bytes.NewReader(f.body)), nil)
	}
}

const maxPacked = 64 << 10 // bytes of a body that is compressed

// packed compresses a short body, as Go does. Other libraries make other bytes.
func (f *former) packed() {
	if !f.all || len(f.body) == 0 || len(f.body) > maxPacked || isGzip(f.body) || isZlib(f.body) {
		return
	}
	var gz, z bytes.Buffer
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gz), zlib.NewWriter(&z)} {
		_, _ = w.Write(f.body) // a buffer does not fail
		_ = w.Close()
	}
	f.form(bodyDecompressed, "it was signed compressed with gzip", gz.Bytes())
	f.form(bodyDecompressed, "it was signed compressed with zlib", z.Bytes())
}
