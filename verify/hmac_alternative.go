package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator].
func (h *HMAC) Alternatives(r *http.Request, offered []Offer) iter.Seq[Alternative] {
	return func(yield func(Alternative) bool) {
		if h.Check() != nil {
			return
		}
		for _, some := range []func(*http.Request, []Offer, func(Alternative) bool) bool{
			h.signatureForms, h.otherSecrets, h.otherHashes, h.otherContents,
		} {
			if !some(r, offered, yield) {
				return
			}
		}
	}
}

// Offers implements [Alternator].
func (h *HMAC) Offers(context.Context) []Offer {
	offers := SecretOffers(h.Secrets)
	for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
		offers = append(offers, Offer{Name: fmt.Sprintf("the secret of key %q", id), Secret: h.Keys[id]})
	}
	return offers
}

// alter returns a changed copy, or nil if it is not valid.
func (h *HMAC) alter(change func(*HMAC)) *HMAC {
	c := &HMAC{
		Headers: h.Headers, Separator: h.Separator, Entries: h.Entries, Hash: h.Hash, Hashes: h.Hashes,
		Encoding: h.Encoding, Secrets: h.Secrets, Keys: h.Keys, SecretEncoding: h.SecretEncoding,
		PublicKeys: h.PublicKeys, ECDSAKeys: h.ECDSAKeys, TimestampHeaders: h.TimestampHeaders,
		TimestampUnit: h.TimestampUnit, TimestampRFC3339: h.TimestampRFC3339, IDHeaders: h.IDHeaders,
		Content: h.Content, Malleable: h.Malleable, URL: h.URL, Config: h.Config, Contents: h.Contents,
		Covers: h.Covers,
	}
	change(c)
	if c.Check() != nil {
		return nil
	}
	return c
}

func (h *HMAC) offer(m Mistake, detail string, yield func(Alternative) bool, change func(*HMAC)) bool {
	c := h.alter(change)
	return c == nil || yield(Alternative{Mistake: m, Detail: detail, Scheme: c})
}

// otherSecrets tries each candidate under every key id that is configured or named.
func (h *HMAC) otherSecrets(r *http.Request, offered []Offer, yield func(Alternative) bool) bool {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return true
	}
	use := func(m Mistake, detail string, raw []byte) bool {
		secret := Secret(hex.EncodeToString(raw))
		return h.offer(m, detail, yield, func(c *HMAC) {
			c.SecretEncoding, c.Secrets = Hex, []Secret{secret}
			if len(h.Keys) > 0 {
				c.Secrets, c.Keys = nil, map[string]Secret{h.namedKey(r): secret}
			}
		})
	}
	as := cmp.Or(h.SecretEncoding, Raw)
	if named := h.namedKey(r); len(h.Keys) > 0 {
		for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
			raw, err := h.Keys[id].Decode(as)
			m := OtherKey
			if h.Keys[named] == "" {
				m = KeyIDDiffers
			}
			if err == nil && id != named && !use(m, fmt.Sprintf("key %q, under the id %q", id, truncate(named)), raw) {
				return false
			}
		}
	}
	for alt, raw := range AlternativeSecrets(h.Offers(r.Context()), offered, as) {
		if !use(alt.Mistake, alt.Detail, raw) {
			return false
		}
	}
	return true
}

// namedKey returns the key id in the request, or any id.
func (h *HMAC) namedKey(r *http.Request) string {
	if _, sigs, err := h.plan.read(r, nil); err == nil && sigs[0].kid != "" {
		return sigs[0].kid
	}
	return "any"
}

// otherHashes tries other hash functions and encodings, and both.
func (h *HMAC) otherHashes(_ *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return true
	}
	own := cmp.Or(h.Hash, orDefault(h.Hashes, SHA256)[0])
	for _, enc := range []Encoding{Hex, Base64} {
		detail := fmt.Sprintf("%s, and %s is configured", enc, h.Encoding)
		if enc != h.Encoding && !h.offer(EncodingDiffers, detail, yield, func(c *HMAC) { c.Encoding = enc }) {
			return false
		}
	}
	for _, x := range []Hash{SHA1, SHA512, SHA384, SHA256} {
		if slices.Contains(h.plan.tried, x) {
			continue
		}
		name := "HMAC-" + strings.ToUpper(string(x))
		if !h.offer(HashDiffers, fmt.Sprintf("%s, and %s is configured", name, own), yield, func(c *HMAC) {
			c.Hash = x
			if len(h.Hashes) > 0 {
				c.Hash, c.Hashes = "", []Hash{x}
			}
		}) {
			return false
		}
		// The field names a hash that it does not have.
		if h.plan.entriesHold(partAlg) &&
			!h.offer(HashDiffers, fmt.Sprintf("%s, and the field names %s", name, own), yield, func(c *HMAC) {
				c.Hash, c.Hashes, c.Entries = x, nil, nil
				for _, e := range h.Entries {
					c.Entries = append(c.Entries, strings.ReplaceAll(e, "{alg}", string(own)))
				}
			}) {
			return false
		}
	}
	return true
}

