package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Mistake is a way in which a sender and the configuration of a scheme can differ. The set is
// closed; each is a cause of package explain.
type Mistake string

// The mistakes that schemes list in their [Alternator].
const (
	OtherSecret       Mistake = "other_secret"      // another secret than the configured ones
	SecretEncoding    Mistake = "secret_encoding"   // the secret, read in another encoding
	SecretCharacters  Mistake = "secret_characters" // the secret with characters more, fewer or changed
	OtherKey          Mistake = "other_key"         // another key than the one that the request names
	KeyIDDiffers      Mistake = "key_id"            // a known key under another id
	AlgorithmDiffers  Mistake = "algorithm"         // a key used with another algorithm
	LabelDiffers      Mistake = "label"             // a signature with another label or tag
	CoverageDiffers   Mistake = "not_covered"       // a signature that leaves out required components
	HashDiffers       Mistake = "hash"              // another hash function
	EncodingDiffers   Mistake = "encoding"          // the signature in another encoding
	ContentDiffers    Mistake = "content"           // other signed content than the template
	OverHash          Mistake = "over_hash"         // a digest of the body in place of the body
	SignatureWrapped  Mistake = "signature_form"    // prefix, quotes, padding or alphabet of the signature
	CredentialWrapped Mistake = "credential_form"   // a shared credential in another form or place
	UserDiffers       Mistake = "user_name"         // the right password for another user name
	AudienceDiffers   Mistake = "audience"          // a good token for another audience
	IssuerDiffers     Mistake = "issuer"            // a good token of another issuer
	ClaimDiffers      Mistake = "claim"             // a good token with another value of a claim
	TopicDiffers      Mistake = "topic"             // a good delivery of another topic
	WebhookDiffers    Mistake = "webhook_id"        // another id of the webhook in the signed content
	CertificateNamed  Mistake = "certificate_name"  // a client certificate with other names
	VersionDiffers    Mistake = "signature_version" // a signature of another version
	PortDiffers       Mistake = "url_port"          // a URL with the default port, which is not signed
	QueryDiffers      Mistake = "url_query"         // another form of the query
	EscapesDiffer     Mistake = "url_escapes"       // a path with other percent-encoding
	KeyPurpose        Mistake = "key_purpose"       // a key that is published for another purpose
	KeyRevoked        Mistake = "key_revoked"       // a key that is on the list of revoked keys
)

// Alternative is a scheme or request with one thing changed, as a sender may have it. It serves to
// explain why a delivery was refused, by verifying the delivery with it. No delivery is accepted by
// it.
type Alternative struct {
	Mistake Mistake
	Detail  string // what is changed, for the operator: names and positions, never a secret
	Rare    bool   // tried after all others, and not together with another change
	// Scheme makes the changed scheme, or returns nil if it would not be valid. It is nil itself if
	// the scheme is as it was.
	Scheme func() Scheme
	// Request, if not nil, replaces the request: a field of it is changed and not the scheme.
	Request *http.Request
}

// Offer is a credential that is not the scheme's own: of another producer, or one that the
// operator suspects. Either Secret or Key is set.
type Offer struct {
	Name   string // as findings show it, such as `secret 2 of 3 of producer "shop"`
	Secret Secret
	As     Encoding // of the secret, as its scheme reads it
	Key    *Key
}

// Fingerprint identifies the bytes of the credential, as [Key.Fingerprint] does. It is empty if its
// scheme cannot read it.
func (o Offer) Fingerprint() string {
	if o.Key != nil {
		return o.Key.Fingerprint()
	}
	raw, err := o.Secret.Decode(cmp.Or(o.As, Raw))
	if err != nil {
		return ""
	}
	return secretFingerprint(raw)
}

// Credentials are the secrets and keys by which a scheme accepts requests.
type Credentials struct {
	Known []string // their fingerprints, as of [Offer.Fingerprint]
	// Public means that some are not secrets. MoreKeys and MoreSecrets mean that there may be
	// others, in files or on servers, or in a scheme of another package that is no Alternator.
	Public, MoreKeys, MoreSecrets bool
}

// offline has ended: schemes fetch no keys with it.
var offline = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// CredentialsOf returns the credentials of a scheme, without reading files or asking anyone.
//
//nolint:contextcheck // it waits for nothing
func CredentialsOf(scheme Scheme) (c Credentials) {
	for _, part := range Parts(scheme) {
		var keys, secrets bool
		switch s := part.(type) {
		case *RFC9421:
			keys, secrets = hasMore(s.Keys)
		case nil:
		case Alternator:
			keys = true // of public keys
		default:
			keys, secrets = true, true
		}
		c.MoreKeys, c.MoreSecrets = c.MoreKeys || keys, c.MoreSecrets || secrets
	}
	for _, offer := range (All{scheme}).Offers(offline) {
		c.Known = append(c.Known, offer.Fingerprint())
		c.Public = c.Public || offer.Key != nil && offer.Key.Public() != nil
	}
	return c
}

