package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/publicurl"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
	"github.com/eyelet-dev/eyelet/verify"
)

// senderFlags are the flags that name the signer and the URL of a delivery.
type senderFlags struct {
	config, producer, url         string
	key, secretFile, keyID, label string
	signedURL, at, tenant         string
}

// sender makes and signs deliveries, and has their URL.
type sender struct {
	url, signedURL string
	sign           replay.Signer
	secret         string             // of --secret-file
	private        crypto.Signer      // of --key
	keyID          string             // of --keyid
	tenant         string             // of --tenant, after a slash
	producer       *producer.Producer // nil unless the configuration has one
	config         config.Producer    // that of the configuration, or what is known of it
	now            time.Time
}

// orListening returns the flags, or if they have no key those that sign as a preset does for the
// last listen that served it. Another --url than that of listen is the one that is signed.
func (f senderFlags) orListening(environ []string, name string) senderFlags {
	folder, err := listenFolder(environ)
	file := filepath.Join(folder, name+".yaml")
	if err != nil || f.config+f.producer+f.keyFlag() != "" || !exists(file) {
		return f
	}
	f.config, f.producer = file, name
	if s, _ := (config.Source{File: file, Environ: environ}).Load(); s != nil && f.url != "" {
		_, port, _ := net.SplitHostPort(s.Listen)
		if to, err := url.Parse(f.url); err == nil && to.Port() != port {
			f.signedURL = cmp.Or(f.signedURL, f.url)
		}
	}
	return f
}

// open takes the key and the URL from the flags and the configuration.
func (f senderFlags) open(ctx context.Context, src config.Source) (from *sender, err error) {
	var s *config.Settings
	var plan *config.Plan
	if f.producer != "" || f.config != "" {
		src.Flags = nil // --url is where to send to, not a setting
		if s, plan, err = buildPlan(ctx, src, true); err != nil {
			return nil, err
		}
		defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
		scheme := "http://"
		if s.HasTLS() {
			scheme = "https://"
		}
		f.signedURL, f.url = cmp.Or(f.signedURL, s.URL), cmp.Or(f.url, scheme+s.Listen)
	}
	f.url = cmp.Or(f.url, "http://"+config.DefaultListen)
	if u, err := url.Parse(f.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage.Errorf("write it whole, as in http://127.0.0.1:8080",
			"the URL to send to is not one of http or https")
	}
	return f.sender(ctx, s, plan)
}

// sender takes the key from the flags, and from their producer in the configuration.
func (f senderFlags) sender(ctx context.Context, s *config.Settings, plan *config.Plan) (*sender, error) {
	now, err := arrival(&httpfile.File{}, f.at)
	if err != nil {
		return nil, err
	}
	signer := &verify.Signer{KeyID: f.keyID, Label: f.label}
	if err := loadKey(signer, f); err != nil {
		return nil, err
	}
	from := &sender{url: f.url, signedURL: f.signedURL, secret: string(signer.Secret), private: signer.Private,
		keyID: f.keyID, now: now}
	if f.producer != "" {
		if err := from.become(ctx, s, plan, f, signer); err != nil {
			return nil, err
		}
	} else if f.tenant != "" {
		return nil, usage.Errorf("name its producer with --producer", "--tenant is for a producer with tenants")
	}
	if from.sign == nil && (signer.Private != nil || signer.Secret != nil) {
		from.sign = signer
	}
	return from, nil
}

