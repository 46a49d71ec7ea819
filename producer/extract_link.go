package producer

import (
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Link reads the target of the Link field (RFC 8288) with the relation type. WebSub hubs identify
// the topic with it. The field may be on several lines. Two different targets of one relation are
// refused (ambiguous_field), and so is a field that does not parse (event_malformed).
func Link(rel string) Extractor { return linkTarget(rel) }

type linkTarget string

func (l linkTarget) Consumes() []string { return []string{"link"} }
func (l linkTarget) String() string     { return "link:" + string(l) }

func (l linkTarget) Extract(d *Delivery) (string, error) {
	found := ""
	for _, line := range d.Request.Header.Values("Link") {
		for rest := strings.Trim(line, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
			target, params, after, err := nextLink(rest)
			if err != nil {
				return "", &verify.Error{Code: verify.EventMalformed, Component: "link", Err: err}
			}
			rest = after
			if !hasRelation(params, string(l)) || target == found {
				continue
			}
			if found != "" {
				return "", &verify.Error{Code: verify.AmbiguousField, Component: "link"}
			}
			found = target
		}
	}
	return found, nil
}

var errLink = errors.New("not a list of links")

// nextLink returns target and parameters of the first link-value of a list, and the rest of the
// list.
func nextLink(s string) (target, params, rest string, err error) {
	if !strings.HasPrefix(s, "<") {
		return "", "", "", errLink
	}
	end := strings.IndexByte(s, '>')
	if end < 0 || end > maxValue {
		return "", "", "", errLink
	}
	target, s = s[1:end], s[end+1:]
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return target, s[:i], s[i+1:], nil
		}
	}
	if quoted {
		return "", "", "", errLink
	}
	return target, s, "", nil
}

// hasRelation reports whether the first rel parameter of a link lists the relation. Relation
// types are case-insensitive (RFC 8288 section 2.1.1), and later rel parameters do not count
// (section 3.3).
func hasRelation(params, rel string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(verify.TrimOWS(param), "=")
		if !strings.EqualFold(verify.TrimOWS(name), "rel") {
			continue
		}
		for one := range strings.SplitSeq(strings.Trim(verify.TrimOWS(value), `"`), " ") {
			if strings.EqualFold(one, rel) {
				return true
			}
		}
		return false
	}
	return false
}