// hasMore reports whether a set may have keys or secrets that are not known without asking.
func hasMore(set KeySet) (keys, secrets bool) {
	switch s := set.(type) {
	case *staticSet:
	case joinedSet:
		for _, one := range s {
			moreKeys, moreSecrets := hasMore(one)
			keys, secrets = keys || moreKeys, secrets || moreSecrets
		}
	case *JWKS, *Directories:
		return true, false
	case *FileKeys:
		return true, s.cfg.Alg == HMACSHA256
	default:
		return true, true
	}
	return keys, secrets
}

// Alternator is an optional interface of schemes whose refusals can be explained. All schemes of
// this package have it.
type Alternator interface {
	// Alternatives lists the scheme with one thing changed, the likely mistakes first. A change
	// that changes nothing is left out. It makes no network request.
	Alternatives(r *http.Request, offered []Offer) []Alternative
	// Offers returns the scheme's own credentials, for other endpoints to try. Their names are
	// positions, such as "secret 1 of 2". It fetches no keys if the context has ended.
	Offers(ctx context.Context) []Offer
}

// Alternatives implements [Alternator]: one of the schemes is changed.
func (a All) Alternatives(r *http.Request, offered []Offer) (all []Alternative) {
	for i, one := range a {
		all = append(all, MapAlternatives(one, r, offered, func(s Scheme) Scheme {
			rest := slices.Clone(a)
			rest[i] = s
			return rest
		})...)
	}
	return all
}

// Offers implements [Alternator].
func (a All) Offers(ctx context.Context) (all []Offer) {
	for _, one := range a {
		if s, ok := one.(Alternator); ok {
			all = append(all, s.Offers(ctx)...)
		}
	}
	return all
}

// Alternatives implements [Alternator]: one of the two schemes is changed.
func (a Any) Alternatives(r *http.Request, offered []Offer) []Alternative {
	return MapAlternatives(All(a[:]), r, offered, func(s Scheme) Scheme {
		changed, _ := s.(All)
		return Any(changed)
	})
}

// Offers implements [Alternator].
func (a Any) Offers(ctx context.Context) []Offer { return All(a[:]).Offers(ctx) }

// VerifyAround verifies a request as a scheme does that has another one in it.
type VerifyAround func(inner Scheme, r *http.Request, body func() ([]byte, error)) (Identity, error)

// Alternatives returns the alternatives of the inner scheme, with the scheme around them.
func (v VerifyAround) Alternatives(inner Scheme, r *http.Request, offered []Offer) []Alternative {
	return MapAlternatives(inner, r, offered, func(s Scheme) Scheme { return &aroundTrial{s, v} })
}

// aroundTrial is an alternative with a scheme around it.
type aroundTrial struct {
	inner  Scheme
	around VerifyAround
}

// Verify implements [Scheme].
func (t *aroundTrial) Verify(r *http.Request, body func() ([]byte, error)) (Identity, error) {
	return t.around(t.inner, r, body)
}

// Alternatives implements [Alternator].
func (t *aroundTrial) Alternatives(r *http.Request, offered []Offer) []Alternative {
	return t.around.Alternatives(t.inner, r, offered)
}

// Offers implements [Alternator].
func (t *aroundTrial) Offers(ctx context.Context) []Offer { return All{t.inner}.Offers(ctx) }

// SignsURL reports whether the inner scheme signs the URL.
func (t *aroundTrial) SignsURL() bool { return All{t.inner}.SignsURL() }

// MapAlternatives returns the alternatives of a scheme that is wrapped in another one; none if the
// scheme is not an [Alternator].
func MapAlternatives(inner Scheme, r *http.Request, offered []Offer, wrap func(Scheme) Scheme) []Alternative {
	one, ok := inner.(Alternator)
	if !ok {
		return nil
	}
	all := one.Alternatives(r, offered)
	for i := range all {
		if bare := all[i].Scheme; bare != nil {
			all[i].Scheme = func() Scheme {
				if s := bare(); s != nil {
					return wrap(s)
				}
				return nil
			}
		}
	}
	return all
}

// SecretOffers returns secrets in an encoding as offers, named by their position.
func SecretOffers(secrets []Secret, as Encoding) []Offer {
	offers := make([]Offer, len(secrets))
	for i, s := range secrets {
		offers[i] = Offer{Name: fmt.Sprintf("secret %d of %d", i+1, len(secrets)), Secret: s, As: as}
	}
	return offers
}

