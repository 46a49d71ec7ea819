package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/testdata"
	"github.com/eyelet-dev/eyelet/verify"
)

// keys returns the key set of the producer, or nil after reporting errors.
func (b *producerBuilder) keys(ctx context.Context, p *Producer, c *rfc9421Settings) verify.KeySet {
	switch {
	case c.Agent != nil:
		return b.agents(p, c.Agent)
	case p.Node.Member("directories") != nil:
		return b.published(p, "directories", "list origins: [https://bot.example, ...]",
			verify.DirectoriesConfig{URLs: c.Directories, LegacyAgent: c.LegacyAgent})
	}
	if c.LegacyAgent {
		b.errs.Add(p.Node.Place("legacy_agent"), "remove it", "legacy_agent has no meaning without directories")
	}
	var sets []verify.KeySet
	found := len(b.errs)
	for i := range c.Keys {
		k := &c.Keys[i]
		if set := b.key(k); set != nil {
			sets = append(sets, set)
			b.refuseTestKeys(ctx, k.Node.At, set)
		}
	}
	if address := c.JWKSURL; address != "" {
		set, err := b.jwks(address)
		if err != nil {
			b.errs.Add(p.Node.Place("jwks_url"), "", "%v", err)
		} else {
			sets = append(sets, set)
		}
	}
	if len(b.errs) > found {
		return nil
	}
	if len(sets) == 0 {
		b.errs.Add(p.at, "add keys: [{id: ..., alg: ..., public_key_file: ...}], a jwks_url, directories, or agent",
			"producer %q has no keys", p.Name)
		return nil
	}
	return verify.JoinKeys(sets...)
}

// agents returns the keys at the complete URLs that a field of requests names, or nil after
// reporting errors.
func (b *producerBuilder) agents(p *Producer, a *agentSettings) verify.KeySet {
	for _, other := range []string{"directories", "legacy_agent"} {
		if p.Node.Member(other) != nil {
			b.errs.Add(p.Node.Place(other), "use another producer for it", "%s and agent exclude each other", other)
		}
	}
	if a.Field == "" || strings.EqualFold(a.Field, "Signature-Agent") {
		b.errs.Add(p.Node.Place("agent"), "write header: UCP-Agent; Signature-Agent is that of directories",
			"agent names no header")
		return nil
	}
	return b.published(p, "agent", "write agent: {header: NAME, member: NAME, allow: [https://HOST/PATH, ...]}",
		verify.DirectoriesConfig{URLs: a.Allow, Field: a.Field, Member: a.Member})
}

