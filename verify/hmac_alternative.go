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
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Alternatives implements [Alternator].
func (h *HMAC) Alternatives(r *http.Request, offered []Offer) []Alternative {
	if h.Check() != nil {
		return nil
	}
	all := slices.Concat(h.signatureForms(r), h.olderField(r))
	if len(h.plan.keys) > 0 {
		named := h.namedKey(r)
		secrets := append(h.otherKeys(named), h.otherSecrets(named, offered)...)
		all = slices.Concat(all, secrets, h.otherHashes(), rare(h.withoutKey()))
	}
	if head, _, err := h.plan.read(r, nil); err == nil {
		all = slices.Concat(all, h.otherContents(r, head), rare(h.rareContents(r, head)))
	}
	return all
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
func (h *HMAC) alter(change func(*HMAC)) Scheme {
	c := settings(h)
	if change(c); c.Check() != nil {
		return nil
	}
	return c
}

func (h *HMAC) altered(m Mistake, detail string, change func(*HMAC)) Alternative {
	return Alternative{Mistake: m, Detail: detail, Scheme: func() Scheme { return h.alter(change) }}
}

// namedKey returns the key id in the request, or any id.
func (h *HMAC) namedKey(r *http.Request) string {
	if _, sigs, err := h.plan.read(r, nil); err == nil && sigs[0].kid != "" {
		return sigs[0].kid
	}
	return "any"
}

// otherKeys tries each secret under the key id that the request names.
func (h *HMAC) otherKeys(named string) (all []Alternative) {
	mistake := OtherKey
	if h.Keys[named] == "" {
		mistake = KeyIDDiffers
	}
	for _, id := range slices.Sorted(maps.Keys(h.Keys)) {
		if id != named {
			detail := fmt.Sprintf("key %q, under the id %q", id, truncate(named))
			under := map[string]Secret{named: h.Keys[id]}
			all = append(all, h.altered(mistake, detail, func(c *HMAC) { c.Keys = under }))
		}
	}
	return all
}

func (h *HMAC) otherSecrets(named string, offered []Offer) []Alternative {
	as := cmp.Or(h.SecretEncoding, Raw)
	return SecretAlternatives(h.secretOffers(), offered, as, func(raw []byte) Scheme {
		return h.alter(func(c *HMAC) {
			secret := Secret(hex.EncodeToString(raw))
			if c.SecretEncoding = Hex; len(h.Keys) > 0 {
				c.Keys = map[string]Secret{named: secret}
			} else {
				c.Secrets = []Secret{secret}
			}
		})
	})
}

// otherHashes tries other hash functions and encodings.
func (h *HMAC) otherHashes() (all []Alternative) {
	own := cmp.Or(h.Hash, orDefault(h.Hashes, SHA256)[0])
	other := map[Encoding]Encoding{Hex: Base64, Base64: Hex}[h.Encoding]
	detail := fmt.Sprintf("%s, and %s is configured", other, h.Encoding)
	all = append(all, h.altered(EncodingDiffers, detail, func(c *HMAC) { c.Encoding = other }))
	for _, x := range []Hash{SHA1, SHA512, SHA384, SHA256} {
		if slices.Contains(h.plan.tried, x) {
			continue
		}
		name := "HMAC-" + strings.ToUpper(string(x))
		all = append(all, h.altered(HashDiffers, fmt.Sprintf("%s, and %s is configured", name, own), func(c *HMAC) {
			c.Hash = x
			if len(h.Hashes) > 0 {
				c.Hash, c.Hashes = "", []Hash{x}
			}
		}))
		if h.plan.entriesHold(partAlg) { // a hash that the field does not have
			detail := fmt.Sprintf("%s, and the field names %s", name, own)
			all = append(all, h.altered(HashDiffers, detail, func(c *HMAC) {
				c.Hash, c.Hashes, c.Entries = x, nil, replaced(h.Entries, "{alg}", string(own))
			}))
		}
	}
	return all
}

// replaced returns the texts with a part of each replaced.
func replaced(texts []string, old, by string) (all []string) {
	for _, text := range texts {
		all = append(all, strings.ReplaceAll(text, old, by))
	}
	return all
}

// otherContents tries templates that other senders use, and digests of the body in place of it.
func (h *HMAC) otherContents(r *http.Request, head signatureHead) []Alternative {
	forms := contentForms
	if own := h.Content; own != "" { // with another separator
		forms = append(slices.Clone(forms), strings.ReplaceAll(own, ":", "."), strings.ReplaceAll(own, ".", ":"))
	}
	return append(h.overDigests(bodyDigests, head), h.overForms(forms, "", h.values(r, head))...)
}

// overDigests tries digests in place of the body.
func (h *HMAC) overDigests(digests []bodyDigest, head signatureHead) (all []Alternative) {
	for _, d := range digests {
		all = append(all, h.signing(OverHash, d.name, "", func(r *http.Request, body []byte) ([]segments, error) {
			return h.plan.contents(r, d.of(body), head)
		}))
	}
	return all
}

// signing is an alternative with other signed content, which holds the placeholders of a template.
func (h *HMAC) signing(m Mistake, detail, form string, content func(*http.Request, []byte) ([]segments, error),
) Alternative {
	covers := []string{"@body"}
	if strings.Contains(form, "{url}") || strings.Contains(form, "{path}") {
		covers = append(covers, "@target-uri")
	}
	return h.altered(m, detail, func(c *HMAC) { c.Content, c.Covers, c.Contents = "", covers, content })
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
func (h *HMAC) rareContents(r *http.Request, head signatureHead) []Alternative {
	forms := slices.Concat(rareForms, h.ownForms())
	all := append(h.overDigests(rareDigests, head), h.overForms(forms, "", h.values(r, head))...)
	if head.timestamp != "" {
		return all
	}
	timed := slices.DeleteFunc(slices.Clone(contentForms), func(form string) bool {
		return !strings.Contains(form, "{timestamp}")
	})
	for _, name := range timeFields(r) {
		values := map[string]string{"timestamp": r.Header.Get(name), "id": head.id}
		all = append(all, h.overForms(timed, fmt.Sprintf(" with the time of %q", truncate(name)), values)...)
	}
	return all
}

const maxTimeFields = 4

// timeFields returns the fields that may hold a time.
func timeFields(r *http.Request) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		value := r.Header.Get(name)
		_, number := parseDigits(value)
		_, date := parseDateTime(value)
		if (number && len(value) >= 10 || date || name == "Date") && len(names) < maxTimeFields {
			names = append(names, name)
		}
	}
	return names
}

