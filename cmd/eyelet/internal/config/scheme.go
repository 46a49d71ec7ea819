package config

import (
	"context"
	"maps"
	"slices"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// schemeSettings are the settings of one scheme. Those of another are unknown, so none is silently
// ignored.
type schemeSettings interface {
	// build returns the producer, after reporting the errors of its settings.
	build(ctx context.Context, b *producerBuilder, p *Producer) producer.Producer
}

// newSettings returns the empty settings of each scheme by its name.
var newSettings = map[string]func() schemeSettings{
	"rfc9421": func() schemeSettings { return &rfc9421Settings{} },
	"hmac":    func() schemeSettings { return &hmacSettings{} },
	"ed25519": func() schemeSettings { return &publicKeySettings{} },
	"ecdsa":   func() schemeSettings { return &publicKeySettings{} },
	"jwt":     func() schemeSettings { return &jwtSettings{} },
	"mtls":    func() schemeSettings { return &mtlsSettings{} },
	"bearer":  func() schemeSettings { return &bearerSettings{} },
	"basic":   func() schemeSettings { return &basicSettings{} },
	"static":  func() schemeSettings { return &staticSettings{} },
	"all":     func() schemeSettings { return &combinedSettings{} },
	"any":     func() schemeSettings { return &combinedSettings{} },
}

func schemeNames() []string { return slices.Sorted(maps.Keys(newSettings)) }

// bearerSettings are those of callers with a fixed bearer token (RFC 6750).
type bearerSettings struct {
	Secrets []verify.Secret `conf:"secret"`
	Query   string          `conf:"query"` // the parameter that may carry the token instead
}

func (c *bearerSettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	return c.with(b, p, c.Secrets)
}

func (c *bearerSettings) with(b *producerBuilder, p *Producer, secrets []verify.Secret) producer.Producer {
	scheme := &verify.Static{In: verify.InBearer, Name: c.Query, Secrets: b.secrets(p, secrets)}
	return b.api(p, scheme)
}

// basicSettings are those of callers with a user name and a password (RFC 7617).
type basicSettings struct {
	Username  string          `conf:"username"`
	Passwords []verify.Secret `conf:"password"`
}

func (c *basicSettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	return c.with(b, p, c.Passwords)
}

func (c *basicSettings) with(b *producerBuilder, p *Producer, passwords []verify.Secret) producer.Producer {
	if c.Username == "" {
		b.errs.Add(p.at, "add username: NAME", "producer %q has no user name", p.Name)
	}
	scheme := &verify.Static{In: verify.InBasic, Username: c.Username, Secrets: b.secrets(p, passwords)}
	return b.api(p, scheme)
}

// staticSettings are those of callers with a fixed value in a header field or query parameter.
type staticSettings struct {
	Header  string          `conf:"header"`
	Query   string          `conf:"query"`
	Secrets []verify.Secret `conf:"secret"`
}

func (c *staticSettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	return c.with(b, p, c.Secrets)
}

func (c *staticSettings) with(b *producerBuilder, p *Producer, secrets []verify.Secret) producer.Producer {
	scheme := &verify.Static{In: verify.InHeader, Name: c.Header, Secrets: b.secrets(p, secrets)}
	switch {
	case (c.Header == "") == (c.Query == ""):
		b.errs.Add(p.at, "write header: X-Api-Key, or query: key",
			"producer %q needs either the header field or the query parameter of its secret", p.Name)
		return producer.Producer{}
	case c.Query != "":
		scheme.In, scheme.Name = verify.InQuery, c.Query
	}
	return b.api(p, scheme)
}

// mtlsSettings are those of callers with a client certificate.
type mtlsSettings struct {
	verify.MutualTLS
}

func (c *mtlsSettings) build(_ context.Context, b *producerBuilder, p *Producer) producer.Producer {
	scheme := c.MutualTLS
	switch {
	case c.ProxyHeader != "":
		if len(b.TrustedProxies) == 0 {
			b.errs.Add(p.Node.Place("header"), "name the proxy in trusted_proxies",
				"header without trusted_proxies: any client could write it")
		}
		scheme.Trusted = fromProxy(b.TrustedProxies)
	case b.TLS == nil:
		b.errs.Add(p.at, "add tls: {cert_file: ..., key_file: ..., ca_file: ...}, or header",
			"producer %q needs client certificates, and there is no tls", p.Name)
	case b.TLS.ClientCAFile == "" && len(c.Names) > 0:
		b.errs.Add(p.Node.Place("names"), "add tls: {ca_file: ...}, or write fingerprints",
			"names of certificates count only where their authority is checked")
	}
	return b.api(p, &scheme)
}

// api returns a producer whose deliveries follow the Idempotency-Key draft, as those of
// [producer.Signed].
func (b *producerBuilder) api(p *Producer, scheme interface {
	verify.Scheme
	Check() error
}) producer.Producer {
	b.addAll(p, scheme.Check())
	return producer.Producer{
		Name: p.Name, Scheme: scheme, Contract: producer.API,
		Key: producer.IdempotencyKey{}, KeyRequired: true, Type: producer.JSON("type"),
	}
}

// secrets refuses published secrets, and returns all.
func (b *producerBuilder) secrets(p *Producer, all []verify.Secret) []verify.Secret {
	for _, text := range all {
		b.refuseTestSecret(p, string(text))
	}
	return all
}
