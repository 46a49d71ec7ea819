package verify

import (
	"cmp"
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

// Hash names the hash function of an HMAC.
type Hash string

// The hash functions. SHA-1 is for the producers that offer nothing else: HMAC-SHA1 is not broken (RFC 6194
// section 3.3), and still no choice for anything new.
const (
	SHA1   Hash = "sha1"
	SHA256 Hash = "sha256"
	SHA384 Hash = "sha384"
	SHA512 Hash = "sha512"
)

// HMAC verifies deliveries that carry an HMAC (RFC 2104) of their bytes in a header field. It is data: a
// producer is described by its fields, and most presets are nothing else. The value is used by pointer and is
// not changed after its first use, Check included.
//
//	&verify.HMAC{ // t=1492774577,v1=5257a8...
//		Headers: []string{"Stripe-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v1={sig}"},
//		Encoding: verify.Hex, Content: "{timestamp}.{body}", Secrets: verify.Secrets("whsec_..."),
//	}
//
// Every usable entry of the header is compared with every secret, in constant time. Entries of an unknown form
// are skipped, and a header without a usable entry is signature_malformed. Two fields, or two timestamps,
// where one is meant are refused.
type HMAC struct {
	// Headers are the fields that may carry the signature, in order of preference. The first one that is
	// present decides, also about its sibling in TimestampHeaders and IDHeaders. Required.
	Headers []string
	// Separator stands between the entries of the field value, white space around it ignored. Defaults to
	// none: the whole value is one entry.
	Separator string
	// Entries are the forms of an entry: literal text around the placeholders {sig} (the signature), {alg} (the
	// name of a hash), {kid} (a key of Keys), {timestamp}, and {ed25519} (a signature to be checked with
	// PublicKeys). Defaults to "{sig}".
	Entries []string
	// Hash is the hash function where an entry names none. Defaults to SHA256.
	Hash Hash
	// Hashes are the functions that {alg} may name. Defaults to Hash alone.
	Hashes []Hash
	// Encoding of the signature: Hex or Base64. Required.
	Encoding Encoding
	// Secrets, of which any may match; several while the producer changes from one to the next.
	Secrets []Secret
	// Keys are secrets by key id, for entries with {kid}. Takes the place of Secrets.
	Keys map[string]Secret
	// SecretEncoding says how Secrets and Keys are written. Defaults to Raw.
	SecretEncoding Encoding
	// PublicKeys are the Ed25519 keys (RFC 8032) for entries with {ed25519}, over the same content.
	PublicKeys []ed25519.PublicKey
	// TimestampHeaders are the fields with the signed time: one, or one for each of Headers. Where the time
	// is in the signature's own field, an entry with {timestamp} says so.
	TimestampHeaders []string
	// TimestampUnit is time.Second or time.Millisecond since 1970. Defaults to seconds.
	TimestampUnit time.Duration
	// IDHeaders are the fields with the signed identifier: one, or one for each of Headers.
	IDHeaders []string
	// Content is what is signed: literal text around the placeholders {body}, {timestamp} (as it was sent),
	// {id}, {url} (as the producer called it), {header:NAME}, {config:NAME}, and {jcs} (the JSON body in the
	// canonical form of RFC 8785). Defaults to "{body}". It must hold {body} or {jcs}.
	//
	// It must be possible to take what is signed apart in one way only. A part before the body is ended by the first
	// character of the text that follows it, one after the body by the last character of the text before it, and an
	// identifier, field or URL that holds that character is refused (component_unsupported). Check refuses a part
	// without such text, or with text that it always may hold: a digit beside {timestamp}, and beside {url} a
	// character of a URI (RFC 3986 section 2).
	Content string
	// Malleable accepts a Content that can be taken apart in several ways, for vendors that sign one. Identity.Malleable
	// is then set, and a request whose URL has a query is refused where nothing ends {url}.
	Malleable bool
	// URL, when set, is the only URL that {url} stands for, with its query, as it was registered with the producer. A
	// request to another one is refused (signature_mismatch). Defaults to any, as the producer called it.
	URL string
	// Config holds the values of {config:NAME}.
	Config map[string]string
	// Contents replaces Content for producers whose signed bytes follow no template. It returns what the producer may have
	// signed, 1 to 8 contents, each as the parts that make it up, so that a body is not copied.
	Contents func(r *http.Request, body []byte) ([][][]byte, error)
	// Covers lists what Contents binds, for Identity.Covered.
	Covers []string

	once sync.Once
	plan *hmacPlan
	err  error
}

// Check reports every mistake of the description: a missing or empty secret, one of another encoding, an
// impossible pattern or template. Verify refuses everything while there is one.
func (h *HMAC) Check() error {
	h.once.Do(func() { h.plan, h.err = newHMACPlan(h) })
	return h.err
}

// SignsURL reports whether the signed content holds the URL, which a receiver must then be told.
func (h *HMAC) SignsURL() bool {
	return strings.Contains(h.Content, "{url}") || slices.Contains(h.Covers, "@target-uri")
}

// Ambiguous returns the names of the placeholders that nothing ends in the signed content, such as "url"; there are none
// unless Malleable is set. It returns nothing while there is a mistake in the description.
func (h *HMAC) Ambiguous() []string {
	if h.Check() != nil {
		return nil
	}
	return slices.Clone(h.plan.malleable)
}

// Binds implements [Binder]. It needs no secret.
func (h *HMAC) Binds() Binding {
	p := &hmacPlan{custom: h.Contents, config: h.Config, url: h.URL}
	if p.setFields(h) != nil || p.setEntries(h) != nil && len(p.entries) == 0 || len(p.headers) == 0 {
		return Binding{}
	}
	_ = p.setTemplate(h) // its mistakes are those of Check
	p.setCovered(h)
	b := Binding{
		Content: true, Time: p.templateHolds("timestamp"), Covered: slices.Clone(p.covered[0]), Malleable: p.isMalleable(),
	}
	for _, covered := range p.covered[1:] { // each of the fields that may carry the signature has its own
		b.Covered = slices.DeleteFunc(b.Covered, func(part string) bool { return !slices.Contains(covered, part) && !h.isID(part) })
	}
	return b
}

// isID reports whether a field is one of those with the signed identifier.
func (h *HMAC) isID(field string) bool {
	return slices.ContainsFunc(h.IDHeaders, func(name string) bool { return strings.EqualFold(name, field) })
}

// Verify implements [Scheme]. The identity holds the signed time, what is covered, the id of the key where the
// entry names one, and the SHA-256 of the signed content.
func (h *HMAC) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	if err := h.Check(); err != nil {
		return Identity{}, &Error{Code: KeysUnavailable, Err: err}
	}
	head, err := h.plan.read(r)
	if err != nil {
		return Identity{}, err
	}
	b, err := body()
	if err != nil {
		return Identity{}, err
	}
	contents, err := h.plan.contents(r, b, head)
	if err != nil {
		return Identity{}, err
	}
	for _, content := range contents {
		if kid, ok := h.plan.match(head, content); ok {
			signed := digestOf(content)
			return Identity{
				KeyID: kid, SignedAt: head.signedAt, Covered: h.plan.covered[head.header], Signed: signed,
				Stable:    h.plan.stable(content, signed),
				Malleable: h.plan.isMalleable(),
			}, nil
		}
	}
	return Identity{}, &Error{Code: SignatureMismatch, Component: h.plan.headers[head.header]}
}

