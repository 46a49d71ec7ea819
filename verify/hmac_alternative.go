package verify

import (
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
	return func(yield func(Alternative) bool) {
		if h.Check() != nil {
			return
		}
		for _, some := range []func(*http.Request, []Offer, func(Alternative) bool) bool{
			h.signatureForms, h.olderField, h.otherSecrets, h.otherHashes, h.otherContents, h.rareSecrets,
			h.withoutKey, h.rareContents,
		} {
			if !some(r, offered, yield) {
				return
			}
		}
	}
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

// alter returns a changed copy, or nil if it is not valid.
func (h *HMAC) alter(change func(*HMAC)) *HMAC {
	c := &HMAC{
		Headers: h.Headers, Separator: h.Separator, Entries: h.Entries, Hash: h.Hash, Hashes: h.Hashes,
		Encoding: h.Encoding, Secrets: h.Secrets, Keys: h.Keys, SecretEncoding: h.SecretEncoding,
		PublicKeys: h.PublicKeys, ECDSAKeys: h.ECDSAKeys, TimestampHeaders: h.TimestampHeaders,
		TimestampUnit: h.TimestampUnit, TimestampRFC3339: h.TimestampRFC3339, IDHeaders: h.IDHeaders,
		Content: h.Content, Malleable: h.Malleable, URL: h.URL, OtherURL: h.OtherURL, Config: h.Config,
		Contents: h.Contents, Covers: h.Covers, mac: h.mac,
	}
	change(c)
	if c.Check() != nil {
		return nil
	}
	return c
}

func (h *HMAC) offer(m Mistake, detail string, yield func(Alternative) bool, change func(*HMAC)) bool {
	return h.yield(Alternative{Mistake: m, Detail: detail}, yield, change)
}

// yield completes the alternative with a changed copy.
func (h *HMAC) yield(alt Alternative, yield func(Alternative) bool, change func(*HMAC)) bool {
	c := h.alter(change)
	alt.Scheme = c
	return c == nil || yield(alt)
}

// otherSecrets tries each candidate under every key id that is configured or named.
func (h *HMAC) otherSecrets(r *http.Request, offered []Offer, yield func(Alternative) bool) bool {
	as := cmp.Or(h.SecretEncoding, Raw)
	if named := h.namedKey(r); len(h.Keys) > 0 {
		for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
			raw, err := h.Keys[id].Decode(as)
			alt := Alternative{Mistake: OtherKey, Detail: fmt.Sprintf("key %q, under the id %q", id, truncate(named))}
			if h.Keys[named] == "" {
				alt.Mistake = KeyIDDiffers
			}
			if err == nil && id != named && !h.withSecret(r, alt, raw, yield) {
				return false
			}
		}
	}
	return h.candidates(r, offered, false, yield)
}

func (h *HMAC) rareSecrets(r *http.Request, offered []Offer, yield func(Alternative) bool) bool {
	return h.candidates(r, offered, true, yield)
}

func (h *HMAC) candidates(r *http.Request, offered []Offer, rare bool, yield func(Alternative) bool) bool {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return true
	}
	for alt, raw := range AlternativeSecrets(h.secretOffers(), offered, cmp.Or(h.SecretEncoding, Raw)) {
		if alt.Rare && !rare {
			break // the others are rare, too
		}
		if alt.Rare == rare && !h.withSecret(r, alt, raw, yield) {
			return false
		}
	}
	return true
}

