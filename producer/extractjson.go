package producer

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/verify"
)

// Bounds of what is read from bodies that other people wrote.
const (
	maxDepth = 256   // nesting of JSON
	maxValue = 4_096 // bytes of one extracted value as it is spelled
)

// splitPath takes a path apart at its dots; `\.` is a dot within a name.
func splitPath(path string) []string {
	var names []string
	var name strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			name.WriteByte(path[i])
		case path[i] == '.':
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(path[i])
		}
	}
	return append(names, name.String())
}

// document is JSON that has been checked, which costs more than finding a value in it.
type document struct {
	text []byte // as it was given
	root []byte // what checkedJSON made of it
	err  error
}

func newDocument(text []byte) *document {
	root, err := checkedJSON(text)
	return &document{text: text, root: root, err: err}
}

// document returns the body as JSON. All extractors of a delivery share it, so that the body is checked once.
func (d *Delivery) document() *document {
	if d.doc == nil || !sameBytes(d.doc.text, d.Body) {
		d.doc = newDocument(d.Body)
	}
	return d.doc
}

// sameBytes reports whether two slices are the same bytes of memory, not only equal ones.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// scalarAt returns the string, number or boolean at a path, as [JSON] promises.
func scalarAt(doc *document, path string, names []string) (string, error) {
	raw, err := doc.at(names)
	if errors.Is(err, errNotJSON) || err == nil && raw == nil {
		return "", nil
	}
	if err == nil && len(raw) > maxValue && raw[0] != '{' && raw[0] != '[' {
		err = errTooLong
	}
	if err == nil {
		var value string
		if value, err = scalar(raw); err == nil {
			return value, nil
		}
	}
	code := verify.EventMalformed
	if errors.Is(err, errDuplicate) {
		code = verify.AmbiguousField
	}
	return "", &verify.Error{Code: code, Component: path, Err: err}
}

// The ways in which JSON can be of no use.
var (
	errNotJSON   = errors.New("not JSON")
	errTooDeep   = verify.Public("nested deeper than 256")
	errDuplicate = errors.New("member occurs twice")
	errTooLong   = verify.Public("value over 4,096 bytes")
	errNotText   = errors.New("string that is not Unicode text")
)

// valueAt returns the bytes of the value at a path, or nil when there is none. The whole document is checked,
// no tree is built, and the time is linear in its length.
func valueAt(doc []byte, names []string) ([]byte, error) { return newDocument(doc).at(names) }

// at returns the bytes of the value at a path, or nil when there is none.
func (d *document) at(names []string) (raw []byte, err error) {
	if d.err != nil {
		return nil, d.err
	}
	raw = d.root
	for _, name := range names {
		switch raw[0] {
		case '{':
			raw, err = memberOf(raw, name)
		case '[':
			raw, err = elementOf(raw, name)
		default:
			return nil, nil
		}
		if raw == nil || err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// checkedJSON returns the document without the white space around it, when it is an object or array of valid
// JSON (RFC 8259) and of bounded depth. The walkers below rely on that.
func checkedJSON(doc []byte) ([]byte, error) {
	doc = bytes.Trim(doc, " \t\r\n")
	if len(doc) == 0 || doc[0] != '{' && doc[0] != '[' {
		return nil, errNotJSON // or a lone scalar, in which no path leads anywhere
	}
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = skipString(doc, i) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return nil, errTooDeep
			}
		case '}', ']':
			depth--
		}
	}
	if !json.Valid(doc) {
		return nil, errNotJSON
	}
	return doc, nil
}

// memberOf returns the value of a member of a valid object, nil when it has none, or errDuplicate.
func memberOf(object []byte, name string) ([]byte, error) {
	var found []byte
	err := eachMember(object, func(key, value []byte) error {
		if len(key) > 6*len(name)+2 { // longer than its longest spelling
			return nil
		}
		got, err := scalar(key)
		if err != nil || got != name {
			return nil //nolint:nilerr // a name that is no text is not the one we look for
		}
		if found != nil {
			return errDuplicate
		}
		found = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// elementOf returns an element of a valid array, or nil when index is no number within it.
func elementOf(array []byte, index string) ([]byte, error) {
	n, err := strconv.Atoi(index)
	if err != nil || strconv.Itoa(n) != index {
		return nil, nil //nolint:nilerr // a word that is no number names no element
	}
	var found []byte
	i := 0
	err = eachElement(array, func(value []byte) error {
		if i == n {
			found = value
		}
		i++
		return nil
	})
	return found, err
}

// eachMember calls do with the spelling of each name and value of a valid object.
func eachMember(object []byte, do func(key, value []byte) error) error {
	i := skipSpace(object, 1)
	for object[i] != '}' {
		keyEnd := skipValue(object, i)
		key := object[i:keyEnd]
		i = skipSpace(object, skipSpace(object, keyEnd)+1) // the colon
		end := skipValue(object, i)
		if err := do(key, object[i:end]); err != nil {
			return err
		}
		if i = skipSpace(object, end); object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return nil
}

// eachElement calls do with the spelling of each element of a valid array.
func eachElement(array []byte, do func(value []byte) error) error {
	i := skipSpace(array, 1)
	for array[i] != ']' {
		end := skipValue(array, i)
		if err := do(array[i:end]); err != nil {
			return err
		}
		if i = skipSpace(array, end); array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at i of valid JSON.
func skipValue(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i // the end of what holds a number or literal
			} else if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// skipString returns the index after the string that begins at i, or the length of b when the string does not end.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		end, escapes := i+n, 0
		for escapes < n && b[end-1-escapes] == '\\' {
			escapes++
		}
		if i = end + 1; escapes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// scalar returns the text of a valid JSON string, the spelling of a number or boolean, and "" for the rest.
func scalar(raw []byte) (string, error) {
	switch raw[0] {
	case '"':
		return unquote(raw[1 : len(raw)-1])
	case '{', '[', 'n':
		return "", nil
	}
	return string(raw), nil
}

// unquote decodes the inside of a valid JSON string. Unlike encoding/json it refuses what is not Unicode
// instead of replacing it, so that two different identifiers never become one.
func unquote(s []byte) (string, error) {
	if !utf8.Valid(s) {
		return "", errNotText
	}
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s), nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			out = append(out, escapes[s[i]])
			continue
		}
		r, n, err := unicodeEscape(s[i+1:])
		if err != nil {
			return "", err
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out), nil
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unicodeEscape decodes the four digits at the start of s, and the other half of a surrogate pair after
// them; n is how many bytes that took.
func unicodeEscape(s []byte) (r rune, n int, err error) {
	high, err := strconv.ParseUint(string(s[:4]), 16, 16)
	if err != nil {
		return 0, 0, errNotText
	}
	if r = rune(high); !utf16.IsSurrogate(r) {
		return r, 4, nil
	}
	if len(s) < 10 || s[4] != '\\' || s[5] != 'u' {
		return 0, 0, errNotText
	}
	low, err := strconv.ParseUint(string(s[6:10]), 16, 16)
	if err != nil {
		return 0, 0, errNotText
	}
	if r = utf16.DecodeRune(r, rune(low)); r == utf8.RuneError {
		return 0, 0, errNotText
	}
	return r, 10, nil
}
