package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/md5"  //nolint:gosec // senders sign it, which a finding says
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Alternatives implements [Alternator].
func (h *HMAC) Alternatives(r *http.Request, offered []Offer) iter.Seq[Alternative] {
	return listed(func(to *alternatives) {
		if h.Check() != nil {
			return
		}
		h.signatureForms(r, to)
		h.olderField(r, to)
		h.otherKeys(r, to)
		h.otherSecrets(r, offered, false, to)
		h.otherHashes(to)
		h.otherContents(r, to)
		if to.ended {
			return
		}
		h.otherSecrets(r, offered, true, to)
		h.withoutKey(to)
		h.rareContents(r, to)
	})
}

// Offers implements [Alternator].
func (h *HMAC) Offers(context.Context) []Offer {
	offers := h.secretOffers()
	var public []crypto.PublicKey
	for _, k := range h.PublicKeys {
		public = append(public, k)
	}
	for _, k := range h.ECDSAKeys {
		public = append(public, k)
	}
	for i, k := range public {
		name := fmt.Sprintf("public key %d of %d", i+1, len(public))
		if key, err := NewPublicKey(name, "", k); err == nil {
			offers = append(offers, Offer{Name: name, Key: &key})
		}
	}
	return offers
}

func (h *HMAC) secretOffers() []Offer {
	as := cmp.Or(h.SecretEncoding, Raw)
	offers := SecretOffers(h.Secrets, as)
	for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
		offers = append(offers, Offer{Name: fmt.Sprintf("the secret of key %q", id), Secret: h.Keys[id], As: as})
	}
	return offers
}

// WithSecrets returns a copy of the description, which may be in use, with other secrets.
func (h *HMAC) WithSecrets(secrets []Secret) *HMAC {
	c := settings(h)
	c.Secrets = secrets
	return c
}

// alter returns a changed copy, or nil if it is not valid.
func (h *HMAC) alter(change func(*HMAC)) *HMAC {
	c := settings(h)
	change(c)
	if c.Check() != nil {
		return nil
	}
	return c
}

// offer adds an alternative with a changed copy, unless that is not valid.
func (h *HMAC) offer(to *alternatives, alt Alternative, change func(*HMAC)) {
	if to.ended {
		return
	}
	if c := h.alter(change); c != nil {
		alt.Scheme = c
		to.add(alt)
	}
}

// otherKeys tries each secret under the key id that the request names.
func (h *HMAC) otherKeys(r *http.Request, to *alternatives) {
	named := h.namedKey(r)
	for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
		raw, err := h.Keys[id].Decode(cmp.Or(h.SecretEncoding, Raw))
		alt := Alternative{Mistake: OtherKey, Detail: fmt.Sprintf("key %q, under the id %q", id, truncate(named))}
		if h.Keys[named] == "" {
			alt.Mistake = KeyIDDiffers
		}
		if err == nil && id != named {
			h.withSecret(r, alt, raw, to)
		}
	}
}

// otherSecrets tries the candidates that are rare, or the others.
func (h *HMAC) otherSecrets(r *http.Request, offered []Offer, rare bool, to *alternatives) {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return
	}
	for alt, raw := range AlternativeSecrets(h.secretOffers(), offered, cmp.Or(h.SecretEncoding, Raw)) {
		if to.ended || alt.Rare && !rare { // after it the others are rare, too
			return
		}
		if alt.Rare == rare {
			h.withSecret(r, alt, raw, to)
		}
	}
}

// withSecret tries one secret.
func (h *HMAC) withSecret(r *http.Request, alt Alternative, raw []byte, to *alternatives) {
	secret := Secret(hex.EncodeToString(raw))
	h.offer(to, alt, func(c *HMAC) {
		c.SecretEncoding, c.Secrets = Hex, []Secret{secret}
		if len(h.Keys) > 0 {
			c.Secrets, c.Keys = nil, map[string]Secret{h.namedKey(r): secret}
		}
	})
}

// namedKey returns the key id in the request, or any id.
func (h *HMAC) namedKey(r *http.Request) string {
	if _, sigs, err := h.plan.read(r, nil); err == nil && sigs[0].kid != "" {
		return sigs[0].kid
	}
	return "any"
}

