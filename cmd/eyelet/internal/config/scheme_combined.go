package config

import (
	"context"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// combinedSettings are those of producers that several schemes authenticate: scheme all or any.
type combinedSettings struct {
	Schemes []schemeEntry `conf:"schemes"`
}

// schemeEntry is one scheme of several: a producer with nothing but its scheme.
type schemeEntry struct{ of Producer }

func (e *schemeEntry) DecodeNode(d *conf.Decoder, n *conf.Node, path string) {
	p := &e.of
	p.Node, p.at, p.Scheme = n, n.At, n.Scalar("scheme")
	if !d.Want(n, conf.Mapping, path) {
		return
	}
	switch {
	case n.Member("preset") != nil:
		d.Errs.Add(n.Place("preset"), "write its scheme", "%s: a preset cannot be one of several schemes", path)
	case p.Scheme == "any":
		d.Errs.Add(n.Place("scheme"), "scheme any may have scheme all in it", "%s: scheme any is within another", path)
	case newSettings[p.Scheme] == nil:
		hint := usage.DidYouMean(p.Scheme, schemeNames())
		d.Errs.Add(n.Place("scheme"), hint, "%s: unknown scheme %q", path, p.Scheme)
	default:
		p.decodeScheme(d, n, path)
	}
}

// build returns a producer with the defaults of the first scheme that signs content, else of the
// first.
func (c *combinedSettings) build(ctx context.Context, b *producerBuilder, p *Producer) producer.Producer {
	var all verify.All
	var made producer.Producer
	found, nonce := len(b.errs), producer.NonceOff
	for i := range c.Schemes {
		e := &c.Schemes[i].of
		if e.settings == nil {
			continue // reported already
		}
		e.Name = p.Name
		one := e.settings.build(ctx, b, e)
		if one.Payload != nil || one.Audience != nil {
			b.errs.Add(e.at, "write them in the only scheme of another producer",
				"producer %q: a scheme of several has audience or in_body", p.Name)
		}
		if i == 0 || made.Contract != producer.Webhook && one.Contract == producer.Webhook {
			made = one
		}
		all, nonce = append(all, one.Scheme), max(nonce, one.Nonce)
	}
	c.check(b, p, nonce)
	if len(b.errs) > found || len(all) != len(c.Schemes) {
		return producer.Producer{}
	}
	made.Scheme, made.Nonce = all, nonce
	if p.Scheme == "any" {
		made.Scheme = verify.Any(all)
	}
	return made
}

func (c *combinedSettings) check(b *producerBuilder, p *Producer, nonce producer.NoncePolicy) {
	switch {
	case len(c.Schemes) < 2:
		b.errs.Add(p.at, "write schemes: [{scheme: basic, ...}, {scheme: hmac, ...}]",
			"producer %q: scheme %s needs at least two schemes", p.Name, p.Scheme)
	case p.Scheme == "any" && len(c.Schemes) > 2:
		b.errs.Add(p.at, "leave the old one and the new one: each costs a verification",
			"producer %q: scheme any takes two schemes", p.Name)
	case p.Scheme == "any" && nonce != producer.NonceOff:
		b.errs.Add(p.at, "use such a scheme alone, or in scheme: all",
			"producer %q: one scheme of any has a nonce, and the other has none", p.Name)
	}
}
