package explain

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/nearest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// headers are the state with one change of the fields or the method.
func headers(st state) []state {
	return slices.Concat(st.renamed(), st.repeats(), st.values(), st.methods())
}

// rename returns the name that a field had before a proxy or gateway renamed it, or "".
type rename struct {
	detail string
	before func(name string) string
}

var renames = []rename{
	{"underscores in place of hyphens", func(n string) string { return hyphens(n) }},
	{"HTTP_ before its name", func(n string) string { return cut(hyphens(n), "Http-") }},
	{"X-Original- before its name", func(n string) string { return cut(n, "X-Original-") }},
	{"X-Forwarded- before its name", func(n string) string { return cut(n, "X-Forwarded-") }},
	{"X-Amzn-Remapped- before its name", func(n string) string { return cut(n, "X-Amzn-Remapped-") }},
	{"X- before its name", func(n string) string { return cut(n, "X-") }},
	{"without X- before its name", func(n string) string {
		if strings.HasPrefix(n, "X-") {
			return ""
		}
		return "X-" + n
	}},
}

func hyphens(name string) string {
	if !strings.Contains(name, "_") {
		return ""
	}
	return strings.ReplaceAll(name, "_", "-")
}

func cut(name, prefix string) string {
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return ""
	}
	return name[len(prefix):]
}

// renamed undoes a rename of all fields.
func (st state) renamed() (all []state) {
	for _, rule := range renames {
		header, changed := st.request.Header.Clone(), false
		for name, lines := range st.request.Header {
			before := textproto.CanonicalMIMEHeaderKey(rule.before(name))
			if before != "" && st.request.Header[before] == nil {
				header[before], changed = lines, true
			}
		}
		if changed {
			all = append(all, st.having(header, change{cause: headerRenamed, detail: rule.detail}))
		}
	}
	return all
}

// near undoes misspelt names of the wanted fields that the request lacks.
func (st state) near(wanted []string) []state {
	header, details := st.request.Header.Clone(), []string(nil)
	for _, name := range wanted {
		if came := nearField(st.request.Header, name); came != "" {
			header[name] = st.request.Header[came]
			details = append(details, fmt.Sprintf("%q in place of %q", came, name))
		}
	}
	if details == nil {
		return nil
	}
	return []state{st.having(header, change{cause: headerRenamed, detail: strings.Join(details, ", ")})}
}

// wantedFields are the fields that a scheme reads, as far as they are known, and the one it missed.
func wantedFields(p *producer.Producer, missed string) []string {
	names := slices.Clone(signatureFields(p))
	switch scheme := p.Scheme.(type) {
	case *verify.HMAC:
		names = slices.Concat(names, scheme.TimestampHeaders, scheme.IDHeaders)
	case *verify.RFC9421:
		names = append(names, "Signature", "Content-Digest", "Idempotency-Key")
	}
	if strings.Contains(missed, "-") {
		names = append(names, missed)
	}
	for i, name := range names {
		names[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nearField returns the field whose name differs from that of a missing one in hyphens and one
// letter at most, or "".
func nearField(h http.Header, name string) string {
	if len(h[name]) > 0 {
		return ""
	}
	letters := strings.NewReplacer("-", "", "_", "")
	wanted := letters.Replace(name)
	for _, came := range slices.Sorted(maps.Keys(h)) {
		if len(came) > 2*len(name) {
			continue
		}
		bare := letters.Replace(came)
		if more := len(bare) - len(wanted); -1 <= more && more <= 1 && nearest.Distance(bare, wanted) <= 1 {
			return came
		}
	}
	return ""
}

// having returns the state with one more change, and with another header.
func (st state) having(h http.Header, c change) state {
	st = st.with(c)
	r := *st.request
	st.request, r.Header = &r, h
	return st
}

// repeats keep one line of a field that is there more than once.
func (st state) repeats() (all []state) {
	for name, lines := range st.request.Header {
		if len(lines) < 2 {
			continue
		}
		for i, which := range []string{"the first line", "the last line"} {
			header := st.request.Header.Clone()
			header[name] = []string{lines[i*(len(lines)-1)]}
			c := change{cause: headerRepeated, detail: quoted(name) + ", " + which + " is signed"}
			all = append(all, st.having(header, c))
		}
	}
	return all
}

// values undo changes of values that proxies and libraries make.
func (st state) values() (all []state) {
	set := func(name string, values ...string) {
		came := st.request.Header.Get(name)
		for i, v := range values {
			if v == came || slices.Contains(values[:i], v) || v == "" && came == "" {
				continue
			}
			header := st.request.Header.Clone()
			header.Set(name, v)
			cause := headerChanged
			if came == "" {
				cause = headerRemoved
			}
			all = append(all, st.having(header, change{cause: cause, detail: name, signed: v, came: came}))
		}
	}
	media := st.request.Header.Get("Content-Type")
	bare, _, _ := strings.Cut(media, ";")
	bare = strings.TrimRight(bare, " ")
	set("Content-Type", bare, strings.ToLower(bare), bare+"; charset=utf-8", bare+"; charset=UTF-8",
		bare+";charset=utf-8", bare+";charset=UTF-8", "application/json", "application/json; charset=utf-8",
		"text/plain")
	if key := st.request.Header.Get("Idempotency-Key"); key != "" {
		set("Idempotency-Key", strings.Trim(key, `"`), `"`+strings.Trim(key, `"`)+`"`)
	}
	if coding := st.request.Header.Get("Content-Encoding"); coding != "" {
		set("Content-Encoding", "identity", strings.ToLower(coding))
	}
	return all
}

// methods are those that redirects and gateways change.
func (st state) methods() (all []state) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet} {
		if method != st.request.Method {
			next := st.having(st.request.Header, change{cause: methodChanged, signed: method, came: st.request.Method})
			next.request.Method = method
			all = append(all, next)
		}
	}
	return all
}

// renamedField returns a field that a rename of one of the wanted fields made, or one whose name is
// almost the wanted one, or "".
func renamedField(r *http.Request, wanted []string) string {
	for _, name := range wanted {
		if came := nearField(r.Header, textproto.CanonicalMIMEHeaderKey(name)); came != "" {
			return came
		}
	}
	for name := range r.Header {
		for _, rule := range renames {
			before := rule.before(name)
			same := func(w string) bool { return strings.EqualFold(w, before) }
			if before != "" && slices.ContainsFunc(wanted, same) && !same(name) {
				return name
			}
		}
	}
	return ""
}

// signsURL reports whether the scheme signs any part of the URL.
func signsURL(scheme verify.Scheme) bool {
	one, ok := scheme.(interface{ SignsURL() bool })
	if ok && one.SignsURL() {
		return true
	}
	binder, ok := scheme.(verify.Binder)
	return ok && slices.ContainsFunc(binder.Binds().Covered, func(name string) bool {
		return name == "@path" || name == "@query" || name == "@target-uri"
	})
}

// withURL returns the request with another URL, whose target is that of the URL.
func withURL(r *http.Request, u *url.URL) *http.Request {
	changed := r.WithContext(r.Context()) // a shallow copy
	changed.URL, changed.RequestURI = u, u.RequestURI()
	return changed
}
