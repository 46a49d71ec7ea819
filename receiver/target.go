package receiver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// target is a request target as received, octet for octet, without the authority of an absolute
// one.
type target struct {
	path  string // begins with "/"
	query string // with its "?", or empty
}

const maxShownPrefix = 64 // bytes of a path prefix in a problem

// requestTarget returns the request target as received. Requests that were made in process have
// none.
func requestTarget(r *http.Request) string {
	if r.RequestURI != "" {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// parseTarget splits a request target. Only the path and query of an absolute target count (RFC
// 9112 section 3.2.2): clients control the rest. It returns false for targets without a path,
// such as "*".
func parseTarget(raw string) (target, bool) {
	if !strings.HasPrefix(raw, "/") {
		scheme, rest, ok := strings.Cut(raw, "://")
		if !ok || !isScheme(scheme) {
			return target{}, false
		}
		at := strings.IndexAny(rest, "/?")
		if at < 0 {
			return target{path: "/"}, true
		}
		raw = rest[at:]
		if raw[0] == '?' {
			raw = "/" + raw
		}
	}
	if at := strings.IndexByte(raw, '?'); at >= 0 {
		return target{path: raw[:at], query: raw[at:]}, true
	}
	return target{path: raw}, true
}

func isScheme(s string) bool { return strings.EqualFold(s, "http") || strings.EqualFold(s, "https") }

// shown returns the path for the log. One without a path is shown as received, without what may be
// a credential: a query, or a user.
func (t target) shown(r *http.Request) string {
	path := t.path
	if path == "" {
		path, _, _ = strings.Cut(requestTarget(r), "?")
		path = path[strings.LastIndexByte(path, '@')+1:]
	}
	return path[:min(len(path), maxLoggedPath)]
}

// withBase returns the URL that a producer called, given the public base ("https://hooks.example").
func (t target) withBase(base string) (url.URL, error) {
	// ParseRequestURI knows no fragments: "#" in a request target is an octet like any other.
	u, err := url.ParseRequestURI(base + t.path + t.query)
	if err != nil {
		return url.URL{}, err
	}
	return *u, nil
}

// isPlain reports whether a text holds only letters, digits and the other characters, so that no
// parser of URLs changes it.
func isPlain(text, others string) bool {
	for _, c := range []byte(text) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != ""
}

// isPlainHost reports whether a host is a plain name or address, with or without a port.
func isPlainHost(host string) bool {
	name, port, _ := strings.Cut(host, ":")
	return isPlain(name, "-.") && strings.Trim(port, "0123456789") == ""
}

// without returns the query without the named parameters. The others keep their order and
// syntax. A name that does not decode is compared as it is.
func (t target) without(names []string) string {
	if t.query == "" {
		return ""
	}
	drop := func(pair string) bool { return pair == "" || namedBy(pair, names) }
	return strings.Join(slices.DeleteFunc(strings.Split(t.query[1:], "&"), drop), "&")
}

// below returns the end of the path that a router left in the URL when it removed a prefix
// (http.StripPrefix), or "". The URL decides only how much of the path counts: both have the same
// octets.
func (t target) below(u *url.URL) string {
	if rest := u.EscapedPath(); strings.HasSuffix(t.path, rest) {
		return rest
	}
	return ""
}

// prefixOf returns what precedes one of our paths in the path, or "" if it does not end in it.
func (t target) prefixOf(own string) string {
	prefix, ok := strings.CutSuffix(t.path, own)
	if !ok || len(prefix) > maxShownPrefix || !isPlain(prefix, "-._/") {
		return ""
	}
	return prefix
}

// redacted returns the target with the values of these parameters replaced.
func (t target) redacted(names []string) string {
	if t.query == "" || len(names) == 0 {
		return t.path + t.query
	}
	pairs := strings.Split(t.query[1:], "&")
	for i, pair := range pairs {
		if namedBy(pair, names) {
			name, _, _ := strings.Cut(pair, "=")
			pairs[i] = name + "=REDACTED"
		}
	}
	return t.path + "?" + strings.Join(pairs, "&")
}

func namedBy(pair string, names []string) bool {
	name, _, _ := strings.Cut(pair, "=")
	if decoded, err := url.QueryUnescape(name); err == nil {
		name = decoded
	}
	return slices.Contains(names, name)
}
