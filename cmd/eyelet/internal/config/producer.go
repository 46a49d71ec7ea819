package config

import (
	"context"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/testdata"
	"github.com/eyelet-dev/eyelet/verify"
)

// producerBuilder turns the settings of producers into producers.
type producerBuilder struct {
	*Settings
	testKeys bool        // accept published keys
	closers  []io.Closer // key sets that fetch
	// fetched are the key sets that fetch, and previous those of the plan that is replaced.
	fetched, previous map[string]*sharedKeys
	errs              usage.Errors
}

// addAll adds each of the errors that err joins.
func (b *producerBuilder) addAll(p *Producer, err error) {
	if err == nil {
		return
	}
	for one := range parts(err) {
		hint := ""
		if strings.HasSuffix(one.Error(), "none is set") {
			hint = `write a variable, as in secret: "${NAME}", or secret_file: FILE`
		}
		b.errs.Add(p.at, hint, "producer %q: %v", p.Name, one)
	}
}

func (b *producerBuilder) build(ctx context.Context) []producer.Producer {
	var all []producer.Producer
	if len(b.Producers) == 0 && b.Node.Member("producers").IsNone() {
		b.errs.Add(b.Node.At, "add one under producers: `eyelet keygen` prints a first one", "there are no producers")
	}
	for i := range b.Producers {
		p := &b.Producers[i]
		if !b.readable(p.Node) {
			b.findPreset(p)
			continue
		}
		found := len(b.errs)
		made, ok := b.one(ctx, p)
		if !ok {
			continue
		}
		b.applyCommon(p, &made)
		if len(b.errs) == found {
			for _, err := range made.Check() {
				b.errs.Add(p.at, "", "%v", err)
			}
		}
		all = append(all, made)
	}
	producer.PinURLs(all) //nolint:contextcheck // it asks nobody
	return all
}

func (b *producerBuilder) one(ctx context.Context, p *Producer) (made producer.Producer, ok bool) {
	switch {
	case p.common.Tenants != nil:
		made, ok = p.tenants(b)
	case p.Preset != "":
		made, ok = b.preset(p)
	case p.settings != nil:
		made, ok = p.settings.build(ctx, b, p), true
	}
	made.Name = p.Name
	return made, ok
}

// findPreset returns the preset of a producer, if it names one. An unknown one is an error.
func (b *producerBuilder) findPreset(p *Producer) (preset.Preset, bool) {
	vendor, ok := p.Vendor()
	if !ok && p.Preset != "" {
		var names []string
		for _, known := range slices.Concat(preset.All(), b.OwnPresets) {
			names = append(names, known.Name)
		}
		b.errs.Add(p.Node.Place("preset"), usage.DidYouMean(p.Preset, names), "unknown preset %q", p.Preset)
	}
	return vendor, ok
}

func (b *producerBuilder) preset(p *Producer) (producer.Producer, bool) {
	vendor, ok := b.findPreset(p)
	if !ok {
		return producer.Producer{}, false
	}
	set := p.PresetSettings
	set.Name = p.Name
	made := vendor.Open(set)
	for _, text := range slices.AppendSeq(slices.Clone(set.Secrets), maps.Values(set.Keys)) {
		b.refuseTestSecret(p, text)
	}
	b.addAll(p, made.Err)
	made.Err = nil
	return made, true
}

// refuseTestSecret refuses the secrets of the test data, which are published.
func (b *producerBuilder) refuseTestSecret(p *Producer, text string) {
	if !b.testKeys && slices.Contains(append(testdata.Secrets(), testdata.PublicKeys()...), strings.TrimSpace(text)) {
		b.errs.Add(p.at, "make one of your own: eyelet keygen --alg hmac-sha256",
			"producer %q uses a published key of the test data", p.Name)
	}
}

