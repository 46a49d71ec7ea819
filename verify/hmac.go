package verify

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// leastSecret is the length below which a decoded secret was cut, or is not one.
const leastSecret = 16

// ShortSecrets describes secrets that have so few bytes, decoded, that they can be guessed. The
// length of a text shows nothing.
func ShortSecrets(secrets []Offer, as Encoding) (found []string) {
	for _, o := range secrets {
		raw, err := o.Secret.Decode(as)
		if err == nil && as != Raw && len(raw) < leastSecret {
			found = append(found, fmt.Sprintf("%s has only %d bytes, decoded from %s: anyone can guess it; "+
				"copy the whole secret", o.Name, len(raw), as))
		}
	}
	return found
}

// ShortSecrets describes the scheme's secrets that can be guessed, for a warning.
func (h *HMAC) ShortSecrets() []string {
	return ShortSecrets(h.secretOffers(), cmp.Or(h.SecretEncoding, Raw))
}

// Hash is the hash function of an HMAC.
type Hash string

// The hash functions. SHA-1 is for producers that offer nothing else: HMAC-SHA1 is not broken
// (RFC 6194 section 3.3), but not for new uses.
const (
	SHA1   Hash = "sha1"
	SHA256 Hash = "sha256"
	SHA384 Hash = "sha384"
	SHA512 Hash = "sha512"
)

// HMAC verifies deliveries that carry an HMAC (RFC 2104) of their bytes in a header field, or a
// signature with a public key in the same form. It is data: most presets only fill in its fields.
// The value is used by pointer and not changed after its first use, which includes Check.
//
//	&verify.HMAC{ // t=1492774577,v1=5257a8...
//		Headers: []string{"Stripe-Signature"},
//		Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"}, Encoding: verify.Hex,
//		Content: "{timestamp}.{body}", Secrets: verify.Secrets("whsec_..."),
//	}
//
// Every usable entry of the header is compared with every secret, in constant time. Entries of
// an unknown form are skipped; a header without a usable entry is signature_malformed. Repeated
// fields and timestamps are refused.
type HMAC struct {
	// Headers are the fields that may carry the signature, in order of preference. The first
	// that is present counts, and with it the field at its index in TimestampHeaders and
	// IDHeaders. Required.
	Headers []string `conf:"header"`
	// Separator separates the entries of the field value; white space around entries is
	// ignored. Defaults to none: the whole value is one entry.
	Separator string `conf:"separator"`
	// Entries are the forms of an entry: literal text around the placeholders {sig} (the
	// signature), {alg} (the name of a hash), {kid} (a key of Keys), {timestamp}, and {ed25519}
	// or {ecdsa} (a signature by one of PublicKeys or ECDSAKeys). Defaults to "{sig}".
	Entries []string `conf:"pattern"`

	Hash           Hash                // of entries without {alg}; defaults to the first of Hashes, else SHA256
	Hashes         []Hash              `conf:"hash"`            // that {alg} may name; defaults to Hash alone
	Encoding       Encoding            `conf:"encoding"`        // of the signature: Hex or Base64; required
	Secrets        []Secret            `conf:"secret"`          // the accepted ones, several during a rotation
	Keys           map[string]Secret   `conf:"keys"`            // by key id, for entries with {kid}; instead of Secrets
	SecretEncoding Encoding            `conf:"secret_encoding"` // of Secrets and Keys; defaults to Raw
	PublicKeys     []ed25519.PublicKey // Ed25519 (RFC 8032), for {ed25519} over the same content
	// ECDSAKeys are keys of P-256, for {ecdsa} over the SHA-256 of the same content. Such a
	// signature is the DER of ECDSA-Sig-Value (RFC 3279 section 2.2.3).
	ECDSAKeys []*ecdsa.PublicKey

	// TimestampHeaders are the fields with the signed time: one, or one per field of Headers.
	// If the time is in the signature field, use an entry with {timestamp} instead.
	TimestampHeaders []string `conf:"timestamp_header"`
	TimestampUnit    TimeUnit `conf:"timestamp_unit"` // the form of times; defaults to Seconds
	// IDHeaders are the fields with the signed identifier: one, or one per field of Headers.
	IDHeaders []string `conf:"id_header"`
	// Content is what is signed: literal text around the placeholders {body}, {timestamp} (as
	// received), {id}, {url} (as the producer called it), {header:NAME}, {config:NAME}, and
	// {jcs} (the JSON body in the canonical form of RFC 8785). Defaults to "{body}". It must
	// hold {body} or {jcs}.
	//
	// The signed content must be divisible into its parts in only one way. A part before the
	// body ends at the first character of the text that follows it, a part after the body
	// begins after the last character of the text before it. An identifier, field or URL that
	// holds this character is refused (component_unsupported). Check refuses a part without
	// such text, or with text that the part may always hold: a digit beside {timestamp}, a
	// character of a URI (RFC 3986 section 2) beside {url}. A date-time shows its own ends by its
	// two colons and its Z, so it needs no text beside it, and a colon ends the part beside it.
	Content string `conf:"template"`
	// Malleable accepts an ambiguous Content, for vendors that sign one. Identity.Malleable is
	// then set, and a URL with a query is refused if no text ends {url}.
	Malleable bool `conf:"malleable"`
	// URL, if set, is the only accepted value of {url}, with its query, as registered with the
	// producer. Requests to another URL are refused (signature_mismatch). Defaults to any URL.
	URL string `conf:"signed_url"`
	// OtherURL returns another form of {url}, for vendors that may sign the URL decoded. It is
	// tried once, if it differs and no signature matches the URL as called. Defaults to none.
	OtherURL func(address string) string
	Config   map[string]string // the values of {config:NAME}
	// Contents replaces Content if no template describes the signed bytes. It returns 1 to 8
	// candidates for the signed content, each as parts, which avoids copies of the body.
	Contents func(r *http.Request, body []byte) ([][][]byte, error)
	Covers   []string // what Contents binds, for Identity.Covered

	once sync.Once
	plan *hmacPlan
	err  error
}