// SecretAlternatives lists what a sender may use in place of the scheme's own secrets, which are in
// an encoding. The function returns the scheme with the bytes of another secret, or nil.
func SecretAlternatives(own, offered []Offer, as Encoding, with func(raw []byte) Scheme) (all []Alternative) {
	seen := map[string]bool{"": true}
	for _, o := range own {
		if raw, err := o.Secret.Decode(as); err == nil {
			seen[string(raw)] = true
		}
	}
	try := func(m Mistake, rare bool, o Offer, variants []variant) {
		for _, v := range variants {
			if !seen[v.text] {
				seen[v.text] = true
				changed := func() Scheme { return with([]byte(v.text)) }
				all = append(all, Alternative{Mistake: m, Detail: o.Name + v.what, Rare: rare, Scheme: changed})
			}
		}
	}
	for _, o := range own {
		try(SecretEncoding, false, o, readings(o.Secret, as))
		try(SecretCharacters, false, o, secretVariants(string(o.Secret)))
	}
	for _, o := range offered {
		if raw, err := o.Secret.Decode(as); err == nil {
			try(OtherSecret, false, o, []variant{{"", string(raw)}})
		}
		try(OtherSecret, false, o, readings(o.Secret, as))
	}
	for _, o := range own {
		try(SecretCharacters, true, o, rareVariants(string(o.Secret)))
		try(SecretEncoding, true, o, digests(o.Secret))
	}
	return all
}

// variant is a text with a mistake, and what the mistake is.
type variant struct{ what, text string }

// readings are a secret in each encoding but one.
func readings(s Secret, but Encoding) (all []variant) {
	for _, enc := range []Encoding{Raw, Whsec, Base64, Hex} {
		if raw, err := s.Decode(enc); enc != but && err == nil {
			all = append(all, variant{", read as " + string(enc), string(raw)})
		}
	}
	bare := strings.TrimRight(strings.TrimPrefix(string(s), "whsec_"), "=")
	if raw, err := base64.RawURLEncoding.DecodeString(bare); err == nil {
		all = append(all, variant{", read as base64url", string(raw)})
	}
	return all
}

// secretVariants are the text of a secret as it is copied, quoted and stored by mistake.
func secretVariants(text string) []variant {
	bare, short := text, text
	if _, after, ok := strings.Cut(text, "_"); ok {
		bare, short = after, text[strings.LastIndexByte(text, '_')+1:]
	}
	decoded, _ := url.QueryUnescape(text)
	return []variant{
		{", with a newline after it", text + "\n"},
		{", with CRLF after it", text + "\r\n"},
		{", with a space after it", text + " "},
		{", with a space before it", " " + text},
		{", in double quotes", `"` + text + `"`},
		{", in single quotes", "'" + text + "'"},
		{", without its prefix", bare},
		{", without its prefix", short},
		{", with the prefix whsec_", "whsec_" + text},
		{", in lower case", strings.ToLower(text)},
		{", in upper case", strings.ToUpper(text)},
		{", percent-decoded", decoded},
		{", percent-encoded", url.QueryEscape(text)},
		{", encoded as base64", base64.StdEncoding.EncodeToString([]byte(text))},
		{", encoded as hex", hex.EncodeToString([]byte(text))},
		{", without its padding", strings.TrimRight(text, "=")},
		{", after a byte order mark", "\ufeff" + text},
		{", in Latin-1", latin1(text)},
		{", without its prefix, with a newline after it", bare + "\n"},
	}
}

// latin1 returns the text in Latin-1, or unchanged if it has other characters.
func latin1(text string) string {
	var b []byte
	for _, r := range text {
		if r > 0xff {
			return text
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func rareVariants(text string) []variant {
	return []variant{
		{", with a tab after it", text + "\t"},
		{", with a tab before it", "\t" + text},
		{", with a newline before it", "\n" + text},
		{", with padding", text + strings.Repeat("=", (4-len(text)%4)%4)},
		{", percent-encoded in lower case", lowerEscapes(url.QueryEscape(text))},
		{", percent-encoded, as JavaScript writes it", javaScriptEscapes.Replace(url.QueryEscape(text))},
	}
}

// lowerEscapes writes the hexadecimal digits of percent-encoded text in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := range b {
		if b[i] == '%' && i+2 < len(b) {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// javaScriptEscapes makes the result of encodeURIComponent of that of url.QueryEscape.
var javaScriptEscapes = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

// digests are the SHA-256 of a secret, which some use as the key.
func digests(s Secret) []variant {
	sum := sha256.Sum256([]byte(s))
	return []variant{
		{", its SHA-256", string(sum[:])},
		{", its SHA-256 in hex", hex.EncodeToString(sum[:])},
		{", its SHA-256 in base64", base64.StdEncoding.EncodeToString(sum[:])},
	}
}

// rare marks alternatives as rare.
func rare(all []Alternative) []Alternative {
	for i := range all {
		all[i].Rare = true
	}
	return all
}

// settings returns a copy of the exported fields of a scheme, which may be in use.
func settings[S any](of *S) *S {
	from, to := reflect.ValueOf(of).Elem(), reflect.ValueOf(new(S)).Elem()
	for i := range from.NumField() {
		if to.Field(i).CanSet() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return to.Addr().Interface().(*S) //nolint:forcetypeassert // it is a new one
}

// withField returns the request with another value of a field.
func withField(r *http.Request, name, value string) *http.Request {
	changed := r.WithContext(r.Context()) // a shallow copy
	changed.Header = r.Header.Clone()
	changed.Header.Set(name, value)
	return changed
}
