package explain

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// urls tries the state with one change of the URL: as a proxy reports it, or as senders and proxies
// often differ.
func urls(st state, to *tries) {
	seen := map[string]bool{st.request.URL.String(): true}
	for _, c := range urlChanges(st.request) {
		for _, f := range c.edits(st.request) {
			u := *st.request.URL
			f(&u)
			text := u.String()
			if seen[text] || len(text) > maxURL {
				continue
			}
			seen[text] = true
			next := st.with(change{cause: c.cause, detail: c.detail})
			next.request = withURL(st.request, &u)
			to.add(next)
		}
	}
}

const maxURL = 16 << 10 // bytes of a URL that is tried

type edit = func(*url.URL)

type urlChange struct {
	cause  Cause
	detail string
	edits  func(*http.Request) []edit
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

func one(f edit) func(*http.Request) []edit { return func(*http.Request) []edit { return []edit{f} } }

// urlChanges lists what may have been signed, the likely ones first.
func urlChanges(r *http.Request) []urlChange {
	out := []urlChange{
		{urlScheme, "", one(flipScheme)},
		{urlSlash, "", one(flipSlash)},
		{urlPort, "", one(flipPort)},
	}
	for _, h := range proxyHosts(r) {
		set := func(u *url.URL) { u.Host = h.host }
		cause, flipped := urlHost, func(u *url.URL) { set(u); flipScheme(u) }
		if (&url.URL{Host: h.host}).Hostname() == r.URL.Hostname() {
			cause = urlPort
		}
		out = append(out, urlChange{cause, "that of " + h.from, one(set)},
			urlChange{cause, "that of " + h.from + ", with the other scheme", one(flipped)})
	}
	for _, p := range proxyPaths(r) {
		out = append(out, urlChange{urlPath, p.detail, one(p.edit)})
	}
	return append(out,
		urlChange{urlOrder, "sorted", one(func(u *url.URL) { u.RawQuery = sortedQuery(u.RawQuery) })},
		urlChange{urlOrder, "", queryOrders},
		urlChange{urlQuery, "without a query", one(func(u *url.URL) { u.RawQuery, u.ForceQuery = "", false })},
		urlChange{urlQuery, "decoded and encoded again", one(func(u *url.URL) { u.RawQuery = recoded(u.RawQuery) })},
		urlChange{urlQuery, "decoded, sorted and encoded", one(func(u *url.URL) { u.RawQuery = u.Query().Encode() })},
		urlChange{urlQuery, "with %20 in place of +", one(func(u *url.URL) { u.RawQuery = spaced(u.RawQuery) })},
		urlChange{urlQuery, "decoded and encoded again, with %20 in place of +",
			one(func(u *url.URL) { u.RawQuery = spaced(recoded(u.RawQuery)) })},
		urlChange{urlQuery, "without a parameter", queryWithout},
		urlChange{urlCase, "", one(func(u *url.URL) {
			u.Host, u.Path, u.RawPath = strings.ToLower(u.Host), strings.ToLower(u.Path), strings.ToLower(u.RawPath)
		})},
		urlChange{urlScheme, "and another port", one(func(u *url.URL) { flipScheme(u); flipPort(u) })},
		urlChange{urlScheme, "and a slash at the end", one(func(u *url.URL) { flipScheme(u); flipSlash(u) })},
	)
}

type proxyHost struct{ host, from string }

// proxyHosts are the hosts that the request names, where they differ from that of the URL.
func proxyHosts(r *http.Request) (all []proxyHost) {
	add := func(host, from string) {
		host, _, _ = strings.Cut(host, ",")
		host = strings.TrimSpace(host)
		known := slices.ContainsFunc(all, func(h proxyHost) bool { return h.host == host })
		if host != "" && !known && len(host) <= 255 && !strings.ContainsAny(host, "/?#@ ") && host != r.URL.Host {
			all = append(all, proxyHost{host, from})
		}
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

type proxyPath struct {
	detail string
	edit   edit
}

// proxyPaths are the paths that the request names, and those that a proxy may have cut or added to.
func proxyPaths(r *http.Request) (all []proxyPath) {
	if prefix := r.Header.Get("X-Forwarded-Prefix"); strings.HasPrefix(prefix, "/") && len(prefix) <= 256 {
		all = append(all, proxyPath{"with X-Forwarded-Prefix before it", func(u *url.URL) {
			u.Path, u.RawPath = strings.TrimSuffix(prefix, "/")+u.Path, ""
		}})
	}
	for _, name := range []string{"X-Original-Uri", "X-Original-Url", "X-Rewrite-Url", "X-Envoy-Original-Path",
		"X-Forwarded-Uri"} {
		if w, err := url.Parse(r.Header.Get(name)); err == nil && w.Path != "" {
			all = append(all, proxyPath{"that of the field " + name, func(u *url.URL) {
				u.Path, u.RawPath, u.RawQuery = w.Path, w.RawPath, w.RawQuery
			}})
		}
	}
	if own, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(own, "/") && own != r.URL.EscapedPath() {
		if w, err := url.Parse(own); err == nil {
			moved := func(u *url.URL) { u.Path, u.RawPath = w.Path, w.RawPath }
			all = append(all, proxyPath{"that of the request", moved})
		}
	}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i := 1; i < min(len(segments), 6); i++ {
		rest := "/" + strings.Join(segments[i:], "/")
		all = append(all, proxyPath{"without /" + strings.Join(segments[:i], "/"), func(u *url.URL) {
			u.Path, u.RawPath = rest, ""
		}})
	}
	for _, prefix := range []string{"/api", "/v1", "/hooks", "/api/v1", "/prod", "/eyelet"} {
		all = append(all, proxyPath{"with " + prefix + " before it", func(u *url.URL) {
			u.Path, u.RawPath = prefix+u.Path, ""
		}})
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

// queryOrders tries every order of few parameters.
func queryOrders(r *http.Request) (edits []edit) {
	parts := strings.Split(r.URL.RawQuery, "&")
	if len(parts) < 2 || len(parts) > maxOrdered {
		return nil
	}
	var order func(query string, rest []string)
	order = func(query string, rest []string) {
		for i, part := range rest {
			order(query+"&"+part, slices.Delete(slices.Clone(rest), i, i+1))
		}
		if len(rest) == 0 {
			edits = append(edits, func(u *url.URL) { u.RawQuery = query[1:] })
		}
	}
	order("", parts)
	return edits
}

// queryWithout leaves out one of a few parameters, which a proxy or the sender added.
func queryWithout(r *http.Request) (edits []edit) {
	parts := strings.Split(r.URL.RawQuery, "&")
	if len(parts) < 2 || len(parts) > 2*maxOrdered {
		return nil
	}
	for i := range parts {
		rest := slices.Delete(slices.Clone(parts), i, i+1)
		edits = append(edits, func(u *url.URL) { u.RawQuery = strings.Join(rest, "&") })
	}
	return edits
}
