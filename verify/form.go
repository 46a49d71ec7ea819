package verify

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// maxFormParams bounds the parameters of a form that is read before it is verified.
const maxFormParams = 500

// formParam is a parameter of a form, decoded.
type formParam struct {
	prefix      uint64 // of the name: the first bytes, in their order
	name, value []byte
}

func compareParams(a, b formParam) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return cmp.Or(bytes.Compare(a.name, b.name), bytes.Compare(a.value, b.value))
}

// sortedForm joins names and values in the order of the names; a name with several values stands before each
// different one, in their order (as the vendor's Node.js library does; its Go library takes the first only). It reports
// false for a body that is not a form, or one of more than 500 parameters.
func sortedForm(body []byte) ([]byte, bool) {
	params := make([]formParam, 0, min(maxFormParams, bytes.Count(body, []byte("&"))+1))
	decoded := make([]byte, 0, len(body)) // which no parameter outgrows, so that parameters stay where they are
	for rest, more := body, true; more; {
		var pair []byte
		if pair, rest, more = bytes.Cut(rest, []byte("&")); len(pair) == 0 {
			continue
		}
		if len(params) == maxFormParams {
			return nil, false
		}
		name, value, _ := bytes.Cut(pair, []byte("="))
		var p formParam
		var ok1, ok2 bool
		decoded, p.name, ok1 = appendUnescaped(decoded, name)
		decoded, p.value, ok2 = appendUnescaped(decoded, value)
		if !ok1 || !ok2 {
			return nil, false
		}
		var first [8]byte
		copy(first[:], p.name)
		p.prefix = binary.BigEndian.Uint64(first[:])
		params = append(params, p)
	}
	slices.SortFunc(params, compareParams)
	out := make([]byte, 0, len(decoded))
	for i := range params {
		if p := &params[i]; i == 0 || compareParams(params[i-1], *p) != 0 {
			out = append(append(out, p.name...), p.value...)
		}
	}
	return out, true
}

// appendUnescaped appends a name or value of a form, decoded as [url.QueryUnescape] does, and also returns it alone. It
// reports false for a semicolon, which url.ParseQuery refuses, and for what is no escape.
func appendUnescaped(b, text []byte) (all, one []byte, ok bool) {
	start := len(b)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ';':
			return b, nil, false
		case '+':
			b = append(b, ' ')
		case '%':
			if i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2]) {
				return b, nil, false
			}
			b = append(b, hexValue(text[i+1])<<4|hexValue(text[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return b, b[start:len(b):len(b)], true
}

// hexValue returns the value of a hexadecimal digit.
func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