// withSecret tries one secret.
func (h *HMAC) withSecret(r *http.Request, alt Alternative, raw []byte, yield func(Alternative) bool) bool {
	secret := Secret(hex.EncodeToString(raw))
	return h.yield(alt, yield, func(c *HMAC) {
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
		if !h.offer(OverHash, d.name, yield, func(c *HMAC) { h.overDigest(c, head, d.of) }) {
			return false
		}
	}
	values := h.values(r, head)
	forms := contentForms
	if own := h.Content; own != "" { // with another separator
		forms = append(slices.Clone(forms), strings.ReplaceAll(own, ":", "."), strings.ReplaceAll(own, ".", ":"))
	}
	for _, form := range forms {
		if !h.withContent(Alternative{Detail: fmt.Sprintf("%q", form)}, form, values, yield) {
			return false
		}
	}
	return true
}

// overDigest makes the copy sign a digest in place of the body.
func (h *HMAC) overDigest(c *HMAC, head signatureHead, of func(body []byte) []byte) {
	c.Content, c.Covers = "", []string{"@body"}
	c.Contents = func(r *http.Request, body []byte) ([][][]byte, error) {
		return h.plan.contents(r, of(body), head)
	}
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
func (h *HMAC) rareContents(r *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	head, _, err := h.plan.read(r, nil)
	if err != nil {
		return true
	}
	for _, d := range rareDigests {
		alt := Alternative{Mistake: OverHash, Detail: d.name, Rare: true}
		if !h.yield(alt, yield, func(c *HMAC) { h.overDigest(c, head, d.of) }) {
			return false
		}
	}
	for _, form := range slices.Concat(rareForms, h.ownForms()) {
		alt := Alternative{Detail: fmt.Sprintf("%q", form), Rare: true}
		if !h.withContent(alt, form, h.values(r, head), yield) {
			return false
		}
	}
	if head.timestamp != "" {
		return true
	}
	for _, name := range timeFields(r) {
		values := map[string]string{"timestamp": r.Header.Get(name), "id": head.id}
		for _, form := range contentForms {
			alt := Alternative{Detail: fmt.Sprintf("%q with the time of %q", form, truncate(name)), Rare: true}
			if strings.Contains(form, "{timestamp}") && !h.withContent(alt, form, values, yield) {
				return false
			}
		}
	}
	return true
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
func (h *HMAC) withContent(alt Alternative, form string, values map[string]string,
	yield func(Alternative) bool) bool {
	own := cmp.Or(h.Content, "{body}")
	if form == own && h.Contents == nil {
		return true
	}
	parts, err := parseTemplate(form)
	if err != nil || slices.ContainsFunc(parts, func(p part) bool {
		return (p.kind == partTimestamp || p.kind == partID) && values[string(p.kind)] == ""
	}) {
		return true
	}
	alt.Mistake = ContentDiffers
	if h.Contents == nil {
		alt.Detail += fmt.Sprintf(", and %q is configured", own)
	}
	covers := []string{"@body"}
	if strings.Contains(form, "{url}") || strings.Contains(form, "{path}") {
		covers = append(covers, "@target-uri")
	}
	return h.yield(alt, yield, func(c *HMAC) {
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
func (h *HMAC) signatureForms(r *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	s, value, err := h.plan.find(r)
	if err != nil || len(value) > maxSignatureField {
		return true
	}
	name, seen := h.plan.headers[s.header], map[string]bool{value: true}
	edit := func(detail, text string) bool {
		if seen[text] {
			return true
		}
		seen[text] = true
		return yield(Alternative{Mistake: SignatureWrapped, Detail: detail, Scheme: h,
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
		both := func(detail, text string) bool { return edit(e.detail+" and "+detail, text) }
		if e.text != value && !h.otherPrefixes(e.text, both) {
			return false
		}
	}
	return h.otherPrefixes(value, edit) && h.renamedEntries(value, edit)
}

// renamedEntries gives an entry of a list, which has a name that is not configured, the name of a
// signature.
func (h *HMAC) renamedEntries(value string, edit func(detail, text string) bool) bool {
	if h.plan.separator == "" {
		return true
	}
	entries := strings.Split(value, h.plan.separator)
	for i, came := range entries[:min(len(entries), maxNames)] {
		name := entryName(TrimOWS(came))
		if _, known := h.plan.parse(TrimOWS(came)); known || name == "" {
			continue
		}
		for _, e := range h.plan.entries {
			wanted := entryName(e[0].literal)
			if wanted == "" {
				continue
			}
			all := slices.Clone(entries)
			all[i] = e[0].literal + TrimOWS(came)[len(name)+1:]
			as := TrimOWS(came)[:len(name)+1]
			if !edit(fmt.Sprintf("named %s in place of %s", as, e[0].literal), strings.Join(all, h.plan.separator)) {
				return false
			}
		}
	}
	return true
}

// olderField tries the field of SHA-1 beside that of SHA-256, such as X-Hub-Signature beside
// X-Hub-Signature-256.
func (h *HMAC) olderField(r *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	if _, _, err := h.plan.find(r); CodeOf(err) != SignatureMissing {
		return true
	}
	for _, name := range h.plan.headers {
		older, ok := strings.CutSuffix(name, "-256")
		if !ok || r.Header.Get(older) == "" {
			continue
		}
		detail := fmt.Sprintf("HMAC-SHA1 in %q, and %q is not there", older, name)
		if !h.offer(HashDiffers, detail, yield, func(c *HMAC) {
			c.Headers, c.Hash, c.Hashes, c.Entries = []string{older}, SHA1, nil, nil
			for _, e := range h.Entries {
				c.Entries = append(c.Entries, strings.ReplaceAll(e, "sha256", "sha1"))
			}
		}) {
			return false
		}
	}
	return true
}

// withoutKey tries a hash in place of the HMAC.
func (h *HMAC) withoutKey(_ *http.Request, _ []Offer, yield func(Alternative) bool) bool {
	if len(h.Secrets)+len(h.Keys) == 0 {
		return true
	}
	for _, form := range []struct {
		of            string
		before, after bool
	}{
		{of: "the content"}, {of: "a secret and the content", before: true},
		{of: "the content and a secret", after: true},
	} {
		detail := fmt.Sprintf("%s of %s, which is not an HMAC", strings.ToUpper(string(h.plan.hash)), form.of)
		if !h.yield(Alternative{Mistake: HashDiffers, Detail: detail, Rare: true}, yield, func(c *HMAC) {
			c.mac = func(of func() hash.Hash, secret []byte) hash.Hash {
				u := &unkeyed{Hash: of()}
				if form.before {
					u.before = secret
				}
				if form.after {
					u.after = secret
				}
				return u
			}
		}) {
			return false
		}
	}
	return true
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
func (h *HMAC) otherPrefixes(value string, edit func(detail, text string) bool) bool {
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
	for _, prefix := range append(slices.Clone(foreignPrefixes), entryPrefix(value)) {
		bare, ok := strings.CutPrefix(value, prefix)
		if !ok || prefix == "" {
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
