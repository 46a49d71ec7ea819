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
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/testdata"
	"github.com/eyelet-dev/eyelet/verify"
)

// producerBuild turns the settings of producers into producers.
type producerBuild struct {
	*Settings
	// testKeys allows keys that everybody knows, for the bundled deliveries.
	testKeys bool
	closers  []io.Closer // key sets that fetch
	wrong    usage.Errors
}

func (b *producerBuild) add(at usage.Place, hint, format string, args ...any) {
	b.wrong = append(b.wrong, &usage.Error{At: at, What: usage.OneLine(fmt.Sprintf(format, args...)), Hint: hint})
}

// addAll adds each of the mistakes that err joins.
func (b *producerBuild) addAll(at usage.Place, who string, err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the outermost join only
		for _, one := range many.Unwrap() {
			b.addAll(at, who, one)
		}
		return
	}
	b.add(at, "", "%s: %v", who, err)
}

// build returns the producers, whose mistakes are in b.wrong.
func (b *producerBuild) build(ctx context.Context) []producer.Producer {
	var all []producer.Producer
	if len(b.Producers) == 0 && len(b.wrong) == 0 {
		b.add(b.Node.at, "add one under producers: `eyelet keygen` prints a first one", "there are no producers")
	}
	for i := range b.Producers {
		p := &b.Producers[i]
		found := len(b.wrong)
		made, ok := b.one(ctx, p)
		if !ok {
			continue
		}
		b.common(p, &made)
		if len(b.wrong) == found {
			for _, err := range made.Check() {
				b.add(p.at, "", "%v", err)
			}
		}
		all = append(all, made)
	}
	return all
}

func (b *producerBuild) one(ctx context.Context, p *Producer) (made producer.Producer, ok bool) {
	switch {
	case p.Preset != "":
		made, ok = b.preset(p)
	case p.Scheme == "rfc9421":
		made, ok = b.rfc9421(ctx, p), true
	case p.Scheme == "hmac":
		made, ok = b.hmac(p), true
	}
	made.Name = p.Name
	return made, ok
}

func (b *producerBuild) preset(p *Producer) (producer.Producer, bool) {
	vendor, ok := preset.Find(p.Preset)
	if !ok {
		var names []string
		for _, known := range preset.All() {
			names = append(names, known.Name)
		}
		b.add(p.Node.place("preset"), usage.DidYouMean(p.Preset, names), "unknown preset %q", p.Preset)
		return producer.Producer{}, false
	}
	set := p.PresetSettings
	set.Name = p.Name
	if slices.Contains(vendor.Uses, "rate") {
		p.common.Rate.bare = false // requests per minute, as those senders count
		set.Rate = p.common.Rate.perMinute()
	}
	made := vendor.Open(set)
	for _, text := range set.Secrets {
		b.refuseTestSecret(p.at, p.Name, text)
	}
	b.addAll(p.at, fmt.Sprintf("producer %q", p.Name), made.Err)
	made.Err = nil
	return made, true
}

// refuseTestSecret refuses the secrets that are published with Eyelet.
func (b *producerBuild) refuseTestSecret(at usage.Place, name, text string) {
	if !b.testKeys && slices.Contains(testdata.Secrets(), text) {
		b.add(at, "make one of your own: eyelet keygen --alg hmac-sha256", "producer %q uses a secret of the test data, which everybody knows", name)
	}
}

// rfc9421 builds a producer of one's own: RFC 9421 signatures and the Idempotency-Key field.
func (b *producerBuild) rfc9421(ctx context.Context, p *Producer) producer.Producer {
	c := &p.RFC9421
	made := producer.Signed(p.Name, b.keys(ctx, p))
	made.AllowedIPs = c.AllowedIPs
	made.Nonce = choose(b, p, "nonce", c.Nonce, map[string]producer.NoncePolicy{
		"off": producer.NonceOff, "required": producer.NonceRequired, "unique": producer.NonceUnique,
	})
	scheme, ok := made.Scheme.(*verify.RFC9421)
	if !ok || scheme.Keys == nil {
		return made // what is wrong with the keys is noted
	}
	scheme.Label, scheme.Tag, scheme.Algs = c.Label, c.Tag, convert[verify.Alg](c.Algs)
	scheme.Coverage.Required = c.Require
	b.addAll(p.at, fmt.Sprintf("producer %q", p.Name), scheme.Check())
	return made
}