// Sign signs r and body as the producer would at now: it sets the signature's field, and the timestamp's where
// there is one, on r. The first secret is used, or the first key in the order of their ids. The field of the
// identifier must be set before.
func (h *HMAC) Sign(r *http.Request, body []byte, now time.Time) error {
	if err := h.Check(); err != nil {
		return err
	}
	return h.plan.sign(r, body, now)
}

// String says what is demanded, for the policy: what is signed, how, and where the signature stands.
func (h *HMAC) String() string {
	hash := cmp.Or(h.Hash, SHA256)
	if len(h.Hashes) > 0 {
		hash = h.Hashes[0]
	}
	forms := h.Entries
	if len(forms) == 0 {
		forms = []string{"{sig}"}
	}
	content := fmt.Sprintf("%q", cmp.Or(h.Content, "{body}"))
	if h.Contents != nil {
		content = strings.Join(h.Covers, ", ")
	}
	text := fmt.Sprintf("HMAC-%s (%s) of %s in %s, as %q", strings.ToUpper(string(hash)), h.Encoding, content,
		strings.Join(h.Headers, " or "), strings.Join(forms, cmp.Or(h.Separator, " ")))
	if len(h.TimestampHeaders) > 0 {
		text += ", the time in " + strings.Join(h.TimestampHeaders, " or ")
	}
	return text
}

// new returns the constructor of the hash, or nil for an unknown name.
func (h Hash) new() func() hash.Hash {
	switch h {
	case SHA1:
		return sha1.New
	case SHA256:
		return sha256.New
	case SHA384:
		return sha512.New384
	case SHA512:
		return sha512.New
	}
	return nil
}

// hmacKey is one decoded secret. Keyed MACs are pooled: keying one costs two blocks of hashing.
type hmacKey struct {
	id    string
	pools map[Hash]*sync.Pool
}

func newHMACKey(id string, secret []byte, hashes []Hash) hmacKey {
	k := hmacKey{id: id, pools: make(map[Hash]*sync.Pool, len(hashes))}
	for _, h := range hashes {
		k.pools[h] = &sync.Pool{New: func() any { return hmac.New(h.new(), secret) }}
	}
	return k
}

// sum appends the MAC of the content to dst.
func (k hmacKey) sum(dst []byte, h Hash, content segments) []byte {
	pool := k.pools[h]
	mac := pool.Get().(hash.Hash)
	mac.Reset()
	for _, s := range content {
		mac.Write(s)
	}
	dst = mac.Sum(dst)
	pool.Put(mac)
	return dst
}