// become takes the keys of the producer in the configuration.
func (from *sender) become(
	ctx context.Context, s *config.Settings, plan *config.Plan, f senderFlags, signer *verify.Signer,
) (err error) {
	if from.producer, err = plan.Producer(f.producer); err != nil {
		return err
	}
	from.config = s.Producers[slices.Index(s.ProducerNames(), f.producer)]
	if from.producer.Tenants.On() || f.tenant != "" {
		own := *from.producer // the plan keeps its own
		from.tenant, from.producer = "/"+f.tenant, &own
		from.config.PresetSettings.Secrets, err = config.AsTenant(ctx, from.producer, f.tenant)
		if err != nil {
			return err
		}
	}
	vendor, _ := from.config.Vendor()
	if own, ok := from.producer.Scheme.(replay.Signer); ok && !vendor.KeySigned() {
		if flag := f.keyFlag(); flag != "" {
			return usage.Errorf("leave it out, or name another --config",
				"%s has no effect: producer %q signs with the secret of %s", flag, f.producer, s.File)
		}
		from.sign = own
	}
	signer.Like, _ = from.producer.Scheme.(*verify.RFC9421)
	chooseKey(signer, matchingKeys(s, signer, from.config.Keys()))
	return nil
}

// keyFlag returns the flag that gives a key, or "".
func (f senderFlags) keyFlag() string {
	switch {
	case f.key != "":
		return "--key"
	case f.secretFile != "":
		return "--secret-file"
	}
	return ""
}

// loadKey reads the key file of the flags.
func loadKey(signer *verify.Signer, f senderFlags) error {
	if f.key != "" && f.secretFile != "" {
		return usage.Errorf("remove one of them", "--key and --secret-file are both given")
	}
	file := cmp.Or(f.key, f.secretFile)
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usage.Errorf("`eyelet keygen` makes a key", "key file %s: %s", file, usage.Cause(err))
	}
	if f.key == "" {
		signer.Secret = []byte(strings.TrimSpace(string(text)))
		return nil
	}
	if signer.Private, err = verify.ParsePrivateKey(text); err != nil {
		return usage.Errorf("a key file holds a PEM block PRIVATE KEY; `eyelet keygen` makes one", "key file %s: %v",
			file, err)
	}
	return nil
}

// matchingKeys returns the key whose public half, in PEM, belongs to the signer's private key;
// else all keys.
func matchingKeys(c *config.Settings, signer *verify.Signer, keys []config.Key) []config.Key {
	if signer.Private == nil {
		return keys
	}
	want, err := verify.MarshalPublicKey(signer.Private.Public())
	if err != nil {
		return keys
	}
	for i, k := range keys {
		text := []byte(k.PublicKey)
		if k.PublicKeyFile != "" {
			text, _ = os.ReadFile(c.Path(k.PublicKeyFile)) // the error was reported before
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(want)) {
			return keys[i : i+1]
		}
	}
	return keys
}

// chooseKey sets the id of the given key, or takes the only secret of the configuration.
func chooseKey(signer *verify.Signer, keys []config.Key) {
	given := signer.Private != nil || signer.Secret != nil
	for _, k := range keys {
		shared := k.Alg == string(verify.HMACSHA256)
		switch {
		case signer.KeyID != "" && k.ID != signer.KeyID:
		case !given && shared:
			signer.KeyID, signer.Secret = k.ID, []byte(k.Secret)
			return
		case signer.Secret != nil && shared, signer.Private != nil && !shared:
			signer.KeyID = k.ID
			return
		}
	}
}

// use makes the sender one of a preset. Its settings are those of the producer in the
// configuration, else NAME=VALUE of --set, and the secret of --secret-file.
func (from *sender) use(vendor preset.Preset, pairs, environ []string) error {
	switch {
	case from.producer != nil && len(pairs) > 0:
		return usage.Errorf("remove one of them", "--set and --producer are both given")
	case from.producer != nil && from.config.Preset != vendor.Name:
		return usage.Errorf("choose another --producer", "producer %q is not of the preset %s", from.config.Name,
			vendor.Name)
	case from.producer != nil:
		return nil
	case len(pairs) == 0 && from.secret == "" && (from.private == nil || !vendor.KeySigned()):
		return usage.Errorf("run `eyelet listen 3000 "+vendor.Name+"`, or give --secret-file, --set, or --config with "+
			"--producer; "+sampleHint(vendor), "there is no secret to sign with")
	}
	set, err := config.Source{Environ: environ}.PresetSettings(vendor.Name, pairs)
	if from.secret != "" {
		set.Secrets = append(set.Secrets, from.secret)
	}
	from.config = config.Producer{Name: vendor.Name, Preset: vendor.Name, Own: vendor, PresetSettings: set}
	return err
}