// build returns a producer with HTTP Message Signatures and the Idempotency-Key field.
func (c *rfc9421Settings) build(ctx context.Context, b *producerBuilder, p *Producer) producer.Producer {
	made := producer.Signed(p.Name, b.keys(ctx, p, c))
	if a := c.Audience; a != nil {
		made.Audience = &producer.Audience{From: b.extractor(p, "audience", a.From), Is: a.Is}
	}
	made.Nonce = choose(b, p, "nonce", c.Nonce, map[string]producer.NoncePolicy{
		"off": producer.NonceOff, "required": producer.NonceRequired, "unique": producer.NonceUnique,
	})
	scheme, ok := made.Scheme.(*verify.RFC9421)
	if !ok || scheme.Keys == nil {
		return made // the errors of the keys are reported already
	}
	conf.Overlay(reflect.ValueOf(scheme).Elem(), reflect.ValueOf(&c.RFC9421).Elem(), p.Node)
	made.Tolerance.Past = c.MaxAge
	if len(c.Keys) == 1 && c.JWKSURL == "" {
		scheme.BoundKey = c.Keys[0].ID
	}
	made.QueryScope = c.cover(&scheme.Coverage)
	c.setTime(b, p, scheme)
	scheme.Encoding = choose(b, p, "encoding", c.Encoding,
		map[string]verify.Encoding{"base64": verify.Base64, "base64url": verify.Base64URL})
	scheme.DER = choose(b, p, "signature_encoding", c.ECDSA, map[string]bool{"raw": false, "der": true})
	b.addAll(p, scheme.Check())
	return made
}

// cover sets what signatures must cover, and reports whether they may cover the query.
func (c *rfc9421Settings) cover(coverage *verify.Coverage) (query bool) {
	has := func(name string) bool { return slices.Contains(c.Covers, name) }
	query = len(c.Covers) == 0 && c.Audience == nil || has("@target-uri") || has("@path") && has("@query")
	for _, name := range c.Covers {
		if name, present := strings.CutSuffix(name, "?"); present {
			coverage.Consumed = append(coverage.Consumed, name)
		} else {
			coverage.Required = append(coverage.Required, name)
		}
	}
	return query
}

// setTime sets where the time of signing is.
func (c *rfc9421Settings) setTime(b *producerBuilder, p *Producer, scheme *verify.RFC9421) {
	field, header := strings.CutPrefix(c.Time, "header:")
	if header && field != "" {
		scheme.TimestampHeader = field
		return
	}
	scheme.NoTime = choose(b, p, "timestamp", c.Time,
		map[string]bool{"created": false, "none": true, "header:NAME": false})
	if scheme.TimestampUnit = verify.Seconds; !p.Node.Member("timestamp_unit").IsNone() {
		b.errs.Add(p.Node.Place("timestamp_unit"), "write timestamp: header:NAME", "timestamp_unit without a field")
	}
}

// build returns a producer from the description of its HMAC.
func (c *hmacSettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	return c.with(b, p, c.Secrets)
}

func (c *hmacSettings) with(b *producerBuilder, p *Producer, secrets []verify.Secret) producer.Producer {
	scheme := c.describe(b, p)
	scheme.Secrets = b.secrets(p, secrets)
	return c.finish(b, p, scheme)
}

// describe returns the scheme as it is written.
func (c *contentSettings) describe(b *producerBuilder, p *Producer) *verify.HMAC {
	scheme := &verify.HMAC{Encoding: verify.Hex}
	conf.Overlay(reflect.ValueOf(scheme).Elem(), reflect.ValueOf(&c.HMAC).Elem(), p.Node)
	return scheme
}

// finish returns the producer after reporting the errors of the complete scheme.
func (c *contentSettings) finish(b *producerBuilder, p *Producer, scheme *verify.HMAC) producer.Producer {
	made := producer.Producer{
		Name: p.Name, Contract: producer.Webhook, StaleKnown: true, Scheme: scheme,
		SignsURL: strings.Contains(c.Content, "{url}"), Key: producer.BodyDigest(),
	}
	if c.Signature == nil && c.Timestamp == nil {
		b.addAll(p, scheme.Check())
		return made
	}
	if c.URL != "" || c.Malleable {
		b.errs.Add(p.Node.Place("signature"), "leave out signed_url and malleable",
			"a signature in the delivery signs neither its URL nor its body")
	}
	scheme.Content, scheme.URL = "", ""
	embedded := &producer.Embedded{
		Signature: c.Signature, Timestamp: c.Timestamp, Content: c.Content, HMAC: scheme,
	}
	b.addAll(p, embedded.Check())
	made.Scheme, made.Nonce = embedded, producer.NonceUnique
	return made
}

func convert[T ~string, S ~string](from []S) []T {
	var to []T
	for _, s := range from {
		to = append(to, T(s))
	}
	return to
}

// choose returns the value of a word. An empty word is the zero value, an unknown word an error.
func choose[T any](b *producerBuilder, p *Producer, setting, word string, words map[string]T) T {
	value, ok := words[word]
	if word != "" && !ok {
		hint := usage.DidYouMean(word, slices.Collect(maps.Keys(words)))
		b.errs.Add(p.Node.Place(setting), hint, "%s is %q", setting, word)
	}
	return value
}
