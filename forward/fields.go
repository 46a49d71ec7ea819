package forward

import (
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

// Key returns the value of Idempotency-Key for an event: the field as the producer sent it, octet for octet
// (section 9.7 of the draft), else the identifier as a structured-field string (RFC 9651 section 3.3.3), else,
// for what no such string can hold, its digest.
func Key(field, id string) string {
	if field != "" {
		return field
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		sum := sha256.Sum256([]byte(id))
		return `"sha-256:` + hex.EncodeToString(sum[:]) + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(id) + `"`
}

// Fields of a delivery go on by name. Targets trust us, and many of them take orders from header fields (X-Original-URL,
// X-HTTP-Method-Override, X-Auth-Request-User, ...), which any client can add to a delivery that it captured. What goes on is
// what describes the content, the attributes of a CloudEvent, what the producer signed ([Event.Signed]), and what the
// configuration names ([Config.Fields]); never what is in neverSent.

// contentFields describe the content (RFC 9110 section 8). Content-Digest goes on where it is true of what is sent.
var contentFields = []string{"Content-Type", "Content-Encoding", "Content-Language", "Content-Digest"}

// attributePrefix begins the fields of a CloudEvent in binary mode (HTTP protocol binding section 3.1.3).
const attributePrefix = "Ce-"

// neverSent are fields that are not sent on whoever signed them: those of one connection (RFC 9110 section 7.6.1), those that
// our own request sets, credentials, those that proxies use for facts about the client, which a target believes of us (all
// that begin with [proxyPrefix] are among them), signatures, which [Target.carry] judges, and digests of something else
// than the content.
var neverSent = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Http2-Settings", "Host", "Content-Length", "Accept-Encoding", "Expect", "Early-Data",
	"Authorization", "Cookie", "Via", "Forwarded", "X-Real-Ip", "Signature", "Signature-Input", "Repr-Digest", "Digest",
	"Content-Md5", "Idempotency-Key",
}

const proxyPrefix = "X-Forwarded-"

// isNeverSent judges a name in canonical spelling.
func isNeverSent(name string) bool {
	return slices.Contains(neverSent, name) || strings.HasPrefix(name, proxyPrefix)
}

// fieldPattern is a field name, or the beginning of one, in canonical spelling.
type fieldPattern struct {
	name   string
	prefix bool
}

func (p fieldPattern) matches(name string) bool {
	return name == p.name || p.prefix && strings.HasPrefix(name, p.name)
}

// CheckFields returns every mistake in a list that is meant for [Config.Fields].
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
		p := fieldPattern{canonical(name), prefix}
		switch {
		case !verify.IsToken(name):
			errs = append(errs, fmt.Errorf("%q is no field name, and no beginning of one with a * behind it", written))
		case prefix && (p.name == "X-" || !strings.HasSuffix(name, "-")):
			errs = append(errs, fmt.Errorf("%q is too wide: write the beginning that the fields of one sender share, as in X-Shop-*", written))
		case !prefix && isNeverSent(p.name), prefix && strings.HasPrefix(p.name, proxyPrefix):
			errs = append(errs, fmt.Errorf("the field %s is never sent on", written))
		}
		all = append(all, p)
	}
	return all, errors.Join(errs...)
}

// canonical is the spelling of http.Header, also for the beginning of a name that ends with a hyphen.
func canonical(name string) string { return http.CanonicalHeaderKey(name) }

// goesOn reports whether a field, in canonical spelling, goes on.
func (t *Target) goesOn(name string, signed []string) bool {
	return !isNeverSent(name) && (slices.Contains(contentFields, name) || strings.HasPrefix(name, attributePrefix) ||
		slices.ContainsFunc(signed, func(s string) bool { return canonical(s) == name }) ||
		slices.ContainsFunc(t.fields, func(p fieldPattern) bool { return p.matches(name) }))
}

// header returns the fields of the request to a URL. ours is the label of the signature that is added afterwards.
func (t *Target) header(ev Event, to *url.URL, ours string) http.Header {
	h := http.Header{}
	for name, lines := range ev.Header {
		if name = canonical(name); t.goesOn(name, ev.Signed) {
			h[name] = append(h[name], lines...)
		}
	}
	for _, line := range ev.Header.Values("Connection") { // it names more fields of one connection
		for name := range strings.SplitSeq(line, ",") {
			h.Del(verify.TrimOWS(name))
		}
	}
	if verify.CheckContentDigest(h.Values("Content-Digest"), ev.Body) != nil {
		h.Del("Content-Digest") // the body may be one item of what came
	}
	h["Idempotency-Key"] = []string{ev.Key}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "eyelet")
	}
	h.Set("Via", t.via(ev.Header.Values("Via")))
	t.carry(ev, h, to, ours)
	return h
}

// maxVia bounds what is sent on of the way that a delivery took here, in bytes.
const maxVia = 2 << 10

// via appends this hop to the way that the delivery took, as every gateway must (RFC 9110 section 7.6.3). What is not a field
// value or is too long is left out. The received protocol is taken to be HTTP/1.1: it is not kept with an event.
func (t *Target) via(lines []string) string {
	way, own := strings.Join(lines, ", "), "1.1 "+t.cfg.Via
	if way == "" || len(way) > maxVia || strings.ContainsFunc(way, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
		return own
	}
	return way + ", " + own
}