func sampleHint(vendor preset.Preset) string {
	if vendor.KeySigned() {
		return "--key signs with a key of yours, for a receiver that trusts it; preset " + vendor.Name +
			" has the settings " + strings.Join(vendor.Uses, ", ")
	}
	return "preset " + vendor.Name + " has the settings " + strings.Join(vendor.Uses, ", ")
}

// firstLine returns the first of joined errors.
func firstLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// draft is a delivery to be made.
type draft struct {
	name   string // of the recording
	body   []byte // nil for that of a sample
	kind   string // type of the event; of a preset without one, a usual one
	id     string // identifier of an event that has none; empty for a new one
	header http.Header
	form   bool                              // the JSON of a preset is in a form
	edit   func(body []byte) ([]byte, error) // before it is signed; may be nil
}

// draft returns the delivery of a payload. What follows the producer in its path is the type, for
// presets.
func (one input) draft(from *sender, stem string) draft {
	made := draft{name: one.name, body: one.body}
	if vendor, ok := from.config.Vendor(); ok {
		made.kind = typeIn(vendor, stem)
	}
	return made
}

// edited returns the body of the draft, or without one a sample's, after the edit.
func (d draft) edited(sample []byte) ([]byte, error) {
	body := d.body
	if body == nil {
		body = sample
	}
	if d.edit == nil {
		return body, nil
	}
	return d.edit(body)
}

// deliver makes the delivery of a draft. It returns the base of the URL to send it to, and who
// signs it then: deliveries of presets are signed here.
func (from *sender) deliver(d draft) (rec *replay.Recording, base string, sign replay.Signer, err error) {
	if vendor, ok := from.config.Vendor(); ok {
		rec, base, err = from.vendorDelivery(vendor, d)
		return rec, base, nil, err
	}
	switch {
	case d.form:
		err = usage.Errorf("`eyelet producers` lists them", "--set and --form are for samples of presets")
	case from.sign == nil:
		err = usage.Errorf("give --key FILE, or record the delivery as an .http file",
			"%s: producer %q has no key to sign with", d.name, from.config.Name)
	case d.kind != "" && (from.producer == nil || from.producer.Type == nil):
		err = usage.Errorf("give --config with --producer; -H adds a field", "nothing says where the type is")
	default:
		d.body, err = d.edited(nil)
	}
	if err != nil {
		return nil, "", nil, err
	}
	return plainDelivery(from.config.Name+from.tenant, from.producer, d), from.url, from.sign, nil
}

// plainDelivery makes a delivery that is signed when it is sent, with an identifier and a type
// where the producer reads them.
func plainDelivery(name string, from *producer.Producer, d draft) *replay.Recording {
	var key producer.Extractor = producer.IdempotencyKey{}
	if from != nil {
		key = from.Key
	}
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/webhooks/" + cmp.Or(name, "shop")},
		Header: http.Header{"Content-Type": {"application/json"}}}
	replaceFields(r, d.header)
	body := preset.Place(r, d.body, key, cmp.Or(d.id, newID()))
	if d.kind != "" {
		body = preset.Place(r, body, from.Type, d.kind)
	}
	return recordingOf(d.name, r.URL.RequestURI(), r, body)
}

// replaceFields sets the fields of -H, of which Host is one.
func replaceFields(r *http.Request, fields http.Header) {
	for name, values := range fields {
		r.Header[name] = values
	}
	if r.Header.Get("Host") != "" {
		r.Host = r.Header.Get("Host")
		r.Header.Del("Host")
	}
}