// otherContents tries templates that other senders use, and digests of the body in place of it.
func (h *HMAC) otherContents(r *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	head, _, err := h.plan.read(r, nil)
	if err != nil {
		return true
	}
	for _, d := range bodyDigests {
		if !h.offer(OverHash, d.name, yield, func(c *HMAC) {
			c.Content, c.Covers = "", []string{"@body"}
			c.Contents = func(r *http.Request, body []byte) ([][][]byte, error) {
				return h.plan.contents(r, d.of(body), head)
			}
		}) {
			return false
		}
	}
	values := map[string]string{"timestamp": head.timestamp, "id": head.id, "url": r.URL.String()}
	for _, form := range contentForms {
		if form == cmp.Or(h.Content, "{body}") && h.Contents == nil {
			continue
		}
		parts, err := parseTemplate(form)
		if err != nil || slices.ContainsFunc(parts, func(p part) bool {
			return p.kind != partText && p.kind != partBody && values[string(p.kind)] == ""
		}) {
			continue // the request has no such part
		}
		detail := fmt.Sprintf("%q, and %q is configured", form, cmp.Or(h.Content, "{body}"))
		if h.Contents != nil {
			detail = fmt.Sprintf("%q", form)
		}
		if !h.offer(ContentDiffers, detail, yield, func(c *HMAC) {
			c.Content, c.Covers = "", []string{"@body"}
			c.Contents = func(r *http.Request, body []byte) ([][][]byte, error) {
				return [][][]byte{fillForm(parts, r, body, values)}, nil
			}
		}) {
			return false
		}
	}
	return true
}

// contentForms are templates that senders use.
var contentForms = []string{
	"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{id}.{timestamp}.{body}", "v0:{timestamp}:{body}",
	"{timestamp}:{body}", "{body}{timestamp}", "{body}.{timestamp}", "{timestamp}\n{body}", "{id}.{body}",
	"{url}{body}",
	"{url}.{body}", "{body}{url}", "{timestamp}.{url}.{body}", "POST{url}{body}{timestamp}",
}

func fillForm(parts []part, r *http.Request, body []byte, values map[string]string) segments {
	var out segments
	for _, p := range parts {
		switch p.kind {
		case partText:
			out = append(out, []byte(p.literal))
		case partBody:
			out = append(out, body)
		case partURL:
			out = append(out, []byte(r.URL.String()))
		default:
			out = append(out, []byte(values[string(p.kind)]))
		}
	}
	return out
}

// bodyDigests are forms of a digest that senders sign in place of the body.
var bodyDigests = []struct {
	name string
	of   func([]byte) []byte
}{
	{"the SHA-256 of the body in hex", func(b []byte) []byte {
		s := sha256.Sum256(b)
		return hex.AppendEncode(nil,
			s[:])
	}},
	{"the SHA-256 of the body", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }},
	{"the SHA-256 of the body in base64", func(b []byte) []byte {
		s := sha256.Sum256(b)
		return base64.StdEncoding.AppendEncode(nil, s[:])
	}},
	{"the SHA-512 of the body in hex", func(b []byte) []byte {
		s := sha512.Sum512(b)
		return hex.AppendEncode(nil,
			s[:])
	}},
}

// signatureForms tries other forms of the signature field: without or with a prefix, in quotes, in
// base64url, without padding.
func (h *HMAC) signatureForms(r *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	s, value, err := h.plan.find(r)
	if err != nil || len(value) > maxSignatureField {
		return true
	}
	name := h.plan.headers[s.header]
	edit := func(detail, text string) bool {
		return text == value || yield(Alternative{Mistake: SignatureWrapped, Detail: detail, Scheme: h,
			Request: withField(r, name, text)})
	}
	for _, quote := range []string{`"`, "'"} {
		if !edit("in quotes", strings.ReplaceAll(value, quote, "")) {
			return false
		}
	}
	for _, e := range []struct{ detail, text string }{
		{"in base64url", strings.NewReplacer("-", "+", "_", "/").Replace(value)},
		{"in base64url without padding", padded(strings.NewReplacer("-", "+", "_", "/").Replace(value))},
		{"without padding", padded(value)},
		{"with white space in it", strings.Join(strings.Fields(value), "")},
		{"percent-encoded", strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(value)},
	} {
		if !edit(e.detail, e.text) {
			return false
		}
	}
	return h.otherPrefixes(name, value, edit)
}

// padded completes the padding of base64 at the end of a value.
func padded(value string) string {
	start := strings.LastIndexAny(strings.TrimRight(value, "="), "=,: ") + 1
	body := strings.TrimRight(value[start:], "=")
	return value[:start] + body + strings.Repeat("=", (4-len(body)%4)%4)
}

// otherPrefixes adds the literal text of an entry that holds only a signature, and removes a prefix
// that no entry has.
func (h *HMAC) otherPrefixes(_, value string, edit func(detail, text string) bool) bool {
	for _, e := range h.plan.entries {
		if e.holds(partTimestamp) || e.holds(partKID) {
			continue
		}
		alg := string(h.plan.hash)
		if whole := e.format(entry{sig: value, ed25519: value, ecdsa: value, alg: alg}); !strings.HasPrefix(value,
			e[0].literal) ||
			e.holds(partAlg) {
			if !edit("without its prefix", whole) {
				return false
			}
		}
	}
	for _, prefix := range foreignPrefixes {
		bare, ok := strings.CutPrefix(value, prefix)
		if !ok {
			continue
		}
		if !edit("with the prefix "+prefix, bare) {
			return false
		}
		for _, e := range h.plan.entries {
			whole := e.format(entry{sig: bare, ed25519: bare, ecdsa: bare, alg: string(h.plan.hash)})
			if !e.holds(partTimestamp) && !e.holds(partKID) && !edit("with the prefix "+prefix, whole) {
				return false
			}
		}
	}
	return true
}

// foreignPrefixes precede signatures of other senders.
var foreignPrefixes = []string{
	"sha256=", "sha1=", "sha512=", "v1=", "v0=", "v1,", "Bearer ", "HMAC ", "hmac ", "sha256:", "hmac-sha256=",
	"HMAC-SHA256 ",
}