// otherHashes tries other hash functions and encodings, and both.
func (h *HMAC) otherHashes(to *alternatives) {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return
	}
	own := cmp.Or(h.Hash, orDefault(h.Hashes, SHA256)[0])
	for _, enc := range []Encoding{Hex, Base64} {
		if enc != h.Encoding {
			detail := fmt.Sprintf("%s, and %s is configured", enc, h.Encoding)
			h.offer(to, Alternative{Mistake: EncodingDiffers, Detail: detail}, func(c *HMAC) { c.Encoding = enc })
		}
	}
	for _, x := range []Hash{SHA1, SHA512, SHA384, SHA256} {
		if slices.Contains(h.plan.tried, x) {
			continue
		}
		name := "HMAC-" + strings.ToUpper(string(x))
		detail := fmt.Sprintf("%s, and %s is configured", name, own)
		h.offer(to, Alternative{Mistake: HashDiffers, Detail: detail}, func(c *HMAC) {
			c.Hash = x
			if len(h.Hashes) > 0 {
				c.Hash, c.Hashes = "", []Hash{x}
			}
		})
		if !h.plan.entriesHold(partAlg) {
			continue
		}
		detail = fmt.Sprintf("%s, and the field names %s", name, own) // a hash that it does not have
		h.offer(to, Alternative{Mistake: HashDiffers, Detail: detail}, func(c *HMAC) {
			c.Hash, c.Hashes, c.Entries = x, nil, nil
			for _, e := range h.Entries {
				c.Entries = append(c.Entries, strings.ReplaceAll(e, "{alg}", string(own)))
			}
		})
	}
}

// otherContents tries templates that other senders use, and digests of the body in place of it.
func (h *HMAC) otherContents(r *http.Request, to *alternatives) {
	head, _, err := h.plan.read(r, nil)
	if err != nil {
		return
	}
	for _, d := range bodyDigests {
		h.overDigest(to, Alternative{Mistake: OverHash, Detail: d.name}, head, d.of)
	}
	values := h.values(r, head)
	forms := contentForms
	if own := h.Content; own != "" { // with another separator
		forms = append(slices.Clone(forms), strings.ReplaceAll(own, ":", "."), strings.ReplaceAll(own, ".", ":"))
	}
	for _, form := range forms {
		h.withContent(to, Alternative{Detail: fmt.Sprintf("%q", form)}, form, values)
	}
}

// overDigest tries a digest in place of the body.
func (h *HMAC) overDigest(to *alternatives, alt Alternative, head signatureHead, of func(body []byte) []byte) {
	h.offer(to, alt, func(c *HMAC) {
		c.Content, c.Covers = "", []string{"@body"}
		c.Contents = func(r *http.Request, body []byte) ([][][]byte, error) {
			return h.plan.contents(r, of(body), head)
		}
	})
}

// values are those of the parts of a template that the request and the configuration have.
func (h *HMAC) values(r *http.Request, head signatureHead) map[string]string {
	values := map[string]string{"timestamp": head.timestamp, "id": head.id}
	for _, p := range h.plan.template {
		switch p.kind {
		case partConfig:
			values[p.text()] = h.Config[p.arg]
		case partHeader:
			values[p.text()] = r.Header.Get(p.arg)
		}
	}
	return values
}

// ownForms are the configured template with its parts in another order, with other text between
// two of them, and the usual templates with the configured URL.
func (h *HMAC) ownForms() (forms []string) {
	var slots []int // places of placeholders
	parts := h.plan.template
	for i, p := range parts {
		if p.kind != partText {
			slots = append(slots, i)
		}
	}
	if len(slots) < 2 || len(slots) > maxReordered {
		return nil
	}
	write := func(order []int) {
		text, n := "", 0
		for _, p := range parts {
			if p.kind != partText {
				p, n = parts[order[n]], n+1
				text += "{" + p.text() + "}"
				continue
			}
			text += p.literal
		}
		forms = append(forms, text)
	}
	permute(slots, 0, write)
	if len(slots) == 2 {
		for _, form := range []string{"{a}{b}", "{a}.{b}", "{a}:{b}", "{a}\n{b}", "{a}|{b}"} {
			for i := range slots {
				a, b := parts[slots[i]].text(), parts[slots[1-i]].text()
				forms = append(forms, strings.NewReplacer("{a}", "{"+a+"}", "{b}", "{"+b+"}").Replace(form))
			}
		}
	}
	return slices.Compact(forms)
}

const maxReordered = 4 // parts of a template

func permute(list []int, from int, yield func([]int)) {
	if from == len(list) {
		yield(list)
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permute(list, from+1, yield)
		list[from], list[i] = list[i], list[from]
	}
}

