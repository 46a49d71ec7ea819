package config

import (
	"time"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// Producer is a producer and its endpoint. Its settings depend on its preset or scheme.
type Producer struct {
	Node *conf.Node
	Name string
	at   usage.Place // of the name

	Preset         string
	Scheme         string // a name in newSettings
	PresetSettings preset.Settings
	Own            preset.Preset  // zero if the preset is a bundled one
	settings       schemeSettings // of the scheme
	common         commonSettings
}

// Vendor returns the preset; ok is false without one that is known.
func (p *Producer) Vendor() (vendor preset.Preset, ok bool) {
	return FindPreset(p.Preset, []preset.Preset{p.Own})
}

// SetName sets the name and where it was written.
func (p *Producer) SetName(name string, at usage.Place) { p.Name, p.at = name, at }

type kindSettings struct {
	Preset string `conf:"preset"`
	Scheme string `conf:"scheme"`
}

// commonSettings are those of every producer: the fields of a producer, and those that are written
// in another way. Defaults are the preset's, else package producer's.
type commonSettings struct {
	producer.Producer
	Strict             bool     `conf:"strict"`              // the Idempotency-Key must be quoted
	AcceptedStatus     int      `conf:"accepted"`            // of an accepted event
	AcceptedBody       string   `conf:"accepted_body"`       // none, or the body
	FingerprintOf      []string `conf:"fingerprint"`         // extractors, or none
	RememberSignatures string   `conf:"remember_signatures"` // off: nothing beyond the window
	Verify             struct {
		MonitorUntil time.Time `conf:"monitor_until"` // accepts what does not verify
	} `conf:"verify"`

	Tenants *tenantsSettings `conf:"tenants"`
}

// rfc9421Settings are those of a producer that signs with HTTP Message Signatures.
type rfc9421Settings struct {
	verify.RFC9421
	Keys        []Key          `conf:"keys"`
	JWKSURL     string         `conf:"jwks_url"`
	Directories []string       `conf:"directories"`        // of agents, in place of keys
	LegacyAgent bool           `conf:"legacy_agent"`       // accepts a Signature-Agent of one string
	Agent       *agentSettings `conf:"agent"`              // in another field, in place of directories
	Algs        []string       `conf:"alg,nonempty"`       // default to those of the profile
	Covers      []string       `conf:"covers"`             // what the sender signs
	Time        string         `conf:"timestamp"`          // created, header:NAME or none
	Encoding    string         `conf:"encoding"`           // base64 or base64url
	ECDSA       string         `conf:"signature_encoding"` // raw or der
	Nonce       string         `conf:"nonce"`              // off, required or unique
	Audience    *struct {
		From string `conf:"from"` // extractor
		Is   string `conf:"is"`
	} `conf:"audience"`
}

// agentSettings say where requests name their agent, in the terms of verify.DirectoriesConfig.
type agentSettings struct {
	Field  string   `conf:"header"`
	Member string   `conf:"member"`
	Allow  []string `conf:"allow"` // complete URLs of keys
}

// Key is a key of scheme rfc9421.
type Key struct {
	Node          *conf.Node
	ID            string        `conf:"id"`
	Alg           string        `conf:"alg"`
	PublicKey     string        `conf:"public_key"`
	PublicKeyFile string        `conf:"public_key_file"`
	Secret        verify.Secret `conf:"secret"`
	Principal     string        `conf:"principal"`
}

// contentSettings describe signed content.
type contentSettings struct {
	verify.HMAC
	Signature producer.Extractor `conf:"signature"` // instead of header
	Timestamp producer.Extractor `conf:"timestamp"` // the same for the time
}

// hmacSettings describe the HMAC of a producer without a preset.
type hmacSettings struct {
	contentSettings
}

// DecodeNode reads the common settings and those of the producer's scheme or preset. Settings of
// another scheme are unknown, so none is silently ignored.
func (p *Producer) DecodeNode(d *conf.Decoder, n *conf.Node, path string) {
	p.Node = n
	if !d.Want(n, conf.Mapping, path) {
		return
	}
	p.Preset, p.Scheme = n.Scalar("preset"), n.Scalar("scheme")
	if n.Member("name") != nil {
		d.Errs.Add(n.Place("name"), "the name is the word before the settings", "a producer has no setting \"name\"")
		return
	}
	switch {
	case p.Preset != "" && p.Scheme != "":
		d.Errs.Add(n.Place("scheme"), "remove one of them", "%s has both a preset and a scheme", path)
	case p.Preset != "":
		p.decodePreset(d, n, path)
	case newSettings[p.Scheme] != nil:
		p.decodeScheme(d, n, path, &p.common)
	case p.Scheme != "":
		hint := usage.DidYouMean(p.Scheme, schemeNames())
		d.Errs.Add(n.Place("scheme"), hint, "unknown scheme %q", p.Scheme)
	default:
		p.reportMissingKind(d, n, path)
	}
}

// decodeScheme reads the settings of the producer's scheme, and those of more structs.
func (p *Producer) decodeScheme(d *conf.Decoder, n *conf.Node, path string, more ...any) {
	p.settings = newSettings[p.Scheme]()
	d.Objects(n, path, append([]any{&kindSettings{}, p.settings}, more...)...)
}

// Keys returns the keys of scheme rfc9421, as they are written.
func (p *Producer) Keys() []Key {
	if signed, ok := p.settings.(*rfc9421Settings); ok {
		return signed.Keys
	}
	return nil
}

// decodePreset reads the settings of any preset, which refuses those that it does not use.
func (p *Producer) decodePreset(d *conf.Decoder, n *conf.Node, path string) {
	d.Objects(n, path, &kindSettings{}, &p.PresetSettings, &p.common)
	p.PresetSettings.AllowedIPs, p.PresetSettings.Rate = p.common.AllowedIPs, p.common.Rate
}

// reportMissingKind reports misspelt settings, one of which may be the scheme or preset. If
// there are none, it reports that both are missing.
func (p *Producer) reportMissingKind(d *conf.Decoder, n *conf.Node, path string) {
	all := []any{&kindSettings{}, &commonSettings{}, &preset.Settings{}}
	for _, empty := range newSettings {
		all = append(all, empty())
	}
	found := len(d.Errs)
	d.ReportUnknown(n, path, all...)
	if len(d.Errs) == found {
		d.Errs.Add(p.at, "write scheme: rfc9421 with keys, or preset: github with secret, ...",
			"%s has neither a scheme nor a preset", path)
	}
}