// published returns the keys that agents publish, or nil after reporting errors.
func (b *producerBuilder) published(p *Producer, setting, hint string, cfg verify.DirectoriesConfig) verify.KeySet {
	for _, other := range []string{"keys", "jwks_url"} {
		if p.Node.Member(other) != nil {
			b.errs.Add(p.Node.Place(other), "use another producer for it",
				"%s and %s exclude each other: agents are known by what they publish", other, setting)
		}
	}
	from := fmt.Sprintf("directories %+v", cfg)
	set, err := fetch(b, from, func() (*verify.Directories, error) { return verify.NewDirectories(cfg) })
	if err != nil {
		b.errs.Add(p.Node.Place(setting), hint, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	return set
}

// sharedKeys are keys that are fetched, which the plans before and after a reload share.
type sharedKeys struct {
	io.Closer
	users atomic.Int32
}

// Close closes the keys if no other plan uses them.
func (k *sharedKeys) Close() error {
	if k.users.Add(-1) > 0 {
		return nil
	}
	return k.Closer.Close()
}

// fetch returns the keys that an earlier producer or the plan before have from the same place, else
// opens them.
func fetch[T io.Closer](b *producerBuilder, from string, open func() (T, error)) (T, error) {
	k := cmp.Or(b.fetched[from], b.previous[from])
	if k == nil {
		set, err := open()
		if err != nil {
			return set, err
		}
		k = &sharedKeys{Closer: set}
	}
	k.users.Add(1)
	b.fetched[from], b.closers = k, append(b.closers, k)
	return k.Closer.(T), nil
}

// jwks returns the JSON Web Key Set at an address.
func (b *producerBuilder) jwks(address string) (*verify.JWKS, error) {
	return fetch(b, "jwks "+address, func() (*verify.JWKS, error) {
		return verify.NewJWKS(verify.JWKSConfig{URL: address})
	})
}

// Algorithms returns those that a key of the configuration can have.
func Algorithms() []string {
	return convert[string]([]verify.Alg{
		verify.Ed25519, verify.HMACSHA256, verify.ECDSAP256SHA256, verify.ECDSAP384SHA384,
		verify.RSAPSSSHA512, verify.RSAv15SHA256,
	})
}

// key returns a set of one key, or nil after reporting errors. A changed key file is read again.
func (b *producerBuilder) key(k *Key) verify.KeySet {
	if k.ID == "" {
		b.errs.Add(k.Node.At, "signatures name it in their parameter keyid", "a key needs an id")
		return nil
	}
	alg := verify.Alg(k.Alg)
	if !slices.Contains(Algorithms(), k.Alg) {
		hint := usage.DidYouMean(k.Alg, Algorithms())
		b.errs.Add(k.Node.Place("alg"), hint, "key %q: unknown algorithm %q", k.ID, k.Alg)
		return nil
	}
	shared, forms := alg == verify.HMACSHA256, 0
	for _, set := range []bool{k.Secret != "", k.PublicKey != "", k.PublicKeyFile != ""} {
		if set {
			forms++
		}
	}
	switch {
	case forms > 1:
		b.errs.Add(k.Node.At, "remove all but one", "key %q is written twice", k.ID)
	case shared && k.Secret == "":
		if k.Node.Member("secret") == nil && k.Node.Member("secret_file") == nil { // else reported already
			b.errs.Add(k.Node.At, "add secret or secret_file", "key %q: hmac-sha256 needs a secret", k.ID)
		}
	case !shared && k.PublicKey == "" && k.PublicKeyFile == "":
		b.errs.Add(k.Node.At, "add public_key_file, or public_key", "key %q: %s needs a public key", k.ID, alg)
	case k.PublicKeyFile != "":
		return b.keyFile(k, alg)
	default:
		return b.inlineKey(k, alg)
	}
	return nil
}

func (b *producerBuilder) keyFile(k *Key, alg verify.Alg) verify.KeySet {
	path := b.Path(k.PublicKeyFile)
	set, err := verify.OpenKeyFile(verify.KeyFile{Path: path, ID: k.ID, Alg: alg, Principal: k.Principal})
	if err == nil {
		return set
	}
	what := usage.Cause(err)
	for range 2 { // name the file once
		what = strings.TrimPrefix(strings.TrimPrefix(what, "key file "+path+": "), "key file: ")
	}
	hint := "a key file holds a PEM block PUBLIC KEY or CERTIFICATE, or a JSON Web Key"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "the name is relative to the configuration file; `eyelet keygen` makes a key pair"
	}
	b.errs.Add(k.Node.Place("public_key_file"), hint, "key file %s: %s", k.PublicKeyFile, what)
	return nil
}

func (b *producerBuilder) inlineKey(k *Key, alg verify.Alg) verify.KeySet {
	var made verify.Key
	var err error
	setting := "public_key"
	if alg == verify.HMACSHA256 {
		setting = "secret"
		made, err = verify.NewHMACKey(k.ID, []byte(k.Secret))
	} else {
		made, err = verify.ParsePublicKey(k.ID, alg, []byte(k.PublicKey))
	}
	if err != nil {
		b.errs.Add(k.Node.Place(setting), "", "%v", err)
		return nil
	}
	made.Principal = k.Principal
	return verify.StaticKeys(made)
}

// refuseTestKeys refuses keys whose private half is published.
func (b *producerBuilder) refuseTestKeys(ctx context.Context, at usage.Place, set verify.KeySet) {
	keys, err := set.Key(ctx, "")
	if err != nil || b.testKeys {
		return
	}
	for _, k := range keys {
		if verify.IsTestKey(k) || slices.Contains(bundledKeys(), k.Fingerprint()) {
			b.errs.Add(at, "make one of your own: eyelet keygen",
				"key %q is published for tests: anyone can sign with it", k.ID)
		}
	}
}

// bundledKeys returns the fingerprints of the keys of the test data.
func bundledKeys() []string {
	var all []string
	for _, text := range testdata.PublicKeys() {
		if k, err := verify.ParsePublicKey("bundled", "", []byte(text)); err == nil {
			all = append(all, k.Fingerprint())
		}
	}
	for _, text := range testdata.Secrets() {
		if k, err := verify.NewHMACKey("bundled", []byte(text)); err == nil {
			all = append(all, k.Fingerprint())
		}
	}
	return all
}
