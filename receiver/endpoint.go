package receiver

import (
	"cmp"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/receiver/internal/tenants"
	"github.com/eyelet-dev/eyelet/verify"
)

// endpoint receives the deliveries of one producer.
type endpoint struct {
	rx    *Receiver
	p     producer.Producer // with its defaults
	allow string            // the Allow field
	quota *admission.Quota  // nil for none
	// nonces are the quotas of nonces, by the key that signed them.
	nonces *admission.Quotas
	// base is the public scheme and authority, and the path prefix that a proxy removes; empty
	// if not configured.
	base   string
	origin url.URL // base, parsed
	// url is the public URL of a producer that has its own. Only the query is then taken from
	// requests.
	url *url.URL
	// accepted is the response that is stored with events for On handlers. Its header must not
	// be changed.
	accepted      dedup.Response
	secretHeaders []string // the fields that are never stored
	pinned        verify.Pinned
	keyParts      []string // the parts of a request that the identifier is read from
	former        former
	monitor       *monitor        // nil unless unverified deliveries are accepted
	enforced      *endpoint       // of the endpoint of unverified deliveries; nil for any other
	tenants       *tenants.Cache  // nil without tenants
	tenant        *tenants.Tenant // that of the delivery
}

func newEndpoint(rx *Receiver, p producer.Producer) *endpoint {
	ep := &endpoint{rx: rx, p: p, base: rx.cfg.URL, pinned: p.Pinned()}
	ep.quota = admission.NewQuota(admission.Rate(p.Rate), p.Concurrency)
	ep.nonces = admission.NewQuotas(admission.Rate(p.NonceRate))
	methods := slices.Clone(p.Methods)
	if p.Challenge != nil {
		methods = append(methods, p.ChallengeMethods...)
	}
	slices.Sort(methods)
	ep.allow = strings.Join(slices.Compact(methods), ", ")
	if u, err := url.Parse(p.URL); err == nil && p.URL != "" {
		ep.url = u
	}
	if origin, err := url.Parse(ep.base); err == nil {
		ep.origin = *origin
	}
	ep.secretHeaders = append([]string{"Authorization", "Proxy-Authorization", "Cookie"}, p.SecretHeaders...)
	ep.accepted = acceptance(&p, "")
	if p.Key != nil {
		ep.keyParts = p.Key.Consumes()
	}
	ep.former = newFormer(&p, former{})
	ep.tenants = newTenants(rx, &p)
	return ep
}

// scopeOf returns the endpoint with the parts of a target that a signature covers.
func (ep *endpoint) scopeOf(at target, path, query bool) string {
	scope := ep.p.Name
	if place := ep.place(at); path && ep.url == nil && place != webhooksPath+ep.p.Name {
		scope += place
	}
	if query {
		query := at.without(ep.p.ScopeIgnores)
		if ep.p.ScopeQuery != nil {
			query = ep.p.ScopeQuery(query)
		}
		if query != "" {
			scope += "?" + query
		}
	}
	return scope
}

// maxFormer bounds the principals, and the forms of content, of other configurations of a producer.
const maxFormer = 8

// former is what names the events of a producer under other configurations: those that its
// scheme shows, and those from before reloads.
type former struct {
	proves     []string              // by this configuration; "" is the producer itself
	principals []string              // that it does not prove
	forms      []func([]byte) []byte // of bodies with the same content
	timeField  string
	byBody     bool // a digest of the body is the identifier
}

// newFormer returns the former of a producer that was configured otherwise before.
func newFormer(p *producer.Producer, before former) former {
	var b verify.Binding
	if scheme, ok := p.Scheme.(verify.Binder); ok {
		b = scheme.Binds()
	}
	f := former{proves: []string{""}, forms: before.forms, timeField: b.TimeField}
	f.byBody = p.Key != nil && p.Key.String() == producer.BodyDigest().String()
	if b.Principals != nil {
		f.proves = b.Principals
	}
	for _, name := range slices.Concat([]string{""}, b.Unused, before.proves, before.principals) {
		if !slices.Contains(f.proves, name) && !slices.Contains(f.principals, name) {
			f.principals = append(f.principals, name)
		}
	}
	f.principals = f.principals[:min(len(f.principals), maxFormer)]
	if b.Form != nil {
		f.forms = append([]func([]byte) []byte{b.Form}, before.forms[:min(len(before.forms), maxFormer-1)]...)
	}
	return f
}

// acceptance is the response that is stored with an event of a type.
func (ep *endpoint) acceptance(kind string) dedup.Response {
	if _, own := ep.p.AcceptedTypes[kind]; own {
		return acceptance(&ep.p, kind)
	}
	return ep.accepted
}

// publicURL is the URL as the producer called it: the public base and the request target as
// received. Connection and headers count only where no base is configured; schemes that sign the
// URL require one.
func (ep *endpoint) publicURL(r *http.Request, at target) (url.URL, error) {
	if ep.url != nil {
		u := *ep.url
		u.RawQuery = strings.TrimPrefix(at.query, "?")
		u.ForceQuery = at.query == "?"
		return u, nil
	}
	origin := ep.origin
	if ep.base == "" {
		origin.Scheme, origin.Host = clientScheme(r, ep.rx.cfg.TrustedProxies), r.Host
	}
	if isPlainHost(origin.Host) && isPlain(at.path, "-._/") && at.query == "" &&
		origin == (url.URL{Scheme: origin.Scheme, Host: origin.Host}) {
		origin.Path = at.path
		return origin, nil
	}
	return at.withBase(cmp.Or(ep.base, origin.Scheme+"://"+origin.Host))
}

// host is the Host of requests to the endpoint as configured, or "".
func (ep *endpoint) host() string {
	if ep.url != nil {
		return ep.url.Host
	}
	return ep.origin.Host
}

// hostKnown reports whether a receiver serves the Host of a request. A host without a port
// matches every port.
func hostKnown(hosts []string, host string) bool {
	if len(hosts) == 0 {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return slices.ContainsFunc(hosts, func(known string) bool {
		return strings.EqualFold(known, host) || strings.EqualFold(strings.Trim(known, "[]"), name)
	})
}

// takes reports whether the endpoint accepts the media type.
func (ep *endpoint) takes(contentType string) bool {
	if len(ep.p.MediaTypes) == 0 {
		return true
	}
	if slices.ContainsFunc(ep.p.MediaTypes, func(want string) bool { return strings.EqualFold(want, contentType) }) {
		return true
	}
	got, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	return slices.ContainsFunc(ep.p.MediaTypes, func(want string) bool {
		group, all := strings.CutSuffix(strings.ToLower(want), "/*")
		return strings.EqualFold(want, got) || all && (group == "*" || strings.HasPrefix(got, group+"/"))
	})
}

func (ep *endpoint) retired() bool {
	return !ep.p.Retire.IsZero() && !ep.rx.cfg.Clock().Before(ep.p.Retire)
}

// announceSunset adds when the endpoint ends (Sunset, RFC 8594 section 3) and since when it is
// deprecated (Deprecation, a structured-field Date, RFC 9745 section 2). Both are about the
// endpoint and are not stored with the response. They end with the endpoint.
func (ep *endpoint) announceSunset(resp *reply) {
	if ep.p.Deprecated.IsZero() || ep.retired() {
		return
	}
	resp.Header = cloneHeader(resp.Header) // shared with the store and other deliveries
	resp.Header.Set("Deprecation", "@"+strconv.FormatInt(ep.p.Deprecated.Unix(), 10))
	if !ep.p.Retire.IsZero() {
		resp.Header.Set("Sunset", ep.p.Retire.UTC().Format(http.TimeFormat))
	}
}