// rareContents tries templates with the method and the path, and times of fields that are not
// configured.
func (h *HMAC) rareContents(r *http.Request, to *alternatives) {
	head, _, err := h.plan.read(r, nil)
	if err != nil {
		return
	}
	for _, d := range rareDigests {
		h.overDigest(to, Alternative{Mistake: OverHash, Detail: d.name, Rare: true}, head, d.of)
	}
	for _, form := range slices.Concat(rareForms, h.ownForms()) {
		h.withContent(to, Alternative{Detail: fmt.Sprintf("%q", form), Rare: true}, form, h.values(r, head))
	}
	if head.timestamp != "" {
		return
	}
	for _, name := range timeFields(r) {
		values := map[string]string{"timestamp": r.Header.Get(name), "id": head.id}
		for _, form := range contentForms {
			if strings.Contains(form, "{timestamp}") {
				detail := fmt.Sprintf("%q with the time of %q", form, truncate(name))
				h.withContent(to, Alternative{Detail: detail, Rare: true}, form, values)
			}
		}
	}
}

const maxTimeFields = 4

// timeFields returns the fields that may hold a time.
func timeFields(r *http.Request) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		value := r.Header.Get(name)
		_, number := parseTimestamp(value, time.Second)
		_, date := parseDateTime(value)
		if (number && len(value) >= 10 || date || name == "Date") && len(names) < maxTimeFields {
			names = append(names, name)
		}
	}
	return names
}

// withContent tries a template, unless it is the configured one or the request lacks a part of it.
func (h *HMAC) withContent(to *alternatives, alt Alternative, form string, values map[string]string) {
	own := cmp.Or(h.Content, "{body}")
	if to.ended || form == own && h.Contents == nil {
		return
	}
	parts, err := parseTemplate(form)
	if err != nil || slices.ContainsFunc(parts, func(p part) bool {
		return (p.kind == partTimestamp || p.kind == partID) && values[string(p.kind)] == ""
	}) {
		return
	}
	alt.Mistake = ContentDiffers
	if h.Contents == nil {
		alt.Detail += fmt.Sprintf(", and %q is configured", own)
	}
	covers := []string{"@body"}
	if strings.Contains(form, "{url}") || strings.Contains(form, "{path}") {
		covers = append(covers, "@target-uri")
	}
	h.offer(to, alt, func(c *HMAC) {
		c.Content, c.Covers = "", covers
		c.Contents = func(r *http.Request, body []byte) ([][][]byte, error) {
			return [][][]byte{fillForm(parts, r, body, values)}, nil
		}
	})
}

// contentForms are templates that senders use.
var contentForms = []string{
	"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{id}.{timestamp}.{body}", "v0:{timestamp}:{body}",
	"{timestamp}:{body}", "{body}{timestamp}", "{body}.{timestamp}", "{timestamp}\n{body}", "{id}.{body}",
	"{url}{body}", "{url}.{body}", "{body}{url}", "{timestamp}.{url}.{body}", "POST{url}{body}{timestamp}",
}

// rareForms are templates that fewer senders use.
var rareForms = []string{
	"{url}\n{body}", "{url}:{body}", "{url}|{body}", "{path}{body}", "{path}\n{body}", "{path}.{body}", "{body}{path}",
	"{method}{path}{body}", "{method}\n{path}\n{body}", "{method} {path}\n{body}", "{method}{url}{body}",
	"{method}\n{url}\n{body}",
}

func fillForm(parts []part, r *http.Request, body []byte, values map[string]string) segments {
	var out segments
	for _, p := range parts {
		switch p.kind {
		case partText:
			out = append(out, []byte(p.literal))
		case partBody:
			out = append(out, body)
		case partJCS:
			out = append(out, canonicalForm(body))
		case partURL:
			out = append(out, []byte(r.URL.String()))
		case "path":
			out = append(out, []byte(r.URL.RequestURI()))
		case "method":
			out = append(out, []byte(r.Method))
		default:
			out = append(out, []byte(values[p.text()]))
		}
	}
	return out
}

// bodyDigest is a form of a digest that senders sign in place of the body.
type bodyDigest struct {
	name string
	of   func([]byte) []byte
}

func digestForm(name string, of func() hash.Hash, write func(dst, sum []byte) []byte) bodyDigest {
	return bodyDigest{"the " + name + " of the body", func(body []byte) []byte {
		d := of()
		d.Write(body)
		return write(nil, d.Sum(nil))
	}}
}

func rawDigest(dst, sum []byte) []byte { return append(dst, sum...) }

