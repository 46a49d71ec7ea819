package forward

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Key returns the value of Idempotency-Key for an event: the field as the producer sent it, octet
// for octet (section 9.7 of the draft); else the identifier as a structured-field string (RFC 9651
// section 3.3.3); else, if no such string can hold it, its digest.
func Key(field, id string) string {
	if field != "" {
		return field
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(id))
		return `"sha-256:` + hex.EncodeToString(sum[:]) + `"`
	}
	return `"` + escapes.Replace(id) + `"`
}

// escapes are those of a structured-field string.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Fields are forwarded by name. Targets trust this receiver, and many take orders from header
// fields (X-Original-URL, X-HTTP-Method-Override, X-Auth-Request-User, ...) that any client can
// add to a captured delivery. [Event.Header] lists the fields that are forwarded.

// contentFields describe the content (RFC 9110 section 8). A wrong Content-Digest is dropped.
var contentFields = []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Digest"}

const proxyPrefix = "X-Forwarded-" // what proxies report about the client

// neverSent are fields that are never forwarded, even if they were signed: those of one connection
// (RFC 9110 section 7.6.1), those that the request itself sets, credentials, facts about the
// client from proxies (all fields with [proxyPrefix] too), signatures, which
// [Target.addProducerSignature] handles, and digests of other content.
var neverSent = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Http2-Settings", "Host", "Content-Length", "Accept-Encoding", "Expect",
	"Early-Data", "Authorization", "Cookie", "Via", "Forwarded", "X-Real-Ip", "Signature", "Signature-Input",
	"Repr-Digest", "Digest", "Content-Md5", "Idempotency-Key", "Eyelet-Verified",
}

// isNeverSent takes a canonical name.
func isNeverSent(name string) bool {
	return slices.Contains(neverSent, name) || strings.HasPrefix(name, proxyPrefix)
}

// fieldPattern is a canonical field name, or the prefix of one.
type fieldPattern struct {
	name   string
	prefix bool
}

func (p fieldPattern) matches(name string) bool {
	return name == p.name || p.prefix && strings.HasPrefix(name, p.name)
}

// CheckFields returns all errors in a list for [Config.Fields].
func CheckFields(fields []string) error {
	_, err := parseFields(fields)
	return err
}

// parseFields reads [Config.Fields].
func parseFields(fields []string) ([]fieldPattern, error) {
	var all []fieldPattern
	var errs []error
	for _, written := range fields {
		name, prefix := strings.CutSuffix(written, "*")
		p := fieldPattern{http.CanonicalHeaderKey(name), prefix}
		switch {
		case !verify.IsToken(name):
			errs = append(errs, fmt.Errorf("%q is neither a field name nor a prefix of one followed by *", written))
		case prefix && (p.name == "X-" || !strings.HasSuffix(name, "-")):
			const hint = "write the prefix that the fields of one sender share, as in X-Shop-*"
			errs = append(errs, fmt.Errorf("%q is too wide: %s", written, hint))
		case !prefix && isNeverSent(p.name), prefix && strings.HasPrefix(p.name, proxyPrefix):
			errs = append(errs, fmt.Errorf("the field %s is never forwarded", written))
		case verify.OverridesMethod(name):
			errs = append(errs, fmt.Errorf("the field %s is forwarded only where it is signed", written))
		}
		all = append(all, p)
	}
	return all, errors.Join(errs...)
}

// isForwarded takes a canonical name.
func (t *Target) isForwarded(name string, signed []string) bool {
	named := func(p fieldPattern) bool { return p.matches(name) && !verify.OverridesMethod(name) }
	return !isNeverSent(name) && (slices.Contains(contentFields, name) ||
		slices.ContainsFunc(signed, func(s string) bool { return http.CanonicalHeaderKey(s) == name }) ||
		slices.ContainsFunc(t.fields, named))
}

