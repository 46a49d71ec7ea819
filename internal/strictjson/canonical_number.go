package strictjson

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// maxNumber bounds the characters of a number: ECMAScript prints none longer.
const maxNumber = 25

// isCanonicalNumber reports whether a JSON number is below 2^53 and written as ECMAScript
// prints it (RFC 8785 section 3.2.2.3), so programs pass it on unchanged. A double holds every
// decimal number of 15 digits exactly, so for these the notation alone decides.
func isCanonicalNumber(text []byte) bool {
	if len(text) <= 15 && !slices.ContainsFunc(text, func(b byte) bool { return !isDigit(b) }) {
		return true // an integer; JSON has no leading zeros
	}
	if len(text) > maxNumber || bytes.IndexByte(text, 'E') >= 0 {
		return false
	}
	n := splitNumber(text)
	switch {
	case n.digits > 15 || n.exponent > 290:
		return printsAs(text)
	case n.digits == 0:
		return string(text) == "0"
	case len(n.fraction) > 0 && n.fraction[len(n.fraction)-1] == '0':
		return false
	case n.exponent == 0:
		return n.whole[0] != '0' || n.zeros <= 5
	}
	return n.scientific && n.exponent >= 7 && len(n.whole) == 1 && n.whole[0] != '0'
}

// decimal is a parsed JSON number.
type decimal struct {
	whole, fraction []byte
	digits          int  // from the first that is not zero
	zeros           int  // after the point, where whole is 0
	exponent        int  // without its sign; 0 for none
	scientific      bool // the exponent is "e-" without a leading zero
}

func splitNumber(text []byte) decimal {
	n := decimal{whole: bytes.TrimPrefix(text, []byte("-"))}
	if i := bytes.IndexByte(n.whole, 'e'); i >= 0 {
		exponent := n.whole[i+1:]
		n.whole, n.exponent = n.whole[:i], 1
		if n.scientific = len(exponent) > 1 && exponent[0] == '-' && exponent[1] != '0'; n.scientific {
			n.exponent, _ = strconv.Atoi(string(exponent[1:]))
		}
	}
	if i := bytes.IndexByte(n.whole, '.'); i >= 0 {
		n.whole, n.fraction = n.whole[:i], n.whole[i+1:]
	}
	if n.whole[0] != '0' {
		n.digits = len(n.whole) + len(n.fraction)
		return n
	}
	for n.zeros < len(n.fraction) && n.fraction[n.zeros] == '0' {
		n.zeros++
	}
	n.digits = len(n.fraction) - n.zeros
	return n
}

// printsAs reports whether ECMAScript prints a number below 2^53 as this text (ECMA-262 section
// 6.1.6.1.20).
func printsAs(text []byte) bool {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(f) >= 1<<53 {
		return false
	}
	var buf [32]byte
	if f == 0 {
		return string(text) == "0"
	}
	if math.Abs(f) >= 1e-6 {
		return string(strconv.AppendFloat(buf[:0], f, 'f', -1, 64)) == string(text)
	}
	printed := strconv.AppendFloat(buf[:0], f, 'e', -1, 64) // at least two digits of exponent
	if n := len(printed); printed[n-2] == '0' && printed[n-3] == '-' {
		printed = append(printed[:n-2], printed[n-1])
	}
	return string(printed) == string(text)
}