// vendorDelivery makes and signs a delivery like the vendor's, for the URL that the vendor would
// call.
func (from *sender) vendorDelivery(vendor preset.Preset, d draft) (rec *replay.Recording, base string, err error) {
	to, err := url.Parse(from.url)
	if err != nil {
		return nil, "", usage.Errorf("", "--url is not a URL")
	}
	set := from.config.PresetSettings
	set.Name, set.SigningKey, set.SigningKeyID = from.config.Name, from.private, from.keyID
	if to.Path == "" {
		to.Path = "/webhooks/" + set.Name + from.tenant
	}
	r, body, err := vendor.Draft(set, vendorURL(to, from), d.kind, d.id, from.now)
	if err != nil {
		return nil, "", usage.Errorf(sampleHint(vendor), "%v", firstLine(err))
	}
	if body, err = d.edited(body); err != nil {
		return nil, "", err
	}
	opened := vendor.Open(set)
	if d.form && opened.FormMember == "" {
		return nil, "", usage.Errorf("leave out --form", "preset %s has no deliveries with JSON in a form", vendor.Name)
	} else if d.form {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	replaceFields(r, d.header)
	if d.body != nil {
		body = preset.Place(r, body, opened.Key, cmp.Or(d.id, newID()))
	}
	if body, err = vendor.Sign(set, r, body, from.now); err != nil {
		return nil, "", usage.Errorf(sampleHint(vendor), "%v", firstLine(err))
	}
	// A proxy may remove a prefix of the vendor's URL, and the sample may add to its query.
	to.RawQuery = r.URL.RawQuery
	base = (&url.URL{Scheme: to.Scheme, Host: to.Host}).String()
	return recordingOf(d.name, to.RequestURI(), r, body), base, nil
}

// vendorURL returns the URL that the vendor would call: the producer's, or the one to send to below
// the public base.
func vendorURL(to *url.URL, from *sender) string {
	if from.producer != nil && from.producer.URL != "" {
		return from.producer.URL
	}
	public, err := url.Parse(from.signedURL)
	if from.signedURL == "" || err != nil || public.Host == "" {
		return to.String()
	}
	return publicurl.Of(public, to).String()
}

// recordingOf records a request.
func recordingOf(name, target string, r *http.Request, body []byte) *replay.Recording {
	rec := &replay.Recording{Name: name, Method: r.Method, Target: target, Body: body}
	rec.Fields = append(rec.Fields, replay.Field{Name: "Host", Value: cmp.Or(r.Host, r.URL.Host)})
	for _, field := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[field] {
			rec.Fields = append(rec.Fields, replay.Field{Name: field, Value: value})
		}
	}
	return rec
}

// newID returns a random UUID (RFC 9562 section 5.4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// doubts returns what is probably wrong with a delivery that is sent to try a receiver: a body that
// is not what its media type says, and a type that the preset does not list.
func doubts(rec *replay.Recording, vendor preset.Preset, set preset.Settings) (all []string) {
	h := rec.Header()
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	if isJSON && h.Get("Content-Encoding") == "" && !json.Valid(rec.Body) {
		all = append(all, "the body is not JSON, and its media type is "+media)
	}
	r, err := rec.Request()
	if err != nil || vendor.Name == "" {
		return all
	}
	kind, err := typeOf(vendor.Open(set).WithDefaults(), &producer.Delivery{Request: r, Body: rec.Body})
	switch {
	case err != nil:
	case kind == "" && strings.HasPrefix(vendor.TypeFrom(), "header:"):
		all = append(all, "the delivery has no type in "+strings.TrimPrefix(vendor.TypeFrom(), "header:")+
			"; --type gives one")
	case kind != "" && !vendor.Lists(kind):
		hint := "`eyelet producers " + vendor.Name + "` lists them"
		if near := usage.Nearest(kind, vendor.Types()); near != "" {
			hint = "did you mean " + near + "?"
		}
		all = append(all, fmt.Sprintf("%s is not one of the common types of %s; %s", kind, vendor.Name, hint))
	}
	return all
}

// typeOf returns the type of a delivery, which may lack an identifier; of a batch, the first.
func typeOf(p producer.Producer, d *producer.Delivery) (string, error) {
	if p.Split == nil && p.Type != nil {
		return p.Type.Extract(d)
	}
	items, err := p.Items(d)
	if err != nil || len(items) == 0 {
		return "", err
	}
	return items[0].Type, nil
}
