package strictjson

import (
	"math"
	"slices"
	"strconv"
)

// maxNumber bounds the characters of a number: ECMAScript prints none longer.
const maxNumber = 25

// isCanonicalNumber reports whether a JSON number is below 2^53 and written as ECMAScript
// prints it (RFC 8785 section 3.2.2.3), so programs pass it on unchanged.
func isCanonicalNumber(text []byte) bool {
	if len(text) <= 15 && !slices.ContainsFunc(text, func(b byte) bool { return !isDigit(b) }) {
		return true // an integer; JSON has no leading zeros
	}
	return len(text) <= maxNumber && printsAs(text)
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