// header returns the fields of the request. ours is the label of the signature that is added later.
func (t *Target) header(ev Event, to *url.URL, ours string) http.Header {
	h := http.Header{}
	for name, lines := range ev.Header {
		if name = http.CanonicalHeaderKey(name); t.isForwarded(name, ev.Signed) {
			h[name] = append(h[name], lines...)
		}
	}
	for _, line := range ev.Header.Values("Connection") { // which lists further fields of one connection
		for name := range strings.SplitSeq(line, ",") {
			h.Del(verify.TrimOWS(name))
		}
	}
	if verify.CheckContentDigest(h.Values("Content-Digest"), ev.Body) != nil {
		h.Del("Content-Digest") // a mismatch is expected where the body is one item of a batch
	}
	h["Idempotency-Key"] = []string{ev.Key}
	if h.Del("Eyelet-Tenant"); ev.Tenant != "" {
		h["Eyelet-Tenant"] = []string{ev.Tenant}
	}
	if ev.Fetched {
		h["Eyelet-Fetched"] = []string{"true"}
	}
	if ev.Unverified {
		h["Eyelet-Verified"] = []string{"no"}
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "eyelet")
	}
	if h.Get("Traceparent") == "" && ev.Traceparent != "" {
		h.Set("Traceparent", ev.Traceparent)
	}
	h.Set("Via", t.via(ev.Header.Values("Via")))
	t.addProducerSignature(ev, h, to, ours)
	return h
}

// maxVia bounds the forwarded value of Via, in bytes.
const maxVia = 2 << 10

// via appends this hop, as every gateway must (RFC 9110 section 7.6.3). A value that is too long or
// malformed is dropped. The received protocol is given as HTTP/1.1, because events do not keep it.
func (t *Target) via(lines []string) string {
	way, own := strings.Join(lines, ", "), "1.1 "+t.cfg.Via
	malformed := func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }
	if way == "" || len(way) > maxVia || strings.ContainsFunc(way, malformed) {
		return own
	}
	return way + ", " + own
}

const (
	defaultLabel = "sig1"   // of our own signature
	originLabel  = "origin" // of a forwarded signature whose label is ours
)

// labelOf is the label of the signature that is added to the request; "" without a signer.
func labelOf(c Credentials) string {
	if c.Signer == nil {
		return ""
	}
	return cmp.Or(c.Signer.Label, defaultLabel)
}

// addProducerSignature forwards a signature of the producer's that is still valid for the request.
// A target that knows the producer's key can then check who made the event (section 9.7). It
// prefers the verified signature, else takes another by the same key: the verified one usually
// covers our URL, and a producer can add one for the target that does not (RFC 9421 section 4.3).
// It forwards at most one, because targets try few signatures, and our own signature keeps its
// label.
func (t *Target) addProducerSignature(ev Event, h http.Header, to *url.URL, ours string) {
	s := validSignature(ev, h, to)
	if s == nil {
		return
	}
	label := s.Label()
	if label == ours {
		label = originLabel
	}
	if label == ours {
		label += "-1"
	}
	s.AddTo(h, label)
}

// validSignature returns the delivery's signature that is valid for the request; nil without one.
func validSignature(ev Event, h http.Header, to *url.URL) *verify.SentSignature {
	if ev.Label == "" {
		return nil
	}
	all := verify.SentSignatures(ev.Header)
	verified := slices.IndexFunc(all, func(s verify.SentSignature) bool { return s.Label() == ev.Label })
	if verified < 0 {
		return nil
	}
	all[0], all[verified] = all[verified], all[0]
	for i := range all {
		changed := func(name string) bool { return !unchanged(name, ev, h, to) }
		if all[i].KeyID() == all[0].KeyID() && !slices.ContainsFunc(all[i].Covers(), changed) {
			return &all[i]
		}
	}
	return nil
}

// unchanged reports whether a covered component of the delivery has the same value in the request.
// Components with the authority always change.
func unchanged(name string, ev Event, h http.Header, to *url.URL) bool {
	switch name {
	case "@method":
		return ev.Method == http.MethodPost
	case "@path", "@query", "@query-param":
		from, err := url.ParseRequestURI(ev.Target)
		if err != nil {
			return false
		}
		if name == "@path" {
			return cmp.Or(from.EscapedPath(), "/") == cmp.Or(to.EscapedPath(), "/")
		}
		return from.RawQuery == to.RawQuery && from.ForceQuery == to.ForceQuery
	}
	sent := h.Values(name)
	return len(sent) > 0 && slices.Equal(sent, ev.Header.Values(name))
}
