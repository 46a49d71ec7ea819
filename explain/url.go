package explain

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// urls are the state with one change of the URL that the scheme signs: as a proxy reports it, or as
// senders and proxies often differ.
func urls(st state) (all []state) {
	if !signsURL(st.scheme) {
		return nil
	}
	seen := map[string]bool{st.request.URL.String(): true}
	for _, c := range urlChanges(st.request) {
		u := *st.request.URL
		c.edit(&u)
		if text := u.String(); !seen[text] && len(text) <= maxURL {
			seen[text] = true
			next := st.with(change{cause: c.cause, detail: c.detail})
			next.request = withURL(st.request, &u)
			all = append(all, next)
		}
	}
	return all
}

const maxURL = 16 << 10 // bytes of a URL that is tried

type urlChange struct {
	cause  Cause
	detail string
	edit   func(*url.URL)
}

func flipScheme(u *url.URL) {
	u.Scheme = map[string]string{"http": "https", "https": "http"}[u.Scheme]
}

// flipPort removes the port, or adds the default one.
func flipPort(u *url.URL) {
	switch {
	case u.Port() != "":
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	case u.Scheme == "http":
		u.Host += ":80"
	default:
		u.Host += ":443"
	}
}

func flipSlash(u *url.URL) {
	if p, ok := strings.CutSuffix(u.Path, "/"); ok {
		u.Path, u.RawPath = p, strings.TrimSuffix(u.RawPath, "/")
	} else {
		u.Path += "/"
		if u.RawPath != "" {
			u.RawPath += "/"
		}
	}
}

// urlChanges lists what may have been signed, the likely ones first.
func urlChanges(r *http.Request) []urlChange {
	query := func(cause Cause, detail string, f func(raw string) string) urlChange {
		return urlChange{cause, detail, func(u *url.URL) { u.RawQuery = f(u.RawQuery) }}
	}
	without := func(u *url.URL) { u.RawQuery, u.ForceQuery = "", false }
	lower := func(u *url.URL) {
		u.Host, u.Path, u.RawPath = strings.ToLower(u.Host), strings.ToLower(u.Path), strings.ToLower(u.RawPath)
	}
	return slices.Concat(
		[]urlChange{{urlScheme, "", flipScheme}, {urlSlash, "", flipSlash}, {urlPort, "", flipPort}},
		proxyHosts(r), proxyPaths(r),
		[]urlChange{query(urlOrder, "sorted", sortedQuery)}, queryOrders(r.URL.RawQuery),
		[]urlChange{
			{urlQuery, "without a query", without},
			query(urlQuery, "decoded and encoded again", recoded),
			{urlQuery, "decoded, sorted and encoded", func(u *url.URL) { u.RawQuery = u.Query().Encode() }},
			query(urlQuery, "with %20 in place of +", spaced),
			query(urlQuery, "decoded and encoded again, with %20 in place of +",
				func(raw string) string { return spaced(recoded(raw)) }),
		},
		queryWithout(r.URL.RawQuery),
		[]urlChange{
			{urlCase, "", lower},
			{urlScheme, "and another port", func(u *url.URL) { flipScheme(u); flipPort(u) }},
			{urlScheme, "and a slash at the end", func(u *url.URL) { flipScheme(u); flipSlash(u) }},
		},
	)
}

// proxyHosts are the hosts that the request names, where they differ from that of the URL.
func proxyHosts(r *http.Request) (all []urlChange) {
	known := map[string]bool{"": true, r.URL.Host: true}
	add := func(host, from string) {
		host, _, _ = strings.Cut(host, ",")
		host = strings.TrimSpace(host)
		if known[host] || len(host) > 255 || strings.ContainsAny(host, "/?#@ ") {
			return
		}
		known[host] = true
		cause := urlHost
		if (&url.URL{Host: host}).Hostname() == r.URL.Hostname() {
			cause = urlPort
		}
		set := func(u *url.URL) { u.Host = host }
		all = append(all, urlChange{cause, "that of " + from, set},
			urlChange{cause, "that of " + from + ", with the other scheme", func(u *url.URL) { set(u); flipScheme(u) }})
	}
	add(r.Host, "the field Host")
	for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "X-Host", "X-Forwarded-Server"} {
		add(r.Header.Get(name), "the field "+name)
	}
	split := func(c rune) bool { return c == ';' || c == ',' }
	for part := range strings.FieldsFuncSeq(r.Header.Get("Forwarded"), split) {
		if host := cut(strings.TrimSpace(part), "host="); host != "" {
			add(strings.Trim(host, `"`), "the field Forwarded")
		}
	}
	if port := r.Header.Get("X-Forwarded-Port"); port != "" && strings.Trim(port, "0123456789") == "" {
		add(r.URL.Hostname()+":"+port, "the field X-Forwarded-Port")
	}
	return all
}