// Check reports all errors of the description, such as an empty secret, one in another
// encoding, or an invalid template. Until they are fixed, Verify refuses every request.
func (h *HMAC) Check() error {
	h.once.Do(func() { h.plan, h.err = newHMACPlan(h) })
	return h.err
}

// SignsURL reports whether the signed content holds the URL. The receiver must then know its
// public URL.
func (h *HMAC) SignsURL() bool {
	return strings.Contains(h.Content, "{url}") || slices.Contains(h.Covers, "@target-uri")
}

// Ambiguous returns the placeholders without a boundary in the signed content, such as "url";
// none unless Malleable is set, or if the description has errors.
func (h *HMAC) Ambiguous() []string {
	if h.Check() != nil {
		return nil
	}
	return slices.Clone(h.plan.malleable)
}

// Binds implements [Binder]. It needs no secret.
func (h *HMAC) Binds() Binding {
	err := h.Check()
	p := h.plan
	if err != nil {
		p = &hmacPlan{HMAC: h}
		if p.setFields() != nil || p.setEntries() != nil && len(p.entries) == 0 || len(p.headers) == 0 {
			return Binding{}
		}
		_ = p.setTemplate() // Check reports its errors
		p.setCovered()
	}
	b := Binding{
		Content: true, Time: p.templateHolds(partTimestamp), Malleable: p.isMalleable(),
		Covered: slices.Clone(p.covered[0]),
	}
	if fields := p.timestampHeaders; len(fields) > 0 && len(slices.Compact(slices.Clone(fields))) == 1 {
		b.TimeField = strings.ToLower(fields[0])
	}
	if p.templateHolds(partJCS) && p.malleable == nil {
		b.Form = canonicalForm
	}
	for _, covered := range p.covered[1:] { // each signature field has its own
		b.Covered = slices.DeleteFunc(b.Covered, func(part string) bool {
			return !slices.Contains(covered, part) && !h.isID(part)
		})
	}
	return b
}

func (h *HMAC) isID(field string) bool {
	return slices.ContainsFunc(h.IDHeaders, func(name string) bool { return strings.EqualFold(name, field) })
}

// Verify implements [Scheme]. The identity has the signed time, the covered parts, the key id
// if the entry has one, and the SHA-256 of the signed content.
func (h *HMAC) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := h.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	return h.plan.verify(r, body)
}

