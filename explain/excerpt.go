package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/verify"
)

// proved returns the findings of a state that holds. Of the URL and the body it shows where what
// was signed differs from what came.
//
// Where a signature binds only some members of a body, or a form of it, another body may verify
// too: the cause is then likely. A charset is proved by the members.
func (s *search) proved(st state, o outcome) []Finding {
	var found []Finding
	for _, c := range st.changes {
		f := Finding{Cause: c.cause, Proved: true, Detail: c.detail, Signed: c.signed, Came: c.came}
		if c.cause == Cause(verify.CoverageDiffers) {
			f.Detail = cmp.Or(c.detail, quoted(s.missed))
		}
		switch c.cause.text().group {
		case groupURL:
			signed, came := shownURL(st.request.URL), shownURL(s.d.Request.URL)
			f.Signed, f.Came, f.At = signed, came, differ(signed, came)
		case groupBody:
			whole := !o.id.Covers("@items") || c.cause == bodyCharset
			f.At, f.Proved = differ(st.body, s.d.Body), whole && !o.id.Malleable
			f.Signed, f.Came = s.excerpt(st.body, f.At), s.excerpt(s.d.Body, f.At)
		}
		found = append(found, f)
	}
	return found
}

// differ returns the offset of the first byte that differs.
func differ[T string | []byte](a, b T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// shownURL returns the URL without the values of its query, which may be credentials.
func shownURL(u *url.URL) string {
	text := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery == "" {
		return text
	}
	parts := strings.Split(u.RawQuery, "&")
	for i, part := range parts {
		if name, _, found := strings.Cut(part, "="); found {
			parts[i] = name + "=…"
		}
	}
	return text + "?" + strings.Join(parts[:min(len(parts), 2*maxOrdered)], "&")
}

// Bytes of an excerpt before and after the first difference.
const (
	excerptBefore = 16
	excerptAfter  = 32
)

// excerpt returns the bytes around an offset, with secrets masked.
func (s *search) excerpt(b []byte, at int) string {
	from, to := max(0, at-excerptBefore), min(len(b), at+excerptAfter)
	if from >= to {
		return ""
	}
	shown := bytes.Clone(b[from:to])
	for _, secret := range s.hidden {
		mask(shown, b, from, secret)
	}
	text := string(shown)
	if from > 0 {
		text = "…" + text
	}
	if to < len(b) {
		text += "…"
	}
	return text
}

// mask overwrites what the excerpt holds of a secret that is in the body.
func mask(shown, b []byte, from int, secret string) {
	start := max(0, from-len(secret)+1)
	window := b[start:min(len(b), from+len(shown)+len(secret)-1)]
	for {
		i := bytes.Index(window, []byte(secret))
		if i < 0 {
			return
		}
		for j := range len(secret) {
			if at := start + i + j - from; at >= 0 && at < len(shown) {
				shown[at] = '*'
			}
		}
		start += i + 1
		window = window[i+1:]
	}
}

// plain returns text that is safe on a terminal and in HTML: control characters, marks of
// direction, invalid UTF-8, and the characters that begin a tag or an entity are escaped.
func plain(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '<' || r == '>' || r == '&' || !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// signatureBase returns the base of a signature under a scheme of RFC 9421, or one in it.
func signatureBase(scheme verify.Scheme, r *http.Request, label string) (base string) {
	for _, part := range verify.Parts(scheme) {
		one, ok := part.(interface {
			SignatureBase(*http.Request, string) []byte
		})
		if ok && base == "" {
			base = string(one.SignatureBase(r, label))
		}
	}
	return base
}

// compare returns the bases of a state that holds and of the delivery, or nil if they are equal.
func (s *search) compare(st state, label string) *Bases {
	signed, ours := signatureBase(st.scheme, st.request, label), signatureBase(s.own.Scheme, s.d.Request, label)
	if signed == "" || ours == "" || signed == ours {
		return nil
	}
	b := &Bases{s.lines(signed), s.lines(ours)}
	for i := range max(len(b.Signed), len(b.Ours)) {
		for _, lines := range []*[]string{&b.Signed, &b.Ours} {
			if i == len(*lines) {
				*lines = append(*lines, "")
			}
		}
		from := differ(b.Signed[i], b.Ours[i])
		b.Signed[i], b.Ours[i] = s.shown(b.Signed[i], from), s.shown(b.Ours[i], from)
	}
	return b
}

// lines returns the lines of a base, masked.
func (s *search) lines(base string) []string {
	lines := strings.SplitAfter(base, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	hidden := append([]string{"Authorization", "Proxy-Authorization", "Cookie"}, s.own.SecretHeaders...)
	for i, line := range lines {
		id, value, _ := strings.Cut(line, ": ")
		masked := len(line) // the first byte that is
		name, _, field := strings.Cut(strings.TrimPrefix(id, `"`), `"`)
		secret := func(header string) bool { return strings.EqualFold(header, name) }
		switch {
		case !field:
			masked = 0 // what a query has after a decoded newline
		case strings.HasPrefix(name, "@query"), slices.ContainsFunc(hidden, secret):
			masked -= len(value)
		case name == "@target-uri":
			masked = strings.Index(line+"?", "?")
		}
		lines[i] = line[:masked] + strings.Map(star, line[masked:])
	}
	return lines
}

// star masks letters and digits.
func star(r rune) rune {
	if r > '~' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
		return '*'
	}
	return r
}

// clean makes a finding safe to show.
func (s *search) clean(f *Finding) {
	for _, text := range []*string{&f.Detail, &f.Signed, &f.Came} {
		*text = s.shown(*text, 0)
	}
}

// shown makes a text safe to show: it masks it, and bounds what is before and after an offset.
func (s *search) shown(text string, at int) string {
	for _, secret := range s.hidden {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	if from := min(at-maxText/2, len(text)-maxText); from > 0 {
		text = "…" + strings.ToValidUTF8(text[from:], "")
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return plain(text)
}

// minHidden is the length of the shortest text that is masked. Shorter ones occur by chance.
const minHidden = 4

// hide adds secrets, and the forms in which an output may hold them.
func (s *search) hide(offers []verify.Offer) {
	for _, o := range offers {
		text := string(o.Secret)
		_, bare, _ := strings.Cut(text, "_")
		for _, form := range []string{text, strconv.Quote(text), plain(text), url.PathEscape(text),
			url.QueryEscape(text), bare} {
			form = strings.Trim(form, `"`)
			if len(form) >= minHidden && !slices.Contains(s.hidden, form) {
				s.hidden = append(s.hidden, form)
			}
		}
	}
}
