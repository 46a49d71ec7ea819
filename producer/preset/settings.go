package preset

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Settings are what a preset can be told, as eyelet.yaml spells it. A preset uses few of them: [Preset.Uses]
// lists which, and [Preset.Open] refuses the others, so that no setting is silently without effect.
type Settings struct {
	// Name of the producer and its endpoint. Defaults to the preset's name.
	Name string `conf:"name"`
	// Secrets are shared secrets, signing keys or tokens in the vendor's own spelling, of which any may match.
	Secrets []string `conf:"secrets,secret"`
	// Keys are secrets by key id.
	Keys map[string]string `conf:"keys,secret"`
	// Username and Password are those of basic authentication.
	Username string `conf:"username"`
	Password string `conf:"password,secret"`
	// Header or Query names the field or parameter that carries Value, a shared credential.
	Header string `conf:"header"`
	Query  string `conf:"query"`
	Value  string `conf:"value,secret"`
	// Bearer is a static bearer token.
	Bearer string `conf:"bearer,secret"`
	// LicenseCode and SecretKey are the account's (WebEngage).
	LicenseCode string `conf:"license_code"`
	SecretKey   string `conf:"secret_key,secret"`
	// VerifyToken is echoed by the vendor in its subscription challenge (Meta).
	VerifyToken string `conf:"verify_token,secret"`
	// NotificationURL is the address as it was registered with the vendor, where it is signed (Square).
	NotificationURL string `conf:"notification_url"`
	// AllowSHA1 accepts the vendor's older signatures with SHA-1 too (GitHub, Meta).
	AllowSHA1 bool `conf:"allow_sha1"`
	// Encoding of the signature, hex or base64, where the vendor does not say which (Worldpay).
	Encoding string `conf:"encoding"`
	// Algs are the names of the algorithms that are accepted, in place of the preset's.
	Algs []string `conf:"algs"`
	// Subscriptions are the wanted topics (WebSub).
	Subscriptions []Subscription `conf:"subscriptions"`
	// AllowedIPs are the only addresses accepted.
	AllowedIPs []netip.Prefix `conf:"allowed_ips"`

	// WebhookID is the id of the webhook at the vendor (PayPal).
	WebhookID string `conf:"webhook_id"`
	// Audience, Issuers, Email and AppIDs are what a token must say.
	Audience []string `conf:"audience"`
	Issuers  []string `conf:"issuers"`
	Email    string   `conf:"email"`
	AppIDs   []string `conf:"app_ids"`
	// MerchantID is the account's (Yandex Pay).
	MerchantID string `conf:"merchant_id"`
	// Topics is the allow-list of topics.
	Topics []string `conf:"topics"`
	// MinVersion is the oldest signature version that is accepted (SNS).
	MinVersion int `conf:"min_version"`
	// Origins and Rate (requests per minute) are granted to senders that ask (CloudEvents, Event Grid).
	Origins []string `conf:"origins"`
	Rate    int      `conf:"rate"`
	// Batch takes batches of events too (CloudEvents).
	Batch bool `conf:"batch"`
	// JWKSURL is where keys are published, in place of the vendor's.
	JWKSURL string `conf:"jwks_url"`
	// CheckChain demands that vendor certificates chain to a root where that is not checked already (SNS).
	CheckChain bool `conf:"check_chain"`
	// RootsPEM holds the authorities of vendor certificates in PEM (RFC 7468). Defaults to the system's.
	RootsPEM string `conf:"roots,file"`

	// What follows is for programs and tests; the configuration does not spell it.

	// TokenKeys has the keys for tokens, in place of JWKSURL.
	TokenKeys verify.TokenKeySet
	// Fetch gets the vendor's certificates and confirms subscriptions. Defaults to [verify.FetchPublic].
	Fetch func(ctx context.Context, address string) ([]byte, error)
	// Roots are the authorities of vendor certificates, in place of RootsPEM.
	Roots *x509.CertPool
	// PinnedKeys are public keys by the address of the certificate, in place of fetching it.
	PinnedKeys map[string]crypto.PublicKey
}

// roots are the authorities that the settings name, or nil for the system's.
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

// Preset is a vendor that the package knows.
type Preset struct {
	// Name as the configuration spells it.
	Name string
	// Auth says how deliveries are authenticated, ID where their identifier stands, in a few words each.
	Auth, ID string
	// Deadline is how soon the vendor wants its answer; "" where nothing is known.
	Deadline string
	// Wants is the answer that counts as received, and how long the vendor goes on trying.
	Wants string
	// Uses lists the settings that the preset understands, as the tags of [Settings] spell them.
	Uses []string
	// New makes the producer. Mistakes are in its Err.
	New func(Settings) producer.Producer
}