// overForms tries templates with the values of their parts, but not the configured one, and none of
// which the request lacks a part.
func (h *HMAC) overForms(forms []string, note string, values map[string]string) (all []Alternative) {
	own := cmp.Or(h.Content, "{body}")
	lacks := func(p part) bool {
		return (p.kind == partTimestamp || p.kind == partID) && values[string(p.kind)] == ""
	}
	for _, form := range forms {
		parts, err := parseTemplate(form)
		if err != nil || form == own && h.Contents == nil || slices.ContainsFunc(parts, lacks) {
			continue
		}
		detail := fmt.Sprintf("%q%s", form, note)
		if h.Contents == nil {
			detail += fmt.Sprintf(", and %q is configured", own)
		}
		content := func(r *http.Request, body []byte) ([]segments, error) {
			return []segments{fillForm(parts, r, body, values)}, nil
		}
		all = append(all, h.signing(ContentDiffers, detail, form, content))
	}
	return all
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
func (h *HMAC) signatureForms(r *http.Request) (all []Alternative) {
	s, value, err := h.plan.find(r)
	if err != nil || len(value) > maxSignatureField {
		return nil
	}
	unurl := strings.NewReplacer("-", "+", "_", "/").Replace(value)
	forms := []variant{
		{"in quotes", strings.ReplaceAll(value, `"`, "")}, {"in quotes", strings.ReplaceAll(value, "'", "")},
	}
	for _, v := range []variant{
		{"in base64url", unurl}, {"in base64url without padding", padded(unurl)}, {"without padding", padded(value)},
		{"with white space in it", strings.Join(strings.Fields(value), "")},
		{"percent-encoded", strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(value)},
	} {
		if forms = append(forms, v); v.text != value {
			for _, more := range h.otherPrefixes(v.text) {
				forms = append(forms, variant{v.what + " and " + more.what, more.text})
			}
		}
	}
	seen := map[string]bool{value: true}
	for _, v := range slices.Concat(forms, h.otherPrefixes(value), h.renamedEntries(value)) {
		if !seen[v.text] {
			seen[v.text] = true
			changed := withField(r, h.plan.headers[s.header], v.text)
			all = append(all, Alternative{Mistake: SignatureWrapped, Detail: v.what, Request: changed})
		}
	}
	return all
}

// renamedEntries give an entry of a list, which has a name that is not configured, the name of a
// signature.
func (h *HMAC) renamedEntries(value string) (all []variant) {
	if h.plan.Separator == "" {
		return nil
	}
	entries := strings.Split(value, h.plan.Separator)
	for i, came := range entries[:min(len(entries), maxNames)] {
		came = TrimOWS(came)
		name := entryName(came)
		if _, known := h.plan.parse(came); known || name == "" {
			continue
		}
		for _, e := range h.plan.entries {
			if entryName(e[0].literal) != "" {
				renamed := slices.Clone(entries)
				renamed[i] = e[0].literal + came[len(name)+1:]
				what := fmt.Sprintf("named %s in place of %s", came[:len(name)+1], e[0].literal)
				all = append(all, variant{what, strings.Join(renamed, h.plan.Separator)})
			}
		}
	}
	return all
}

// olderField tries the field of SHA-1 beside that of SHA-256, such as X-Hub-Signature beside
// X-Hub-Signature-256.
func (h *HMAC) olderField(r *http.Request) (all []Alternative) {
	if _, _, err := h.plan.find(r); CodeOf(err) != SignatureMissing {
		return nil
	}
	for _, name := range h.plan.headers {
		if older, ok := strings.CutSuffix(name, "-256"); ok && r.Header.Get(older) != "" {
			detail := fmt.Sprintf("HMAC-SHA1 in %q, and %q is not there", older, name)
			all = append(all, h.altered(HashDiffers, detail, func(c *HMAC) {
				c.Headers, c.Hash, c.Hashes = []string{older}, SHA1, nil
				c.Entries = replaced(h.Entries, "sha256", "sha1")
			}))
		}
	}
	return all
}

// withoutKey tries a hash in place of the HMAC.
func (h *HMAC) withoutKey() (all []Alternative) {
	for _, form := range []struct {
		of            string
		before, after int // how often the secret is there
	}{{of: "the content"}, {of: "a secret and the content", before: 1}, {of: "the content and a secret", after: 1}} {
		detail := fmt.Sprintf("%s of %s, which is not an HMAC", strings.ToUpper(string(h.plan.hash)), form.of)
		all = append(all, Alternative{Mistake: HashDiffers, Detail: detail, Scheme: func() Scheme {
			plan := *h.plan
			plan.keys = nil
			for i, o := range h.secretOffers() {
				secret, _ := o.Secret.Decode(o.As) // which was checked
				plan.keys = append(plan.keys, newMACKey(h.plan.keys[i].id, plan.tried, func(x Hash) hash.Hash {
					return &unkeyed{newHash[x](), bytes.Repeat(secret, form.before), bytes.Repeat(secret, form.after)}
				}))
			}
			return &unkeyedHMAC{h, &plan}
		}})
	}
	return all
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

// otherPrefixes add the literal text of an entry that holds only a signature, and remove a prefix
// that no entry has.
func (h *HMAC) otherPrefixes(value string) (all []variant) {
	whole := func(e entryPattern, sig string) string {
		return e.format(entry{sig: sig, ed25519: sig, ecdsa: sig, alg: string(h.plan.hash)})
	}
	alone := slices.DeleteFunc(slices.Clone(h.plan.entries), func(e entryPattern) bool {
		return e.holds(partTimestamp) || e.holds(partKID)
	})
	for _, e := range alone {
		if !strings.HasPrefix(value, e[0].literal) || e.holds(partAlg) {
			all = append(all, variant{"without its prefix", whole(e, value)})
		}
	}
	for _, prefix := range append(slices.Clone(foreignPrefixes), entryPrefix(value)) {
		if bare, ok := strings.CutPrefix(value, prefix); ok && prefix != "" {
			all = append(all, variant{"with the prefix " + prefix, bare})
			for _, e := range alone {
				all = append(all, variant{"with the prefix " + prefix, whole(e, bare)})
			}
		}
	}
	return all
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
