package preset

import (
	_ "embed" // presets.yaml
	"reflect"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// presetsText describes the vendors that sign with an HMAC and need no code. Add one there.
//
//go:embed presets.yaml
var presetsText []byte

// description is a vendor in presets.yaml: the fields of a [Preset], and the settings of its
// producer and of its scheme as in eyelet.yaml.
type description struct {
	Docs       string                        `conf:"docs"`
	Auth       string                        `conf:"auth"`
	ID         string                        `conf:"id"`
	Deadline   string                        `conf:"deadline"`
	Wants      string                        `conf:"wants"`
	Uses       []string                      `conf:"uses"`   // defaults to secrets
	Fields     []string                      `conf:"fields"` // without credentials
	Attributes map[string]producer.Extractor `conf:"attributes"`
	// Compared is none where the same identifier is the same event. Defaults to the body.
	Compared string `conf:"fingerprint"`
	TimeUnit string `conf:"timestamp_unit"` // s, ms or rfc3339
	Producer producer.Producer
	HMAC     verify.HMAC
}

var readTable = sync.OnceValue(func() map[string]Preset {
	all, err := readPresets("presets.yaml", presetsText)
	if err != nil {
		panic("preset: " + err.Error())
	}
	return all
})

// readPresets reads descriptions of vendors by their names.
func readPresets(file string, data []byte) (map[string]Preset, error) {
	tree, err := conf.ParseTree(file, data, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]Preset{}
	d := &conf.Decoder{Parsers: map[reflect.Type]conf.Parser{
		reflect.TypeFor[producer.Extractor](): {
			Parse: func(text string) (any, error) { return producer.ParseExtractor(text) },
			Hint:  "write header:X-Event-Id, json:data.id, digest:body, ...",
		},
	}}
	for _, name := range tree.Names {
		var one description
		if n := tree.Member(name); d.Want(n, conf.Mapping, name) {
			d.Objects(n, name, &one, &one.Producer, &one.HMAC)
			all[name] = one.preset(d, name, n.At)
		}
	}
	return all, d.Errs.Err()
}

// preset returns the vendor, after reporting what is wrong with it.
func (v *description) preset(d *conf.Decoder, name string, at usage.Place) Preset {
	units := map[string]time.Duration{"": 0, "s": time.Second, "ms": time.Millisecond, "rfc3339": 0}
	unit, known := units[v.TimeUnit]
	if !known || v.Compared != "" && v.Compared != "none" {
		d.Errs.Add(at, "", "%s: timestamp_unit is s, ms or rfc3339, and fingerprint none", name)
	}
	v.HMAC.TimestampUnit, v.HMAC.TimestampRFC3339 = unit, v.TimeUnit == "rfc3339"
	p := &v.Producer
	made := Preset{
		Name: name, Docs: v.Docs, Auth: v.Auth, ID: v.ID, Deadline: v.Deadline, Wants: v.Wants, Uses: v.Uses,
		key: p.Key, kind: p.Type, eventTime: p.EventTime, keyRequired: p.KeyRequired,
		tolerance: p.Tolerance, window: p.Window, fields: v.Fields, pings: p.Pings, maxBody: p.MaxBody,
		attributes: v.Attributes, hmac: &v.HMAC,
	}
	if len(made.Uses) == 0 {
		made.Uses = []string{"secret"}
	}
	if v.Compared == "none" {
		made.fingerprint = producer.FingerprintNone
	}
	return made
}