func upperHex(dst, sum []byte) []byte { return fmt.Appendf(dst, "%X", sum) }

// The usual digests, and those that fewer senders sign.
var (
	bodyDigests = []bodyDigest{
		digestForm("SHA-256 in hex", sha256.New, hex.AppendEncode), digestForm("SHA-256", sha256.New, rawDigest),
		digestForm("SHA-256 in base64", sha256.New, base64.StdEncoding.AppendEncode),
		digestForm("SHA-512 in hex", sha512.New, hex.AppendEncode),
	}
	rareDigests = []bodyDigest{
		digestForm("SHA-256 in capital hex", sha256.New, upperHex), digestForm("SHA-512", sha512.New, rawDigest),
		digestForm("SHA-512 in base64", sha512.New, base64.StdEncoding.AppendEncode),
		digestForm("SHA-384 in hex", sha512.New384, hex.AppendEncode),
		digestForm("SHA-1 in hex", sha1.New, hex.AppendEncode), digestForm("SHA-1", sha1.New, rawDigest),
		digestForm("SHA-1 in base64", sha1.New, base64.StdEncoding.AppendEncode),
		digestForm("MD5 in hex", md5.New, hex.AppendEncode), digestForm("MD5", md5.New, rawDigest),
		digestForm("MD5 in base64", md5.New, base64.StdEncoding.AppendEncode),
		digestForm("SHA-256 with its name", sha256.New, func(dst, sum []byte) []byte {
			return fmt.Appendf(dst, "sha256=%x", sum)
		}),
		digestForm("SHA-256 as in Content-Digest", sha256.New, func(dst, sum []byte) []byte {
			return append(base64.StdEncoding.AppendEncode(append(dst, "sha-256=:"...), sum), ':')
		}),
	}
)

// signatureForms tries other forms of the signature field: without or with a prefix, in quotes, in
// base64url, without padding.
func (h *HMAC) signatureForms(r *http.Request, to *alternatives) {
	s, value, err := h.plan.find(r)
	if err != nil || len(value) > maxSignatureField {
		return
	}
	name, seen := h.plan.headers[s.header], map[string]bool{value: true}
	edit := func(detail, text string) {
		if !seen[text] {
			seen[text] = true
			to.add(Alternative{Mistake: SignatureWrapped, Detail: detail, Scheme: h, Request: withField(r, name, text)})
		}
	}
	for _, quote := range []string{`"`, "'"} {
		edit("in quotes", strings.ReplaceAll(value, quote, ""))
	}
	for _, e := range []struct{ detail, text string }{
		{"in base64url", strings.NewReplacer("-", "+", "_", "/").Replace(value)},
		{"in base64url without padding", padded(strings.NewReplacer("-", "+", "_", "/").Replace(value))},
		{"without padding", padded(value)},
		{"with white space in it", strings.Join(strings.Fields(value), "")},
		{"percent-encoded", strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(value)},
	} {
		edit(e.detail, e.text)
		if e.text != value {
			h.otherPrefixes(e.text, func(detail, text string) { edit(e.detail+" and "+detail, text) })
		}
	}
	h.otherPrefixes(value, edit)
	h.renamedEntries(value, edit)
}

// renamedEntries gives an entry of a list, which has a name that is not configured, the name of a
// signature.
func (h *HMAC) renamedEntries(value string, edit func(detail, text string)) {
	if h.plan.separator == "" {
		return
	}
	entries := strings.Split(value, h.plan.separator)
	for i, came := range entries[:min(len(entries), maxNames)] {
		came = TrimOWS(came)
		name := entryName(came)
		if _, known := h.plan.parse(came); known || name == "" {
			continue
		}
		for _, e := range h.plan.entries {
			if entryName(e[0].literal) == "" {
				continue
			}
			all := slices.Clone(entries)
			all[i] = e[0].literal + came[len(name)+1:]
			detail := fmt.Sprintf("named %s in place of %s", came[:len(name)+1], e[0].literal)
			edit(detail, strings.Join(all, h.plan.separator))
		}
	}
}

