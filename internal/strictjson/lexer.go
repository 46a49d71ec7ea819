package strictjson

import (
	"encoding/binary"
	"math/bits"
)

// The functions here return the index after what they read at i, or -1 if it is malformed.

func skipSpace(text []byte, i int) int {
	for i < len(text) && text[i] <= ' ' && isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scalarEnd reads a number or literal.
func scalarEnd(text []byte, i int) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case 't':
		return literalEnd(text, i, "true")
	case 'f':
		return literalEnd(text, i, "false")
	case 'n':
		return literalEnd(text, i, "null")
	}
	return numberEnd(text, i)
}

func literalEnd(text []byte, i int, word string) int {
	if end := i + len(word); end <= len(text) && string(text[i:end]) == word {
		return end
	}
	return -1
}

func numberEnd(text []byte, i int) int {
	if i < len(text) && text[i] == '-' {
		i++
	}
	first := i
	if i = digitsEnd(text, i); i < 0 || i > first+1 && text[first] == '0' {
		return -1
	}
	if i < len(text) && text[i] == '.' {
		if i = digitsEnd(text, i+1); i < 0 {
			return -1
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return digitsEnd(text, i)
	}
	return i
}

// digitsEnd reads one or more digits.
func digitsEnd(text []byte, i int) int {
	first := i
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

// stringEnd reads a string. It does not check that it is UTF-8.
func stringEnd(text []byte, i int) int {
	for i++; ; {
		i = plainEnd(text, i)
		if i >= len(text) || text[i] < ' ' {
			return -1
		}
		if text[i] == '"' {
			return i + 1
		}
		if i = escapeEnd(text, i); i < 0 {
			return -1
		}
	}
}

// plainEnd returns the index of the next quote, backslash or control character from i on.
func plainEnd(text []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080 // in each of 8 bytes
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, backslash := w^'"'*ones, w^'\\'*ones
		// The high bit of a byte is set where the byte of quote or backslash is 0, or that of w is
		// below ' '. Bits above the lowest one may be wrong.
		if found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

// escapeEnd reads an escape, which begins with the backslash at i.
func escapeEnd(text []byte, i int) int {
	i++
	switch {
	case i == len(text):
		return -1
	case text[i] == 'u':
		if _, ok := hex4(text[i+1:]); !ok {
			return -1
		}
		return i + 5
	case unescape(text[i]) == 0:
		return -1
	}
	return i + 1
}
