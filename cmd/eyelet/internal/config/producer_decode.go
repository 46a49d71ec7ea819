package config

import (
	"reflect"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// decodeNode reads the settings of the producer's kind: those of its scheme or its preset, and the common ones.
// A setting of another kind is as unknown as a misspelt one, so that none is silently without effect.
func (p *Producer) decodeNode(d *decoder, n *node, path string) {
	p.Node = n
	if !d.want(n, mapping, path) {
		return
	}
	head := headConfig{Preset: n.scalar("preset"), Scheme: n.scalar("scheme")}
	p.Preset, p.Scheme = head.Preset, head.Scheme
	if n.inner["name"] != nil {
		d.errs.Add(n.where["name"], "the name is the word before the settings", "a producer has no setting \"name\"")
		return
	}
	switch {
	case head.Preset != "" && head.Scheme != "":
		d.errs.Add(n.where["scheme"], "remove one of them", "%s has both a preset and a scheme", path)
	case head.Preset != "":
		p.decodePreset(d, n, path)
	case head.Scheme == "rfc9421":
		into := struct {
			headConfig
			rfc9421Config
			commonConfig
		}{}
		d.object(n, reflect.ValueOf(&into).Elem(), path)
		p.RFC9421, p.common = into.rfc9421Config, into.commonConfig
	case head.Scheme == "hmac":
		into := struct {
			headConfig
			hmacConfig
			commonConfig
		}{}
		d.object(n, reflect.ValueOf(&into).Elem(), path)
		p.hmac, p.common = into.hmacConfig, into.commonConfig
	case head.Scheme != "":
		d.errs.Add(n.where["scheme"], usage.DidYouMean(head.Scheme, []string{"rfc9421", "hmac"}), "unknown scheme %q", head.Scheme)
	default:
		p.decodeNothing(d, n, path)
	}
}

// decodePreset reads the settings of a preset. Which of them the preset understands is its own to say.
func (p *Producer) decodePreset(d *decoder, n *node, path string) {
	into := struct {
		headConfig
		preset.Settings
		Secret       string `conf:"secret,secret"`
		commonConfig        // its rate stands for the preset's, which is made of it
	}{}
	d.object(n, reflect.ValueOf(&into).Elem(), path)
	p.PresetSettings, p.common = into.Settings, into.commonConfig
	if into.Secret != "" {
		p.PresetSettings.Secrets = append([]string{into.Secret}, p.PresetSettings.Secrets...)
	}
}

// decodeNothing finds out whether a producer without a scheme has one that is misspelt.
func (p *Producer) decodeNothing(d *decoder, n *node, path string) {
	var all struct {
		headConfig
		commonConfig
		hmacConfig
		preset.Settings
		rfc9421Config
	}
	fields := fieldsOf(reflect.ValueOf(&all).Elem())
	found := len(d.errs)
	for _, name := range n.names {
		if _, ok := fields[name]; !ok {
			d.errs.Add(n.where[name], usage.DidYouMean(name, settingNames(fields)), "unknown setting %q%s", name, inside(path))
		}
	}
	if len(d.errs) == found {
		d.errs.Add(p.at, "write scheme: rfc9421 with keys, or preset: github with secrets, ...", "%s has neither a scheme nor a preset", path)
	}
}
