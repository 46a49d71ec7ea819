package preset

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Settings configure a preset. Tags are the names in eyelet.yaml; their option "secret" marks a
// setting that is never shown, "file" one that may be in a file of its own. A preset uses only
// some of them, which [Preset.Uses] lists, and [Preset.Open] refuses the others, so none is
// silently ignored.
type Settings struct {
	// Name of the producer and its endpoint. Defaults to the name of the preset.
	Name string `conf:"name"`
	// Secrets are shared secrets, signing keys or tokens as the vendor writes them. Any may match.
	Secrets []string `conf:"secret,secret"`
	// Keys are secrets by key id, or public keys in PEM or as a JSON Web Key.
	Keys map[string]string `conf:"keys,secret"`
	// Username and Password are the credentials of basic authentication.
	Username string `conf:"username"`
	Password string `conf:"password,secret"`
	// Header or Query names the field or parameter that carries a secret.
	Header string `conf:"header"`
	Query  string `conf:"query"`
	// Account identifies the account at the vendor: the webhook's id (PayPal), the merchant (Yandex
	// Pay), the license code (WebEngage), the application (Event Grid). Any of several may match.
	Account []string `conf:"account,nonempty"`
	// Token is the one that the vendor sends in its subscription challenge (Lark, Meta, Strava).
	Token string `conf:"token,secret"`
	// SignedURL is the URL as registered with the vendor, which signs it (Square).
	SignedURL string `conf:"signed_url"`
	// Encoding of the signature, hex or base64, where the vendor does not document it (Worldpay).
	Encoding string `conf:"encoding"`
	// SignatureEncoding is der (the default) or raw, of ECDSA signatures (pawaPay).
	SignatureEncoding string `conf:"signature_encoding"`
	// Algs are the accepted algorithms, in place of the preset's: sha256 and sha1 of GitHub, Meta
	// and SNS, those of RFC 7518 of tokens.
	Algs []string `conf:"alg,nonempty"`
	// Subscriptions are the wanted topics (WebSub).
	Subscriptions []Subscription `conf:"subscriptions"`
	// AllowedIPs are the only client addresses accepted, and Rate is the limit of new events, as in
	// [producer.Producer].
	AllowedIPs []netip.Prefix
	Rate       producer.Rate
	// Audience, Issuers and Email are required values of a token's claims.
	Audience []string `conf:"audience,nonempty"`
	Issuers  []string `conf:"issuers,nonempty"`
	Email    string   `conf:"email"`
	// Topics are the accepted topics.
	Topics []string `conf:"topic,nonempty"`
	// Origins may subscribe (CloudEvents, Event Grid). They are granted Rate.
	Origins []string `conf:"origins"`
	// Batch accepts batches of events (CloudEvents).
	Batch bool `conf:"batch"`
	// JWKSURL is where keys are published, in place of the vendor's address.
	JWKSURL string `conf:"jwks_url"`
	// Allow are the complete URLs of the profiles (UCP) or keys (OCM) of those that may send.
	Allow []string `conf:"allow"`
	// RevokedURL is where the vendor publishes a signed list of revoked keys (AdCP).
	RevokedURL string `conf:"revoked_url"`
	// RootsPEM are the authorities of vendor certificates in PEM (RFC 7468). Defaults to the
	// system's; a certificate of SNS, which is published without its issuer's, then needs no chain.
	RootsPEM string `conf:"roots,file"`

	// The following fields are for programs and tests only.

	// TokenKeys are the keys for tokens, and MessageKeys those for HTTP message signatures, in
	// place of JWKSURL.
	TokenKeys   verify.TokenKeySet
	MessageKeys verify.KeySet
	// Fetch gets the vendor's certificates and confirms subscriptions. Defaults to HTTPS to
	// public addresses only, without redirects, within 5 seconds and 64 KiB.
	Fetch func(ctx context.Context, address string) ([]byte, error)
	// SigningKey signs samples of vendors that sign with a private key ([Preset.Sign]), and
	// SigningKeyID names it in tokens.
	SigningKey   crypto.Signer
	SigningKeyID string
	// Roots are the authorities of vendor certificates, in place of RootsPEM.
	Roots *x509.CertPool
	// PinnedKeys are public keys by the address of their certificate, which is then not fetched.
	PinnedKeys map[string]crypto.PublicKey

	scheme *verify.RFC9421 // for which a sample is signed

	principal func(id string) string // of given keys; nil is the producer itself
}

// roots returns the configured authorities, or nil for the system's.
func (s Settings) roots() (*x509.CertPool, error) {
	if s.Roots != nil || s.RootsPEM == "" {
		return s.Roots, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.RootsPEM)) {
		return nil, errors.New("roots: no certificate in PEM")
	}
	return pool, nil
}

// account returns the only account, or "".
func (s Settings) account() string {
	if len(s.Account) != 1 {
		return ""
	}
	return s.Account[0]
}

// credential returns the shared credential, or nil if there is not exactly one. bearer means that
// the secrets are bearer tokens if nothing says where they are.
func (s Settings) credential(bearer bool) *verify.Static {
	var found []*verify.Static
	if s.Username != "" || s.Password != "" {
		passwords := s.Secrets
		if s.Password != "" {
			passwords = append(slices.Clone(passwords), s.Password)
		}
		found = append(found, verify.Basic(s.Username, passwords...))
	}
	if s.Header != "" {
		found = append(found, verify.HeaderValue(s.Header, s.Secrets...))
	}
	if s.Query != "" {
		found = append(found, verify.QueryValue(s.Query, s.Secrets...))
	}
	if bearer && len(found) == 0 && len(s.Secrets) > 0 {
		found = append(found, verify.BearerToken(s.Secrets...))
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}