// Open makes the producer and gives it its name. Settings that the preset does not understand are a mistake,
// reported with the others in the producer's Err.
func (p Preset) Open(s Settings) producer.Producer {
	made := p.New(s)
	made.Preset = p.Name
	if s.Name != "" {
		made.Name = s.Name
	}
	if len(s.AllowedIPs) > 0 {
		made.AllowedIPs = s.AllowedIPs
	}
	made.Err = errors.Join(p.unused(s), made.Err)
	return made
}

// Window is how long the preset remembers identifiers: for as long as the vendor tries again, and a day.
func (p Preset) Window() time.Duration { return p.New(Settings{}).WithDefaults().Window }

// Class says what identifies the preset's events.
func (p Preset) Class() producer.Class {
	made := p.described()
	return made.Class()
}

// described is the preset's producer without secrets, as the tables of presets describe it. Presets for tokens have a
// scheme only where they are told what a token must say.
func (p Preset) described() producer.Producer {
	return p.New(Settings{MerchantID: "any", Audience: []string{"any"}, Issuers: []string{"any"}, JWKSURL: "https://keys.example"})
}

// Docs is the address of the vendor's documentation.
func (p Preset) Docs() string { return p.New(Settings{}).Docs }

// unused reports the settings that have no meaning for the preset.
func (p Preset) unused(s Settings) error {
	var errs []error
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("conf"), ",")
		if name == "" || name == "name" || name == "allowed_ips" || v.Field(i).IsZero() || slices.Contains(p.Uses, name) {
			continue
		}
		errs = append(errs, fmt.Errorf("preset %s has no setting %q; it has %s", p.Name, name, strings.Join(p.Uses, ", ")))
	}
	return errors.Join(errs...)
}

// values are the shared credentials of which any may match.
func (s Settings) values() []string {
	if s.Value == "" {
		return s.Secrets
	}
	return append(slices.Clone(s.Secrets), s.Value)
}

// credential is the shared credential that the settings describe, or nil when they describe none or two.
func (s Settings) credential() *verify.Static {
	values := s.values()
	var found []*verify.Static
	if s.Username != "" || s.Password != "" {
		passwords := slices.Clone(s.Secrets)
		if s.Password != "" {
			passwords = append(passwords, s.Password)
		}
		found = append(found, verify.Basic(s.Username, passwords...))
	}
	if s.Header != "" {
		found = append(found, verify.HeaderValue(s.Header, values...))
	}
	if s.Query != "" {
		found = append(found, verify.QueryValue(s.Query, values...))
	}
	if s.Bearer != "" {
		found = append(found, verify.BearerToken(s.Bearer))
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// Find returns the preset of that name.
func Find(name string) (Preset, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}

// webhook is what the presets have in common: a vendor that tries again, and drops events on a wrong 4xx.
func webhook(name, docs string) producer.Producer {
	return producer.Producer{Name: name, Preset: name, Docs: docs, Contract: producer.Webhook, StaleKnown: true, Fields: vendorFields[name]}
}

// signedBy sets a scheme that can be checked at once.
func signedBy(p producer.Producer, scheme interface {
	verify.Scheme
	Check() error
}) producer.Producer {
	p.Scheme = scheme
	p.Err = errors.Join(p.Err, scheme.Check())
	return p
}

// plainSecrets turns secrets that are used as text into a list, and finds those that were meant for somebody
// else: "whsec_" is the prefix of Stripe and of Standard Webhooks.
func plainSecrets(values []string) ([]verify.Secret, error) {
	var err error
	for _, v := range values {
		if strings.HasPrefix(v, "whsec_") || strings.HasPrefix(v, "whpk_") {
			err = errors.New("a secret begins like one of Stripe or Standard Webhooks; this vendor's do not")
		}
	}
	return verify.Secrets(values...), err
}

// refused is the error for an event that is not what it should be (event_malformed).
func refused(component string, err error) error {
	return &verify.Error{Code: verify.EventMalformed, Component: component, Err: err}
}

// valueAt returns the text of a member at the top of a JSON object, or nil where there is none or where the JSON is not valid.
func valueAt(text []byte, name string) []byte {
	checked, err := strictjson.Check(text, 256)
	if err != nil {
		return nil
	}
	value, err := strictjson.At(checked, []string{name})
	if err != nil {
		return nil
	}
	return value
}