func convert[T ~string, S ~string](from []S) []T {
	var to []T
	for _, s := range from {
		to = append(to, T(s))
	}
	return to
}

// choose returns what the word stands for; the zero value when there is no word.
func choose[T any](b *producerBuild, p *Producer, setting, word string, words map[string]T) T {
	value, ok := words[word]
	if word != "" && !ok {
		var known []string
		for k := range words {
			known = append(known, k)
		}
		b.add(p.Node.place(setting), usage.DidYouMean(word, known), "%s is %q", setting, word)
	}
	return value
}

// keys returns the key set of the producer, or nil after it noted what is wrong.
func (b *producerBuild) keys(ctx context.Context, p *Producer) verify.KeySet {
	var sets []verify.KeySet
	found := len(b.wrong)
	for i := range p.RFC9421.Keys {
		if set := b.key(&p.RFC9421.Keys[i]); set != nil {
			sets = append(sets, set)
			b.refuseTestKeys(ctx, p.RFC9421.Keys[i].Node.at, set)
		}
	}
	if p.RFC9421.JWKSURL != "" {
		set, err := verify.NewJWKS(verify.JWKSConfig{URL: p.RFC9421.JWKSURL})
		if err != nil {
			b.add(p.Node.place("jwks_url"), "", "%v", err)
		} else {
			sets, b.closers = append(sets, set), append(b.closers, set)
		}
	}
	if len(b.wrong) > found {
		return nil
	}
	if len(sets) == 0 {
		b.add(p.at, "add keys: [{id: ..., alg: ..., public_key_file: ...}], or a jwks_url", "producer %q has no keys", p.Name)
		return nil
	}
	return verify.JoinKeys(sets...)
}

// key returns a set of the one key, which may be in a file that is read again when it changes.
func (b *producerBuild) key(k *Key) verify.KeySet {
	if k.ID == "" {
		b.add(k.Node.at, "signatures name it in their parameter keyid", "a key needs an id")
		return nil
	}
	alg := verify.Alg(k.Alg)
	if !slices.Contains(Algorithms(), k.Alg) {
		b.add(k.Node.place("alg"), usage.DidYouMean(k.Alg, Algorithms()), "key %q: unknown algorithm %q", k.ID, k.Alg)
		return nil
	}
	shared, written := alg == verify.HMACSHA256, 0
	for _, is := range []bool{k.Secret != "", k.PublicKey != "", k.PublicKeyFile != ""} {
		if is {
			written++
		}
	}
	switch {
	case written > 1:
		b.add(k.Node.at, "remove all but one", "key %q is written twice", k.ID)
	case shared && k.Secret == "":
		if k.Node.inner["secret"] == nil && k.Node.inner["secret_file"] == nil { // else it is noted already
			b.add(k.Node.at, "add secret or secret_file", "key %q: hmac-sha256 needs a secret", k.ID)
		}
	case !shared && k.PublicKey == "" && k.PublicKeyFile == "":
		b.add(k.Node.at, "add public_key_file, or public_key", "key %q: %s needs a public key", k.ID, alg)
	case k.PublicKeyFile != "":
		return b.keyFile(k, alg)
	default:
		return b.inlineKey(k, alg)
	}
	return nil
}

// Algorithms returns those that a key of the configuration can have.
func Algorithms() []string {
	return convert[string]([]verify.Alg{
		verify.Ed25519, verify.HMACSHA256, verify.ECDSAP256SHA256, verify.ECDSAP384SHA384, verify.RSAPSSSHA512, verify.RSAv15SHA256,
	})
}