// olderField tries the field of SHA-1 beside that of SHA-256, such as X-Hub-Signature beside
// X-Hub-Signature-256.
func (h *HMAC) olderField(r *http.Request, to *alternatives) {
	if _, _, err := h.plan.find(r); CodeOf(err) != SignatureMissing {
		return
	}
	for _, name := range h.plan.headers {
		older, ok := strings.CutSuffix(name, "-256")
		if !ok || r.Header.Get(older) == "" {
			continue
		}
		detail := fmt.Sprintf("HMAC-SHA1 in %q, and %q is not there", older, name)
		h.offer(to, Alternative{Mistake: HashDiffers, Detail: detail}, func(c *HMAC) {
			c.Headers, c.Hash, c.Hashes, c.Entries = []string{older}, SHA1, nil, nil
			for _, e := range h.Entries {
				c.Entries = append(c.Entries, strings.ReplaceAll(e, "sha256", "sha1"))
			}
		})
	}
}

// withoutKey tries a hash in place of the HMAC.
func (h *HMAC) withoutKey(to *alternatives) {
	as := cmp.Or(h.SecretEncoding, Raw)
	for _, form := range []struct {
		of            string
		before, after int // how often the secret is there
	}{{of: "the content"}, {of: "a secret and the content", before: 1}, {of: "the content and a secret", after: 1}} {
		plan := *h.plan
		plan.keys = nil
		for i, o := range h.secretOffers() {
			secret, _ := o.Secret.Decode(as) // which was checked
			plan.keys = append(plan.keys, newMACKey(h.plan.keys[i].id, plan.tried, func(x Hash) hash.Hash {
				return &unkeyed{newHash[x](), bytes.Repeat(secret, form.before), bytes.Repeat(secret, form.after)}
			}))
		}
		if len(plan.keys) > 0 {
			detail := fmt.Sprintf("%s of %s, which is not an HMAC", strings.ToUpper(string(plan.hash)), form.of)
			to.add(Alternative{Mistake: HashDiffers, Detail: detail, Rare: true, Scheme: &unkeyedHMAC{h, &plan}})
		}
	}
}

// unkeyedHMAC verifies a hash in place of an HMAC. Only an [Alternative] does.
type unkeyedHMAC struct {
	*HMAC
	changed *hmacPlan
}

// Verify implements [Scheme].
func (u *unkeyedHMAC) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	return u.changed.verify(r, body)
}

// unkeyed is a hash with a text before or after the content. It is reset before and summed once.
type unkeyed struct {
	hash.Hash
	before, after []byte
}

// Reset implements [hash.Hash].
func (u *unkeyed) Reset() {
	u.Hash.Reset()
	u.Write(u.before)
}

// Sum implements [hash.Hash].
func (u *unkeyed) Sum(b []byte) []byte {
	u.Write(u.after)
	return u.Hash.Sum(b)
}

// padded completes the padding of base64 at the end of a value.
func padded(value string) string {
	start := strings.LastIndexAny(strings.TrimRight(value, "="), "=,: ") + 1
	body := strings.TrimRight(value[start:], "=")
	return value[:start] + body + strings.Repeat("=", (4-len(body)%4)%4)
}

// otherPrefixes adds the literal text of an entry that holds only a signature, and removes a prefix
// that no entry has.
func (h *HMAC) otherPrefixes(value string, edit func(detail, text string)) {
	whole := func(e entryPattern, sig string) string {
		return e.format(entry{sig: sig, ed25519: sig, ecdsa: sig, alg: string(h.plan.hash)})
	}
	alone := slices.DeleteFunc(slices.Clone(h.plan.entries), func(e entryPattern) bool {
		return e.holds(partTimestamp) || e.holds(partKID)
	})
	for _, e := range alone {
		if !strings.HasPrefix(value, e[0].literal) || e.holds(partAlg) {
			edit("without its prefix", whole(e, value))
		}
	}
	for _, prefix := range append(slices.Clone(foreignPrefixes), entryPrefix(value)) {
		bare, ok := strings.CutPrefix(value, prefix)
		if !ok || prefix == "" {
			continue
		}
		edit("with the prefix "+prefix, bare)
		for _, e := range alone {
			edit("with the prefix "+prefix, whole(e, bare))
		}
	}
}

// entryPrefix returns a short name before a signature, with the character after it, or "".
func entryPrefix(value string) string {
	const longest, least = 16, 16 // bytes of the name, and of what follows
	name := entryName(value)
	if name == "" || len(name) > longest || len(value)-len(name) < least {
		return ""
	}
	return value[:len(name)+1]
}

// foreignPrefixes precede signatures of other senders.
var foreignPrefixes = []string{
	"sha256=", "sha1=", "sha512=", "v1=", "v0=", "v1,", "Bearer ", "HMAC ", "hmac ", "sha256:", "hmac-sha256=",
	"HMAC-SHA256 ",
}