func (p *hmacPlan) verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	var first [1]signature
	head, sigs, err := p.read(r, first[:])
	if err != nil {
		return Identity{}, err
	}
	b, err := body()
	if err != nil {
		return Identity{}, err
	}
	if p.Contents == nil {
		var parts [8][]byte
		content, err := p.fill(parts[:0], r, b, head)
		if err != nil {
			return Identity{}, err
		}
		id, err := p.identity(head, sigs, content)
		if CodeOf(err) == SignatureMismatch && p.withOtherURL(content) {
			if other, wrong := p.identity(head, sigs, content); wrong == nil {
				return other, nil
			}
		}
		return id, err
	}
	contents, err := p.contents(r, b, head)
	if err != nil {
		return Identity{}, err
	}
	var id Identity
	for _, content := range contents {
		if id, err = p.identity(head, sigs, content); err == nil {
			break
		}
	}
	return id, err
}

// identity returns the identity of the signer of the content.
func (p *hmacPlan) identity(head signatureHead, sigs []signature, content segments) (Identity, error) {
	kid, secret := p.match(sigs, content)
	if secret == 0 || isSignatureBase(content) {
		return Identity{}, &Error{Code: SignatureMismatch, Component: p.headers[head.header]}
	}
	signed := digestOf(content)
	return Identity{
		KeyID: kid, Secret: secret, SignedAt: head.signedAt, Covered: p.covered[head.header],
		Signed: signed, Stable: p.stable(content, signed), Malleable: p.isMalleable(),
	}, nil
}

// Sign signs r and body as the producer would at now: it sets the field of the signature, and
// that of the timestamp if there is one. It uses the first secret, or the key with the lowest
// id. The field of the identifier must be set before.
func (h *HMAC) Sign(r *http.Request, body []byte, now time.Time) error {
	if err := h.Check(); err != nil {
		return err
	}
	return h.plan.sign(r, body, now)
}

// String describes the scheme for the policy.
func (h *HMAC) String() string {
	hash := orDefault(h.Hashes, cmp.Or(h.Hash, SHA256))[0]
	forms := orDefault(h.Entries, defaultEntry)
	content := fmt.Sprintf("%q", cmp.Or(h.Content, "{body}"))
	if h.Contents != nil {
		content = strings.Join(h.Covers, ", ")
	}
	made := "HMAC-" + strings.ToUpper(string(hash))
	if all := strings.Join(forms, " "); !strings.Contains(all, "{sig}") {
		if made = "ECDSA with P-256 and SHA-256"; strings.Contains(all, "{ed25519}") {
			made = "Ed25519"
		}
	}
	text := fmt.Sprintf("%s (%s) of %s in %s, as %q", made, h.Encoding, content,
		strings.Join(h.Headers, " or "), strings.Join(forms, cmp.Or(h.Separator, " ")))
	if len(h.TimestampHeaders) > 0 {
		text += ", the time in " + strings.Join(h.TimestampHeaders, " or ")
	}
	return text
}

var newHash = map[Hash]func() hash.Hash{SHA1: sha1.New, SHA256: sha256.New, SHA384: sha512.New384, SHA512: sha512.New}

// hmacKey is one decoded secret. Keyed MACs are pooled, because keying costs two blocks of hashing.
type hmacKey struct {
	id    string
	pools map[Hash]*sync.Pool
}

func newHMACKey(id string, secret []byte, hashes []Hash) hmacKey {
	return newMACKey(id, hashes, func(h Hash) hash.Hash { return hmac.New(newHash[h], secret) })
}

func newMACKey(id string, hashes []Hash, keyed func(Hash) hash.Hash) hmacKey {
	k := hmacKey{id: id, pools: make(map[Hash]*sync.Pool, len(hashes))}
	for _, h := range hashes {
		k.pools[h] = &sync.Pool{New: func() any { return &keyedMAC{Hash: keyed(h)} }}
	}
	return k
}

// keyedMAC is a MAC with room for its sum.
type keyedMAC struct {
	hash.Hash
	sum [sha512.Size]byte
}

// sum appends the MAC of the content to dst.
func (k hmacKey) sum(dst []byte, h Hash, content segments) []byte {
	pool := k.pools[h]
	mac := pool.Get().(*keyedMAC)
	mac.Reset()
	for _, s := range content {
		mac.Write(s)
	}
	dst = append(dst, mac.Sum(mac.sum[:0])...)
	pool.Put(mac)
	return dst
}