// proxyPaths are the paths that the request names, and those that a proxy may have cut or added to.
func proxyPaths(r *http.Request) (all []urlChange) {
	add := func(detail string, edit func(*url.URL)) { all = append(all, urlChange{urlPath, detail, edit}) }
	before := func(prefix string) func(*url.URL) {
		return func(u *url.URL) { u.Path, u.RawPath = prefix+u.Path, "" }
	}
	if prefix := r.Header.Get("X-Forwarded-Prefix"); strings.HasPrefix(prefix, "/") && len(prefix) <= 256 {
		add("with X-Forwarded-Prefix before it", before(strings.TrimSuffix(prefix, "/")))
	}
	for _, name := range []string{"X-Original-Uri", "X-Original-Url", "X-Rewrite-Url", "X-Envoy-Original-Path",
		"X-Forwarded-Uri"} {
		if w, err := url.Parse(r.Header.Get(name)); err == nil && w.Path != "" {
			add("that of the field "+name, func(u *url.URL) {
				u.Path, u.RawPath, u.RawQuery = w.Path, w.RawPath, w.RawQuery
			})
		}
	}
	if own, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(own, "/") && own != r.URL.EscapedPath() {
		if w, err := url.Parse(own); err == nil {
			add("that of the request", func(u *url.URL) { u.Path, u.RawPath = w.Path, w.RawPath })
		}
	}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i := 1; i < min(len(segments), 6); i++ {
		rest := "/" + strings.Join(segments[i:], "/")
		add("without /"+strings.Join(segments[:i], "/"), func(u *url.URL) { u.Path, u.RawPath = rest, "" })
	}
	for _, prefix := range []string{"/api", "/v1", "/hooks", "/api/v1", "/prod", "/eyelet"} {
		add("with "+prefix+" before it", before(prefix))
	}
	return all
}

// maxOrdered bounds the parameters of which every order is tried.
const maxOrdered = 4

func sortedQuery(raw string) string {
	parts := strings.Split(raw, "&")
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

func spaced(raw string) string { return strings.ReplaceAll(raw, "+", "%20") }

// recoded decodes the names and values of a query and encodes them again.
func recoded(raw string) string {
	parts := strings.Split(raw, "&")
	for i, part := range parts {
		if one, err := url.ParseQuery(part); err == nil {
			parts[i] = one.Encode()
		}
	}
	return strings.Join(parts, "&")
}

// queryOrders are every order of few parameters.
func queryOrders(raw string) (all []urlChange) {
	parts := strings.Split(raw, "&")
	if len(parts) < 2 || len(parts) > maxOrdered {
		return nil
	}
	var order func(query string, rest []string)
	order = func(query string, rest []string) {
		for i, part := range rest {
			order(query+"&"+part, slices.Delete(slices.Clone(rest), i, i+1))
		}
		if len(rest) == 0 {
			all = append(all, urlChange{urlOrder, "", func(u *url.URL) { u.RawQuery = query[1:] }})
		}
	}
	order("", parts)
	return all
}

// queryWithout leaves out one of a few parameters, which a proxy or the sender added.
func queryWithout(raw string) (all []urlChange) {
	parts := strings.Split(raw, "&")
	if len(parts) < 2 || len(parts) > 2*maxOrdered {
		return nil
	}
	for i := range parts {
		rest := strings.Join(slices.Delete(slices.Clone(parts), i, i+1), "&")
		all = append(all, urlChange{urlQuery, "without a parameter", func(u *url.URL) { u.RawQuery = rest }})
	}
	return all
}
