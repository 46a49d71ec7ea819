package preset

import (
	"cmp"
	_ "embed" // presets.yaml
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// presetsText describes the vendors that need no code, or little. Add one there.
//
//go:embed presets.yaml
var presetsText []byte

// description is a vendor in presets.yaml: the fields of a [Preset], and the settings of its
// producer and of its scheme as in eyelet.yaml.
type description struct {
	Node     *conf.Node
	Docs     string            `conf:"docs"`
	Auth     string            `conf:"auth"`
	ID       string            `conf:"id"`
	Deadline string            `conf:"deadline"`
	Wants    string            `conf:"wants"`
	Uses     []string          `conf:"uses"`   // defaults to secret
	Needs    map[string]string `conf:"needs"`  // further settings of a trial
	Fields   []string          `conf:"fields"` // without credentials

	Attributes map[string]producer.Extractor `conf:"attributes"`
	Events     *batch                        `conf:"events"`
	Types      []string                      `conf:"types"` // that `eyelet send` knows; else in samples.txt
	// Compared are the values that must be equal, or none where the same identifier is the same
	// event. Defaults to the body.
	Compared      []string `conf:"fingerprint"`
	KeyedByType   string   `conf:"keyed_by_type"` // a regular expression
	Repeatable    []string `conf:"repeatable"`    // shapes: members with spaces between
	AcceptedBody  string   `conf:"accepted_body"` // none, or text
	SecretHeaders []string `conf:"secret_headers"`

	MediaTypes []string `conf:"media_types"`
	Challenge  string   `conf:"signed_challenge"` // EXTRACTOR=VALUE, as of pings
	Code       string   `conf:"code"`             // the file with what no setting says

	// Scheme is hmac, rfc9421, credential (one that the settings name) or bearer (that, or else a
	// token).
	Scheme     string   `conf:"scheme"`
	TimeMember string   `conf:"timestamp_member"` // of the body: milliseconds
	Standard   []string `conf:"standard"`         // Standard Webhooks, in fields with these prefixes
	Producer   producer.Producer
	HMAC       verify.HMAC

	Messages verify.RFC9421
	Covers   []string      `conf:"covers"`
	ECDSA    string        `conf:"signature_encoding"` // raw or der
	Signs    verify.Signer `conf:"sample"`             // what a sample signs
}

var readTable = sync.OnceValue(func() []Preset {
	all, err := readPresets("presets.yaml", presetsText)
	if err != nil {
		panic("preset: " + err.Error())
	}
	return all
})

// Read returns the presets that a file describes, in the form of presets.yaml, and reports its
// mistakes with their lines. A name of [All] is one.
func Read(file string, data []byte) ([]Preset, error) {
	all, err := readPresets(file, data)
	found, _ := usage.Find(err)
	for _, p := range all {
		if _, bundled := Find(p.Name); bundled {
			found.Add(p.at, "choose another name", "%s is the name of a bundled preset", p.Name)
			continue // its code expects another row
		}
		if made := p.producer(Settings{Secrets: []string{anySecret}}); p.hmac != nil {
			for _, mistake := range made.Check() {
				found.Add(p.at, "", "%v", mistake)
			}
		}
	}
	return all, cmp.Or(found.Err(), err)
}

// anySecret is long enough, and is read in every encoding.
const anySecret = "00112233445566778899aabbccddeeff"

// readPresets reads descriptions of vendors.
func readPresets(file string, data []byte) (all []Preset, err error) {
	tree, err := conf.ParseTree(file, data, nil)
	if err != nil {
		return nil, err
	}
	d := &conf.Decoder{Parsers: Parsers}
	for _, name := range tree.Names {
		var one description
		if n := tree.Member(name); d.Want(n, conf.Mapping, name) {
			d.Objects(n, name, &one, &one.Producer, &one.Messages, &one.HMAC)
			made := one.preset(d, name)
			made.at = tree.Place(name)
			all = append(all, made)
		}
	}
	return all, d.Errs.Err()
}

// Parsers read the values of the interfaces of package producer.
var Parsers = map[reflect.Type]conf.Parser{
	reflect.TypeFor[producer.Extractor](): {
		Parse: func(text string) (any, error) { return producer.ParseExtractor(text) },
		Hint:  "write header:X-Event-Id, json:data.id, idempotency-key, digest:body, ...",
	},
	reflect.TypeFor[producer.KeyFormat](): {
		Parse: func(text string) (any, error) { return producer.ParseKeyFormat(text) },
		Hint:  "write uuid, or a regular expression",
	},
}

// preset returns the vendor, after reporting what is wrong with it.
func (v *description) preset(d *conf.Decoder, name string) Preset {
	p := &v.Producer
	p.Fields, p.SecretHeaders, p.MediaTypes = v.Fields, v.SecretHeaders, v.MediaTypes
	if len(v.Attributes) > 0 {
		p.Attributes = attributes(v.Attributes)
	}
	typeFrom := ""
	if v.Events != nil {
		p.Split, typeFrom = v.Events.split, v.Events.typeFrom()
	}
	switch v.AcceptedBody {
	case "":
	case "none":
		p.Accepted.Body = []byte{}
	default:
		p.Accepted = textResponse(v.AcceptedBody)
	}
	v.identify(d, name)
	if v.Challenge != "" {
		v.challenge(d, name, p)
	}
	made := Preset{
		Name: name, Docs: v.Docs, Auth: v.Auth, ID: v.ID, Deadline: v.Deadline, Wants: v.Wants, Uses: v.Uses,
		like: *p, typeFrom: typeFrom, types: v.Types, needs: map[string]any{},
	}
	for setting, text := range v.Needs {
		made.needs[setting] = text
	}
	if v.Node.Member("uses").IsNone() {
		made.Uses = []string{"secret"}
	}
	v.authenticate(d, name, &made)
	if v.Code == "" {
		return made
	}
	all := coded()
	i := slices.IndexFunc(all, func(c Preset) bool { return c.Name == name })
	if i < 0 {
		d.Errs.Add(v.Node.Place("code"), "remove it", "%s.code: there is no such preset in Go", name)
		return made
	}
	made.extend(all[i])
	return made
}

// extend adds what code has.
func (p *Preset) extend(code Preset) {
	row := p.build
	p.build = func(p *producer.Producer, s Settings) {
		if row != nil {
			row(p, s)
		}
		code.build(p, s)
	}
	p.typeFrom, p.secretPrefix = cmp.Or(p.typeFrom, code.typeFrom), code.secretPrefix
	maps.Copy(p.needs, code.needs)
}

// challenge sets the answer to a signed challenge, which is its member "challenge".
func (v *description) challenge(d *conf.Decoder, name string, p *producer.Producer) {
	text, value, _ := strings.Cut(v.Challenge, "=")
	member, err := producer.ParseExtractor(text)
	if err != nil || value == "" {
		d.Errs.Add(v.Node.Place("signed_challenge"), "write json:type=url_verification",
			"%s.signed_challenge is not EXTRACTOR=VALUE", name)
		return
	}
	p.Handshake = echoesChallenge(member, value, echo)
}

// identify sets what decides which deliveries are the same event.
func (v *description) identify(d *conf.Decoder, name string) {
	p := &v.Producer
	var err error
	if p.Fingerprint, err = producer.ParseFingerprint(v.Compared...); err != nil {
		d.Errs.Add(v.Node.Place("fingerprint"), "or write none", "%s.fingerprint: %v", name, err)
	}
	if v.KeyedByType != "" {
		topics, err := regexp.Compile(v.KeyedByType)
		if err != nil {
			d.Errs.Add(v.Node.Place("keyed_by_type"), "", "%s.keyed_by_type: %v", name, err)
		}
		p.KeyedByType = topics
	}
	if len(v.Repeatable) > 0 {
		var shapes [][]string
		for _, text := range v.Repeatable {
			shapes = append(shapes, strings.Fields(text))
		}
		p.Repeatable = producer.Shapes(16, shapes...)
	}
}

// authenticate sets the scheme.
func (v *description) authenticate(d *conf.Decoder, name string, p *Preset) {
	if v.Scheme != "" && !slices.Contains([]string{"hmac", "rfc9421", "credential", "bearer"}, v.Scheme) {
		d.Errs.Add(v.Node.Place("scheme"), "", "%s.scheme is hmac, rfc9421, credential or bearer", name)
	}
	switch {
	case v.Scheme == "credential" && len(v.HMAC.Headers) > 0:
		p.build = func(p *producer.Producer, s Settings) {
			withCredential(p, verify.HeaderValue(cmp.Or(s.Header, v.HMAC.Headers[0]), s.Secrets...))
		}
	case v.Scheme == "credential" || v.Scheme == "bearer":
		p.build = func(p *producer.Producer, s Settings) { withCredential(p, s.credential(v.Scheme == "bearer")) }
	case len(v.Standard) > 0:
		p.build = func(p *producer.Producer, s Settings) { buildStandard(p, s, v.Standard...) }
	case v.TimeMember != "":
		p.build = func(p *producer.Producer, s Settings) {
			p.Err = checkText(s.Secrets)
			signedBy(p, &bodyTimed{v.HMAC.WithSecrets(verify.Secrets(s.Secrets...)), v.TimeMember})
		}
	case v.Scheme == "rfc9421" && len(v.Messages.Algs) == 0:
		d.Errs.Add(v.Node.Place("scheme"), "write alg: ed25519, or another one",
			"%s has scheme rfc9421 and no alg", name)
	case v.Scheme == "rfc9421":
		v.signMessages(p)
	case v.Code == "" || len(v.HMAC.Headers) > 0:
		p.hmac = &v.HMAC
		if key := publicKeyIn(p.hmac); key != "" {
			p.signWith = signsContent(p.hmac)
		}
	}
}

// signMessages sets a scheme of RFC 9421.
func (v *description) signMessages(p *Preset) {
	p.build = func(p *producer.Producer, s Settings) {
		encoding := cmp.Or(s.SignatureEncoding, v.ECDSA)
		if !slices.Contains([]string{"", "der", "raw"}, encoding) {
			p.Err = errors.New("signature_encoding is der or raw")
		}
		signedByMessages(p, s, &verify.RFC9421{
			Label: v.Messages.Label, Algs: v.Messages.Algs, DER: encoding == "der",
			Coverage: verify.Coverage{Required: v.Covers},
		}, verify.JWKSConfig{})
	}
	p.signWith, p.sharedKeys = signsMessages(v.Signs), v.Messages.Algs[0] == verify.HMACSHA256
}
