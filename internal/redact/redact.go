// Package redact replaces the credentials in a request by their length: REDACTED(27).
package redact

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// always are the fields that hold credentials of every sender.
var always = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}

// Credentials of at least minCopy bytes are also looked for elsewhere: shorter ones occur by
// chance. A request with more than maxCopies of them is not a producer's.
const (
	minCopy   = 8
	maxCopies = 16
)

// Rules are the places of credentials, beside the fields Authorization, Proxy-Authorization,
// Cookie and Set-Cookie. Names are compared without regard to case.
type Rules struct {
	Fields, Params []string
	// Members are paths of JSON members, through the elements of arrays too.
	Members [][]string
}

// Add adds a rule: header:NAME, query:NAME, or json:MEMBER.MEMBER.
func (r *Rules) Add(rule string) error {
	kind, name, _ := strings.Cut(rule, ":")
	path := strings.Split(name, ".")
	switch {
	case name == "" || slices.Contains(path, "") && kind == "json":
		return fmt.Errorf("%q names nothing", rule)
	case kind == "header":
		r.Fields = append(r.Fields, name)
	case kind == "query":
		r.Params = append(r.Params, name)
	case kind == "json":
		r.Members = append(r.Members, path)
	default:
		return fmt.Errorf("%q is neither header:NAME, query:NAME nor json:MEMBER", rule)
	}
	return nil
}

// Mask hides the credentials of one request, and copies of them that a proxy or a mistake put
// elsewhere, if they have at least 8 bytes.
type Mask struct {
	rules  *Rules
	copies []string // the longest first
}

// Mask returns the mask of a request with these fields and request targets or URLs.
func (r *Rules) Mask(h http.Header, targets ...string) *Mask {
	var copies []string
	note := func(value string) string {
		if len(value) >= minCopy {
			copies = append(copies, value)
		}
		return value
	}
	for name, values := range h {
		if !r.hidesField(name) {
			continue
		}
		for _, value := range values {
			note(value)
			note(value[strings.LastIndexByte(value, ' ')+1:]) // without the scheme, such as Bearer
		}
	}
	for _, target := range targets {
		r.eachParam(target, func(value string) string {
			if plain, err := url.QueryUnescape(value); err == nil {
				note(plain)
			}
			return note(value)
		})
	}
	slices.SortFunc(copies, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	copies = slices.Compact(copies)
	return &Mask{rules: r, copies: copies[:min(len(copies), maxCopies)]}
}

func (r *Rules) hidesField(name string) bool {
	return contains(always, name) || contains(r.Fields, name)
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hidden is shown in place of a credential.
func hidden(length int) string { return "REDACTED(" + strconv.Itoa(length) + ")" }

// Text returns a text without copies of the credentials.
func (m *Mask) Text(text string) string {
	for _, credential := range m.copies {
		text = strings.ReplaceAll(text, credential, hidden(len(credential)))
	}
	return text
}

// Header returns a copy of the fields without credentials.
func (m *Mask) Header(h http.Header) http.Header {
	shown := http.Header{}
	for name, values := range h {
		for _, value := range values {
			if m.rules.hidesField(name) {
				value = hidden(len(value))
			} else {
				value = m.Text(value)
			}
			shown[name] = append(shown[name], value)
		}
	}
	return shown
}

// Target returns a request target or URL without its user and its credentials.
func (m *Mask) Target(target string) string {
	target = m.rules.eachParam(target, func(value string) string { return hidden(len(value)) })
	if before, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(target, "/") {
		end := strings.IndexAny(rest+"/", "/?")
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			target = before + "://" + hidden(at) + rest[at:]
		}
	}
	return m.Text(target)
}

// eachParam replaces the values of the credentials in the query, as they are written. A parameter
// begins after a semicolon too, as some senders write them, but a credential ends at an ampersand.
func (r *Rules) eachParam(target string, replace func(value string) string) string {
	start := strings.IndexByte(target, '?') + 1
	if start == 0 {
		return target
	}
	var b strings.Builder
	b.WriteString(target[:start])
	for query := target[start:]; query != ""; {
		end := indexAny(query, "&;")
		name, _, ok := strings.Cut(query[:end], "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if ok && contains(r.Params, plain) {
			end = indexAny(query, "&")
			b.WriteString(name + "=" + replace(query[len(name)+1:end]))
		} else {
			end = min(end+1, len(query))
			b.WriteString(query[:end])
		}
		query = query[end:]
	}
	return b.String()
}

// indexAny returns the index of the first of the characters, else the length of the text.
func indexAny(text, chars string) int {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return i
	}
	return len(text)
}

// Body returns a body without credentials. Where members are to be hidden, a body that is not a
// whole JSON text of at most 64 levels is not shown at all: ok is false.
func (m *Mask) Body(body []byte) (shown []byte, ok bool) {
	shown = body
	if len(m.rules.Members) > 0 && len(body) > 0 {
		if shown, ok = m.rules.withoutMembers(body); !ok {
			return nil, false
		}
	}
	if len(m.copies) == 0 {
		return shown, true
	}
	return []byte(m.Text(string(shown))), true
}

// withoutMembers replaces the values of the members in a JSON text.
func (r *Rules) withoutMembers(text []byte) (shown []byte, ok bool) {
	s := strictjson.NewScanner(text, strictjson.Limits{Depth: strictjson.Unverified.Depth})
	copied := 0
	var read func(paths [][]string) error
	read = func(paths [][]string) error {
		c := s.Next()
		start := s.Pos()
		switch {
		case slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }):
			_, err := s.Value()
			shown = append(shown, text[copied:start]...)
			shown = strconv.AppendQuote(shown, hidden(s.Pos()-start))
			copied = s.Pos()
			return err
		case c == '{' && len(paths) > 0:
			return s.Object(func(name []byte) error { return read(below(paths, strictjson.String(name))) })
		case c == '[' && len(paths) > 0:
			return s.Array(func() error { return read(paths) })
		}
		_, err := s.Value()
		return err
	}
	if read(r.Members) != nil || s.End() != nil {
		return nil, false
	}
	return append(shown, text[copied:]...), true
}

// below returns the paths that begin with name, without it.
func below(paths [][]string, name string) (rest [][]string) {
	for _, p := range paths {
		if strings.EqualFold(p[0], name) {
			rest = append(rest, p[1:])
		}
	}
	return rest
}