func (b *producerBuild) keyFile(k *Key, alg verify.Alg) verify.KeySet {
	set, err := verify.OpenKeyFile(verify.KeyFile{Path: b.Path(k.PublicKeyFile), ID: k.ID, Alg: alg, Principal: k.Principal})
	if err != nil {
		what := usage.Cause(err)
		for range 2 { // the message names the file once
			what = strings.TrimPrefix(strings.TrimPrefix(what, "key file "+b.Path(k.PublicKeyFile)+": "), "key file: ")
		}
		b.add(k.Node.place("public_key_file"), keyFileHint(err), "key file %s: %s", k.PublicKeyFile, what)
		return nil
	}
	return set
}

func keyFileHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "the name is relative to the configuration file; `eyelet keygen` makes a key pair"
	}
	return "a key file holds a PEM block PUBLIC KEY or CERTIFICATE, or a JSON Web Key"
}

func (b *producerBuild) inlineKey(k *Key, alg verify.Alg) verify.KeySet {
	var made verify.Key
	var err error
	place := k.Node.place("public_key")
	if alg == verify.HMACSHA256 {
		place = k.Node.place("secret")
		made, err = verify.NewHMACKey(k.ID, []byte(k.Secret))
	} else {
		made, err = verify.ParsePublicKey(k.ID, alg, []byte(k.PublicKey))
	}
	if err != nil {
		b.add(place, "", "%v", err)
		return nil
	}
	made.Principal = k.Principal
	return verify.StaticKeys(made)
}

// refuseTestKeys refuses keys whose other half everybody has.
func (b *producerBuild) refuseTestKeys(ctx context.Context, at usage.Place, set verify.KeySet) {
	keys, err := set.Key(ctx, "")
	if err != nil || b.testKeys {
		return
	}
	for _, k := range keys {
		if verify.IsTestKey(k) || slices.Contains(bundledKeys(), k.Fingerprint()) {
			b.add(at, "make one of your own: eyelet keygen", "key %q is published for tests: everybody can sign with it", k.ID)
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

// hmac builds a producer from the description of its signatures.
func (b *producerBuild) hmac(p *Producer) producer.Producer {
	c := &p.hmac
	made := producer.Producer{Name: p.Name, Contract: producer.Webhook, StaleKnown: true, AllowedIPs: c.AllowedIPs}
	scheme := &verify.HMAC{
		Headers: c.Header, Separator: c.Separator, Entries: c.Pattern, Hash: verify.Hash(c.Hash), Hashes: convert[verify.Hash](c.Hashes),
		Encoding: verify.Encoding(cmp.Or(c.Encoding, string(verify.Hex))), SecretEncoding: verify.Encoding(c.SecretEncoding),
		Secrets: convert[verify.Secret](c.Secrets), TimestampHeaders: c.TimestampHeader, IDHeaders: c.IDHeader, Content: c.Template,
		URL: c.SignedURL,
	}
	if c.Secret != "" {
		scheme.Secrets = append(scheme.Secrets, verify.Secret(c.Secret))
	}
	for id, text := range c.Keys {
		if scheme.Keys == nil {
			scheme.Keys = map[string]verify.Secret{}
		}
		scheme.Keys[id] = verify.Secret(text)
	}
	for _, s := range scheme.Secrets {
		b.refuseTestSecret(p.at, p.Name, string(s))
	}
	scheme.TimestampUnit = choose(b, p, "timestamp_unit", c.TimestampUnit, map[string]time.Duration{"s": time.Second, "ms": time.Millisecond})
	made.SignsURL = strings.Contains(c.Template, "{url}")
	b.addAll(p.at, fmt.Sprintf("producer %q", p.Name), scheme.Check())
	made.Scheme = scheme
	made.Key = producer.BodyDigest()
	return made
}
