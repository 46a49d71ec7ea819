package producer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// ErrNoTenant is what [Tenants.Lookup] returns for a tenant that does not exist. Any other error
// means that its source is not available.
var ErrNoTenant = errors.New("there is no such tenant")

// Tenants are the secrets of the tenants of a producer, which are read at run time. Each tenant has
// the endpoint /webhooks/NAME/TENANT, and only its own secrets verify deliveries there. Its name is
// the principal of its events; after it was deleted, "~" and a number follow.
//
//	all := producer.Tenants{With: preset.Stripe, List: producer.TenantsIn("/etc/shop")}
//	shop := all.Producer()
//
// Set With, and either List or Lookup. The zero value is a producer without tenants.
type Tenants struct {
	// With returns the producer with the secrets of one tenant, as preset.Stripe does: its Scheme
	// and the handshakes are used. It must have no other secret or key.
	With func(secrets ...string) Producer
	// List returns the secrets of all tenants, of which any may match. It is called about every 25
	// seconds. An unknown tenant is refused without work. After an error the last list serves for
	// at most an hour; so it does if a list that had tenants is empty.
	List func(ctx context.Context) (map[string][]verify.Secret, error)
	// Lookup returns the secrets of one tenant, or ErrNoTenant, within 5 seconds. It is called for
	// a delivery to a tenant that is not cached, and before a cached one is 60 seconds old. Its
	// other errors are as those of List. At most 16 calls run at once.
	Lookup func(ctx context.Context, tenant string) ([]verify.Secret, error)

	make func(secrets ...string) Producer // with the other fields of the producer
}

// On reports whether the producer has tenants.
func (t Tenants) On() bool { return t.With != nil || t.List != nil || t.Lookup != nil }

// Producer returns the producer with these tenants. Its own secret is a random one.
func (t Tenants) Producer() Producer {
	if t.With == nil {
		return Producer{Tenants: t, Err: errors.New("tenants: With is missing")}
	}
	p := t.With(anySecret())
	p.Tenants = t
	return p
}

// anySecret returns a secret that can be read in every encoding.
func anySecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return hex.EncodeToString(secret)
}

// Of returns the producer with the secrets of one tenant, and with its defaults. It also returns
// what identifies the secrets, if what they sign would verify at another tenant with the same ones:
// the signature does not cover the URL. Producer must have had its defaults. An error quotes no
// secret.
//
//nolint:contextcheck // see CredentialsOf
func (t Tenants) Of(name string, secrets ...verify.Secret) (own Producer, shared []string, err error) {
	if !IsTenant(name) {
		return own, nil, errors.New("a name has small letters, digits, - and _, and neither sign is first")
	}
	if len(secrets) == 0 || len(secrets) > maxTenantSecrets {
		return own, nil, fmt.Errorf("it has %d secrets, want 1 to %d", len(secrets), maxTenantSecrets)
	}
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = string(s)
	}
	own = t.make(texts...)
	if scheme, ok := own.Scheme.(interface{ Check() error }); ok && own.Err == nil {
		own.Err = scheme.Check()
	}
	eachScheme(own.Scheme, func(s interface {
		verify.Scheme
		ShortSecrets() []string
	}) {
		for _, text := range s.ShortSecrets() {
			own.Err = errors.Join(own.Err, errors.New(text))
		}
	})
	if own.Err != nil {
		return own, nil, own.Err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, offer := range offersBesideURL(ended, own.Scheme) {
		shared = append(shared, offer.Fingerprint())
	}
	_, either := own.Scheme.(verify.Any)
	if _, offers := own.Scheme.(verify.Alternator); !either && !offers && !own.SignsURL {
		shared = texts
	}
	return own, shared, nil
}

// install makes producers of tenants as this one, which has no defaults yet.
func (t Tenants) install(p Producer) Producer {
	if t.With == nil || t.make != nil {
		return p
	}
	plain := p
	plain.Tenants = Tenants{}
	p.Tenants.make = func(secrets ...string) Producer {
		made, own := t.With(secrets...), plain
		own.Scheme, own.Err = made.Scheme, made.Err
		own.Challenge, own.UnsignedChallenge, own.Handshake = made.Challenge, made.UnsignedChallenge, made.Handshake
		return own.WithDefaults()
	}
	return p
}

// check refuses what verifies deliveries by anything but the secrets of a tenant.
func (t Tenants) check(p *Producer, m *mistakes) {
	if !t.On() {
		return
	}
	m.addIf(t.With == nil || (t.List == nil) == (t.Lookup == nil), "tenants: set With, and either List or Lookup")
	m.addIf(p.Source.On(), "tenants: reconcile reads one list, and cannot go with tenants")
	if t.With == nil || p.Scheme == nil {
		return
	}
	known := verify.CredentialsOf(p.Scheme)
	shared := known.Public || !t.ownSecrets(known.Known)
	if scheme, ok := p.Scheme.(verify.Binder); ok {
		shared = shared || len(scheme.Binds().Principals) > 1 || len(scheme.Binds().Unused) > 0
	}
	for _, part := range verify.Parts(p.Scheme) {
		switch part.(type) {
		case *verify.RFC9421, *verify.JWT, *verify.MutualTLS:
			shared = true
		}
	}
	m.addIf(shared, "tenants: deliveries must be verified by a secret of their tenant alone: an HMAC, a token or a "+
		"password, not by keys or a secret that tenants share")
}

// ownSecrets reports whether other secrets replace all of these, the fingerprints of a scheme.
func (t Tenants) ownSecrets(known []string) bool {
	other := verify.CredentialsOf(t.With(anySecret()).Scheme).Known
	return !slices.ContainsFunc(known, func(one string) bool { return slices.Contains(other, one) })
}

// The bounds of [TenantsIn], and of the secrets of a tenant.
const (
	maxTenants       = 100_000
	maxTenantFile    = 64 << 10 // bytes
	maxTenantSecrets = 16
)

var validTenant = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// IsTenant reports whether a text is the name of a tenant: 1 to 63 small letters, digits, "-" and
// "_", of which neither sign is first.
func IsTenant(name string) bool { return validTenant.MatchString(name) }

// TenantsIn returns a [Tenants.List] that reads a folder. The name of a file is the tenant, and
// each line of at most 64 KiB a secret. Names that begin with a dot are ignored. A file that cannot
// be read is a tenant without a secret.
func TenantsIn(dir string) func(context.Context) (map[string][]verify.Secret, error) {
	return func(ctx context.Context) (map[string][]verify.Secret, error) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		if len(entries) > maxTenants {
			return nil, fmt.Errorf("%s has %d files, more than %d", dir, len(entries), maxTenants)
		}
		all := make(map[string][]verify.Secret, len(entries))
		for _, e := range entries {
			if name := e.Name(); !strings.HasPrefix(name, ".") {
				secrets, err := secretsIn(filepath.Join(dir, name))
				if !errors.Is(err, os.ErrNotExist) { // it is not one that was removed meanwhile
					all[name] = secrets
				}
			}
		}
		return all, ctx.Err()
	}
}

// secretsIn returns the lines of a file.
func secretsIn(path string) (secrets []verify.Secret, err error) {
	info, err := os.Stat(path) // follows links, as to the files of a secret in Kubernetes
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(f, maxTenantFile+1))
	if err != nil || len(text) > maxTenantFile {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			secrets = append(secrets, verify.Secret(line))
		}
	}
	return secrets, nil
}
