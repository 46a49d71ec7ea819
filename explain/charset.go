package explain

import (
	"slices"
	"unicode/utf8"
)

// charset is a character set of one byte for each character.
type charset struct {
	name string
	high []rune // of the bytes 0x80 to 0x9f; nil if they are the characters with these numbers
}

// charsets8 are those in which programs read UTF-8 by mistake.
var charsets8 = []charset{
	{name: "Latin-1"},
	{"Windows-1252", []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")},
}

// decode returns bytes that are read in the character set, as UTF-8.
func (c charset) decode(b []byte) []byte {
	out := make([]byte, 0, 2*len(b))
	for _, x := range b {
		r := rune(x)
		if i := int(x) - utf8.RuneSelf; i >= 0 && i < len(c.high) {
			r = c.high[i]
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// encode returns false for text that has no other form in the character set.
func (c charset) encode(text []byte) (out []byte, ok bool) {
	if !utf8.Valid(text) {
		return nil, false
	}
	for _, r := range string(text) {
		if i := slices.Index(c.high, r); i >= 0 {
			r = utf8.RuneSelf + rune(i)
		}
		if r > 0xff {
			return nil, false
		}
		ok = ok || r >= utf8.RuneSelf
		out = append(out, byte(r))
	}
	return out, ok
}

// charsets undoes conversions between UTF-8 and character sets of one byte.
func (f *former) charsets() {
	for _, c := range charsets8 {
		if narrow, ok := c.encode(f.body); ok {
			detail := "it was signed as " + c.name + " and came as UTF-8"
			if utf8.Valid(narrow) {
				detail = "its UTF-8 was read as " + c.name + " and encoded again"
			}
			f.form(bodyCharset, detail, narrow)
		}
		if ascii(f.body) {
			continue
		}
		detail := "it was signed as UTF-8 and came as " + c.name
		if utf8.Valid(f.body) {
			detail = "it was signed with its UTF-8 read as " + c.name
		}
		f.form(bodyCharset, detail, c.decode(f.body))
	}
}

// charsetsOfStrings does the same to each string of JSON, whichever escapes it has. Some schemes
// sign the values of members.
func (f *former) charsetsOfStrings() {
	if !f.all {
		return
	}
	v, ok := f.parse()
	for _, c := range charsets8 {
		for _, change := range []struct {
			detail string
			of     func(text []byte) ([]byte, bool)
		}{
			{"the UTF-8 of its strings was read as " + c.name + " and encoded again", func(text []byte) ([]byte, bool) {
				narrow, ok := c.encode(text)
				return narrow, ok && utf8.Valid(narrow)
			}},
			{"its strings were signed with their UTF-8 read as " + c.name, func(text []byte) ([]byte, bool) {
				return c.decode(text), !ascii(text)
			}},
		} {
			if !ok || !f.more() {
				return
			}
			other := false
			changed := v.mapped(func(text []byte) []byte {
				if made, ok := change.of(text); ok {
					text, other = made, true
				}
				return text
			})
			if !other {
				continue
			}
			if text, short := jsonStyles[0].write(changed, min(maxGrown*len(f.body), MaxHashed-f.hashed)); short {
				f.form(bodyCharset, change.detail, text)
			}
		}
	}
}

func ascii(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
}
