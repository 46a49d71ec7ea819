package receiver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// A client without a secret sends a captured delivery in so many other forms, and in a fifth as
// many after the window.
var mutations = 100

func init() {
	if os.Getenv("EYELET_LONG") != "" {
		mutations = 1000
	}
}

// capture is a captured delivery, and the limits on what it may cause.
type capture struct {
	producer producer.Producer
	message  message
	now      time.Time
	// most is how often a handler may run for it within the window: once for each signed event
	// in it, or as often as the producer allows for signed content that two events may share.
	most int
	// later is how often a handler may run for it after the window.
	later int
	// anyID means that nothing of the event is signed: a captured credential sends any event.
	// Each identifier then runs once in a window.
	anyID bool
	// refused means that Open refuses the producer, because its signature is ambiguous.
	refused bool
	// credentials remove one of several credentials.
	credentials []func(http.Header)
	// next are producers that replace this one, in turn, before its window ends.
	next []producer.Producer
	// beside is another producer, by the name "other"; nil for none.
	beside *producer.Producer
}

// runs counts runs by handler and identifier.
type runs struct {
	mu   sync.Mutex
	all  map[string]int
	each map[string]int
}

func (r *runs) handler(p, pattern string) receiver.Handler {
	return receiver.On(p, pattern, func(_ context.Context, ev receiver.Event[[]byte]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all[pattern]++
		r.each[pattern+" "+ev.ID]++
		return nil
	}).Named(p + " takes " + pattern)
}

// check compares the runs with the limits.
func (r *runs) check(t *testing.T, c capture, most int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.all
	if c.anyID {
		counts, most = r.each, most/max(c.most, 1)
	}
	for handler, n := range counts {
		if n > most {
			t.Errorf("the handler that %s ran %d times, at most %d allowed", handler, n, most)
		}
	}
	if r.all["*"] == 0 {
		t.Error("no handler ran for the captured delivery")
	}
}

// It sends one delivery of every preset, and of every scheme of other producers, in other forms,
// and more after its window has ended.
func TestACapturedDeliveryRunsOnceHoweverItIsSentAgain(t *testing.T) {
	t.Parallel()
	all := presetCaptures(t)
	maps.Copy(all, ownCaptures(t))
	maps.Copy(all, combinedCaptures(t))
	for name := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, all[name].attack)
		})
	}
}

// attack sends the delivery, and then its mutations.
func (c capture) attack(t *testing.T) {
	clock := deduptest.NewClock()
	seen := &runs{all: map[string]int{}, each: map[string]int{}}
	begin := clock.Now()
	config := receiver.Config{
		Store: memstore.New(memstore.Options{Clock: clock}), Producers: []producer.Producer{c.producer},
		Handlers: []receiver.Handler{seen.handler(c.producer.Name, "*"), seen.handler(c.producer.Name, "other-*")},
		Clock:    func() time.Time { return c.now.Add(clock.Now().Sub(begin)) },
	}
	if c.beside != nil {
		config.Producers = append(config.Producers, *c.beside)
		config.Handlers = append(config.Handlers, seen.handler("other", "*"))
	}
	if c.refused {
		if rx, err := receiver.Open(config); err == nil {
			t.Error("Open does not refuse the producer:", rx.Close())
		}
		return
	}
	rx := opened(t, config)
	m := newMutator(1, c)
	if status := give(rx, c.message); status/100 != 2 {
		t.Fatalf("the captured delivery gets %d", status)
	}
	_, signed := c.producer.Scheme.(*verify.RFC9421)
	each := func() {
		if signed || mutations >= 1000 {
			for _, msg := range m.each() {
				give(rx, msg)
			}
		}
	}
	each()
	kinds := c.mutate(t, rx, m, mutations)
	synctest.Wait()
	seen.check(t, c, c.most)
	for _, p := range c.next {
		config.Producers = []producer.Producer{p}
		rx = replaced(t, rx, config)
		give(rx, c.message)
		c.mutate(t, rx, m, mutations/5)
		synctest.Wait()
		seen.check(t, c, c.most)
	}
	if c.producer.Window == 0 || t.Failed() {
		return
	}
	clock.Advance(c.producer.Window + time.Hour)
	give(rx, c.message)
	each()
	c.mutate(t, rx, m, mutations/5)
	synctest.Wait()
	seen.check(t, c, c.most+c.later)
	if t.Failed() {
		t.Logf("got a 2xx: %v", kinds)
	}
}

// A part of a delivery, without one of its signatures, comes before the delivery.
func TestADeliveryRunsOnceAfterWhatIsLeftOfIt(t *testing.T) {
	t.Parallel()
	all := ownCaptures(t)
	for _, name := range []string{
		"two signatures, an id that may be left out", "no time, two signatures, an id that may be left out",
		"no time, two signatures, an id in a field",
	} {
		synctest.Test(t, func(t *testing.T) {
			c, seen := all["rfc9421, "+name], &runs{all: map[string]int{}, each: map[string]int{}}
			rx := opened(t, receiver.Config{
				Store:     memstore.New(memstore.Options{}),
				Producers: []producer.Producer{c.producer}, Handlers: []receiver.Handler{seen.handler("own", "*")},
				Clock: func() time.Time { return c.now },
			})
			left := c.message.clone()
			withoutSignature("sig1")(left.header)
			left.header.Del("X-Event-Id")
			for _, msg := range []message{left, c.message, left} {
				if status := give(rx, msg); status/100 != 2 {
					t.Errorf("%s: %d", name, status)
				}
			}
			synctest.Wait()
			seen.check(t, c, 1)
		})
	}
}

// mutate sends n mutations, and counts those that got a 2xx by kind.
func (c capture) mutate(t *testing.T, rx *receiver.Receiver, m *mutator, n int) map[string]int {
	t.Helper()
	taken, kinds := 0, map[string]int{}
	for i := range n {
		kind, msg := m.mutate(i)
		if give(rx, msg)/100 == 2 {
			taken++
			kinds[kind]++
		}
	}
	if n == mutations && (taken == 0 || taken == n) {
		t.Errorf("of %d mutations %d got a 2xx: they change nothing, or nothing verifies", n, taken)
	}
	return kinds
}

// give passes a message to the receiver, and returns the status, or 0 if it is not a request.
func give(rx *receiver.Receiver, msg message) int {
	r := msg.request()
	if r == nil {
		return 0
	}
	return answer(rx, r).Code
}

// messageOf converts a request for the endpoint of a producer to a message.
func messageOf(t *testing.T, name string, r *http.Request, body []byte) message {
	t.Helper()
	target := "/webhooks/" + name
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	return message{method: r.Method, target: target, header: r.Header.Clone(), body: body, connection: r.TLS}
}

// unsignedPresets authenticate the sender, but not what it sends.
var unsignedPresets = []string{
	"aws-eventbridge", "azure-event-grid", "chargebee", "cloudevents", "deepgram", "gitlab", "google-eventarc",
	"google-pubsub", "graph", "mailgun", "okta", "postmark", "strava", "telegram", "webengage", "yookassa",
}

// presetCaptures are deliveries of all presets.
func presetCaptures(t *testing.T) map[string]capture {
	t.Helper()
	all := map[string]capture{}
	now := time.Now().Truncate(time.Second)
	add := func(name, vendor string, s preset.Settings, kind string, change func(*message)) {
		made, _ := preset.Find(vendor)
		r, body, err := made.Sample(s, publicBase+"/webhooks/"+vendor, kind, "evt-17", now)
		if err != nil {
			t.Fatal(err)
		}
		c := capture{producer: made.Open(s), message: messageOf(t, vendor, r, body), now: now, most: 1}
		if change != nil {
			change(&c.message)
		}
		all[name] = c
	}
	settings := sampled()
	for name, s := range settings {
		add(name, name, s, "", nil)
	}
	for name, prefix := range map[string]string{
		"aws-sns": "valid: made, version 2", "google-eventarc": "valid: plain", "google-pubsub": "valid: plain",
		"openbanking-uk": "valid",
		"discord":        "valid: an interaction",
		"sendgrid":       "valid: two",
		"paypal":         "valid: made chain root", "yandex-pay": "valid",
	} {
		rec := recorded(t, name, prefix)
		s := rec.settings(t)
		s.Topics = rec.Config.Topics
		d := rec.delivery(t)
		d.URL.RawQuery = ""
		all[name] = capture{
			producer: openPreset(t, name, s), message: messageOf(t, name, d, []byte(rec.Body)),
			now: time.Unix(rec.Now, 0), most: 1,
		}
	}
	here := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	add("yookassa", "yookassa", preset.Settings{AllowedIPs: here}, "", nil)
	for name, body := range repeatable {
		vendor, _, _ := strings.Cut(name, ",")
		add(name, vendor, settings[vendor], "", withBody(t, openPreset(t, vendor, settings[vendor]), body))
	}
	for name, sent := range urlAndForm {
		add(name, "twilio", settings["twilio"], "", func(msg *message) {
			msg.method, msg.target = sent.method, msg.target+sent.query
			withBody(t, openPreset(t, "twilio", settings["twilio"]), sent.body)(msg)
		})
	}
	add("adyen, two items", "adyen", settings["adyen"], "", twoItems(t, settings["adyen"], now))
	batch := settings["cloudevents"]
	batch.Batch = true
	add("cloudevents, batches", "cloudevents", batch, "", nil)
	for name, c := range all {
		if p := c.producer.WithDefaults(); p.SignsURL && p.URL == "" {
			p = c.producer
			p.Name, c.beside = "other", &p
		}
		all[name] = c.bounded(name)
	}
	return all
}

// bounded sets the limits of a capture.
func (c capture) bounded(name string) capture {
	if slices.Contains(unsignedPresets, c.producer.Preset) {
		c.anyID, c.later = true, 1
	}
	switch name {
	case "adyen, two items", "sendgrid":
		c.most = 2
	case "shopify", "shopify-events", "shopify, shop/redact":
		c.most = 9 // one body may have several topics
	case "github, workflow_dispatch", "github, membership":
		c.most = 16
	case "twilio, a running call":
		c.most = 256
	case "websub":
		c.later = 1 // content is a state, which is new again after the window
	}
	return c
}

// repeatable are the bodies that two events may share with everything that is signed, by preset,
// with their meaning.
var repeatable = map[string]string{
	"github, workflow_dispatch": `{"inputs":{},"ref":"refs/heads/main","workflow":".github/workflows/tea.yml",` +
		`"sender":{"login":"mallow"}}`,
	"github, membership": `{"action":"added","scope":"team","member":{"login":"mallow"},"team":{"id":17},` +
		`"organization":{"id":1}}`,
	"twilio, a running call": `CallSid=CA17&CallStatus=in-progress&Digits=1&From=%2B15550017`,
	"shopify, shop/redact":   `{"shop_id":17,"shop_domain":"teapots.myshopify.com"}`,
}

// urlAndForm are deliveries of Twilio with a query, whose end can be moved into the form.
var urlAndForm = map[string]struct{ method, query, body string }{
	"twilio, a query and a form": {http.MethodPost, "?flow=1705", "AccountSid=AC17&MessageSid=SM17&MessageStatus=sent"},
	"twilio, a GET":              {http.MethodGet, "?AccountSid=AC17&MessageSid=SM17&MessageStatus=sent", ""},
}

// withBody replaces and signs the body of a message.
func withBody(t *testing.T, p producer.Producer, body string) func(*message) {
	t.Helper()
	return func(msg *message) {
		r := request(msg.method, msg.target, body)
		r.Header = msg.header.Clone()
		if err := p.Scheme.(signer).Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		msg.header, msg.body = r.Header, []byte(body)
	}
}

// twoItems puts two signed items into one delivery of Adyen.
func twoItems(t *testing.T, s preset.Settings, now time.Time) func(*message) {
	t.Helper()
	vendor, _ := preset.Find("adyen")
	_, second, err := vendor.Sample(s, publicBase+"/webhooks/adyen", "", "evt-18", now)
	if err != nil {
		t.Fatal(err)
	}
	return func(msg *message) {
		const open = `"notificationItems":[`
		_, items, _ := bytes.Cut(second, []byte(open))
		items = items[:bytes.LastIndexByte(items, ']')]
		msg.body = bytes.Replace(msg.body, []byte(open), append(append([]byte(open), items...), ','), 1)
	}
}

const ownBody = `{"id":"e1","type":"paid","at":1700000000,"url":"a.b:c/d?e=1&f|g","n":1.5}`

// own is a producer without a preset, and a delivery of it.
type own struct {
	scheme     verify.Scheme
	prove      func(*http.Request) // sets the credentials for a scheme that does not sign
	key        producer.Extractor
	change     func(*producer.Producer)
	fields     map[string]string
	query      string
	body       string
	anyID      bool
	refused    bool
	covered    []string        // by RFC 9421; nil is the default profile
	scheme9421 *verify.RFC9421 // without keys; nil is the default
	second     []string        // covered by another signature of RFC 9421 beside the first one
	secret     bool            // signs by a secret, which the other producer does not have
	below      string          // the path under which the endpoint is mounted
	// other changes the other producer, which has the same key but for a secret.
	other func(*producer.Producer)
}

// ownCaptures are deliveries of producers without a preset.
func ownCaptures(t *testing.T) map[string]capture {
	t.Helper()
	all := map[string]capture{}
	now := time.Now().Truncate(time.Second)
	for name, o := range ownProducers() {
		all[name] = o.capture(t, now)
	}
	key, signer := ed25519Pair(t)
	for name, o := range signedProducers() {
		scheme := o.scheme9421
		if scheme == nil {
			scheme = &verify.RFC9421{}
		}
		scheme.Keys = verify.StaticKeys(key)
		signer := signer
		if o.secret {
			scheme.Keys = verify.StaticKeys(secretKey(t, "own"))
			signer.Secret, signer.Private = []byte(secret17+"own"), nil
		}
		o.scheme, signer.Like = scheme, scheme
		c := o.captureBy(t, now, func(r *http.Request, body []byte) error {
			signer.Label, signer.Components = "sig1", o.covered
			if o.covered == nil {
				signer.Components = []string{"@method", "@target-uri", "content-digest"}
				for field := range o.fields {
					signer.Components = append(signer.Components, strings.ToLower(field))
				}
			}
			if err := signer.Sign(r, body, now); err != nil || o.second == nil {
				return err
			}
			other := signer
			other.Label, other.Components, other.Nonce = "sig2", o.second, "n-2"
			return other.Sign(r, body, now.Add(time.Second))
		})
		if o.second != nil {
			c.credentials = []func(http.Header){withoutSignature("sig1"), withoutSignature("sig2")}
		}
		other := c.producer
		if other.Name = "other"; o.secret {
			other.Scheme = &verify.RFC9421{Keys: verify.StaticKeys(secretKey(t, "other"))}
		} else if o.other != nil {
			o.other(&other)
		}
		c.beside = &other
		all["rfc9421, "+name] = c
	}
	for name, o := range tokenProducers(t, now) {
		all[name] = o.capture(t, now)
	}
	for name, o := range certificateProducers(t, now) {
		all[name] = o.capture(t, now)
	}
	return all
}

// combinedCaptures are deliveries with the credentials of two schemes. Either is enough, or both
// are needed.
func combinedCaptures(t *testing.T) map[string]capture {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	forms := []string{"{body}", "{jcs}", "{timestamp}.{body}", "{body}.{clock}", "{id}.{timestamp}.{body}",
		"{header:X-Event-Id}.{body}", "rfc9421", "bearer"}
	keys := map[string]producer.Extractor{
		"id in a field": producer.Header("X-Event-Id"), "id in the body": producer.JSON("id"),
		"no id": producer.BodyDigest(),
	}
	bindsID := map[string]bool{"{id}.{timestamp}.{body}": true, "{header:X-Event-Id}.{body}": true, "rfc9421": true}
	all := map[string]capture{}
	for i, one := range forms {
		for _, other := range forms {
			for id, key := range keys {
				a, b := combinedScheme(t, one, 1), combinedScheme(t, other, 2)
				fields := map[string]string{"X-Event-Id": "evt-17", "Content-Type": "application/json"}
				o := own{key: key, fields: fields, anyID: one == "bearer" || other == "bearer"}
				add := func(kind string, scheme verify.Scheme) {
					o.scheme = scheme
					c := o.captureBy(t, now, func(r *http.Request, body []byte) error {
						return errors.Join(a.sign(r, body, now), b.sign(r, body, now))
					})
					c.credentials = []func(http.Header){a.remove, b.remove}
					timed := id != "no id" && other == "{timestamp}.{body}"
					if kind == "any" && (bindsID[other] || timed) { // the change to it is complete
						p := c.producer
						p.Scheme = b.scheme
						if c.next = []producer.Producer{p}; other == "{header:X-Event-Id}.{body}" {
							c.later++ // what is remembered beyond the window has the name of before
						}
					}
					all[fmt.Sprintf("%s %s, %s, %s", kind, one, other, id)] = c
				}
				if one == other && one == "bearer" {
					continue
				}
				if add("any", verify.Any{a.scheme, b.scheme}); i%2 == 0 {
					o.anyID = one == "bearer" && other == "bearer"
					add("all", verify.All{a.scheme, b.scheme})
				}
			}
		}
	}
	return all
}

// combined is one scheme of two, what removes its credential, and its sender.
type combined struct {
	scheme verify.Scheme
	remove func(http.Header)
	sign   func(*http.Request, []byte, time.Time) error
}

// combinedScheme returns scheme number n, with secrets and fields of its own.
func combinedScheme(t *testing.T, form string, n int) combined {
	t.Helper()
	secret := fmt.Sprint(secret17, n)
	switch form {
	case "rfc9421":
		key, s := ed25519Pair(t)
		s.Label = fmt.Sprint("sig", n)
		s.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "x-event-id"}
		scheme := &verify.RFC9421{Keys: verify.StaticKeys(key), Label: s.Label}
		return combined{scheme, withoutSignature(s.Label), s.Sign}
	case "bearer":
		s := verify.BearerToken(secret)
		return combined{s, func(h http.Header) { h.Del("Authorization") }, s.Sign}
	}
	field := fmt.Sprint("X-Signature-", n)
	h := &verify.HMAC{
		Headers: []string{field}, Encoding: verify.Hex, Content: strings.ReplaceAll(form, "{clock}", "{timestamp}"),
		Secrets: verify.Secrets(secret),
	}
	switch {
	case strings.Contains(form, "{clock}"):
		h.TimestampHeaders = []string{fmt.Sprint("X-Clock-", n)}
	case strings.Contains(form, "{timestamp}"):
		h.TimestampHeaders = []string{"X-Time"}
	}
	if strings.Contains(form, "{id}") {
		h.IDHeaders = []string{"X-Event-Id"}
	}
	return combined{h, func(h http.Header) { h.Del(field) }, h.Sign}
}

// withoutSignature removes the signature with a label.
func withoutSignature(label string) func(http.Header) {
	return func(h http.Header) {
		for _, name := range []string{"Signature", "Signature-Input"} {
			of := func(member string) bool { return strings.HasPrefix(member, label) }
			members := strings.Split(strings.Join(h[name], ", "), ", ")
			if h.Set(name, strings.Join(slices.DeleteFunc(members, of), ", ")); h.Get(name) == "" {
				h.Del(name)
			}
		}
	}
}

// secretKey is the key of a producer that signs by RFC 9421 with a secret.
func secretKey(t *testing.T, of string) verify.Key {
	t.Helper()
	key, err := verify.NewHMACKey("k1", []byte(secret17+of))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ed25519Pair(t *testing.T) (verify.Key, verify.Signer) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	if err != nil {
		t.Fatal(err)
	}
	return key, verify.Signer{KeyID: "k1", Private: private}
}

func (o own) capture(t *testing.T, now time.Time) capture {
	t.Helper()
	return o.captureBy(t, now, func(r *http.Request, body []byte) error {
		if o.prove != nil {
			o.prove(r)
			return nil
		}
		return o.scheme.(signer).Sign(r, body, now)
	})
}

func (o own) captureBy(t *testing.T, now time.Time, sign func(*http.Request, []byte) error) capture {
	t.Helper()
	p := producer.Producer{
		Name: "own", Scheme: o.scheme, Key: o.key, Type: producer.JSON("type"), Contract: producer.Webhook,
		SignsURL: true, Window: 25 * time.Hour,
	}
	if o.change != nil {
		o.change(&p)
	}
	body := []byte(o.body)
	if o.body == "" {
		body = []byte(ownBody)
	}
	r := request(http.MethodPost, o.below+"/webhooks/own"+o.query, string(body))
	for name, value := range o.fields {
		r.Header.Set(name, value)
	}
	if err := sign(r, body); err != nil && !o.refused {
		t.Fatal(err)
	}
	msg := messageOf(t, "own", r, body)
	msg.target = o.below + msg.target
	return capture{producer: p, message: msg, now: now, most: 1, later: later(o.anyID),
		anyID: o.anyID, refused: o.refused}
}

func later(anyID bool) int {
	if anyID {
		return 1
	}
	return 0
}

// onlyJSON accepts one media type.
func onlyJSON(p *producer.Producer) { p.MediaTypes = []string{"application/json"} }

// forAudience accepts deliveries of one type only.
func forAudience(kind string) func(*producer.Producer) {
	return func(p *producer.Producer) {
		p.Audience = &producer.Audience{From: producer.JSON("type"), Is: kind}
	}
}

// asAPI sets the API contract.
func asAPI(p *producer.Producer) { p.Contract = producer.API }

// gzipped is a text coded with gzip.
func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// ownProducers use the templates of the scheme hmac, and shared credentials.
func ownProducers() map[string]own {
	template := func(content string) *verify.HMAC {
		h := &verify.HMAC{Headers: []string{"X-Signature"}, Encoding: verify.Hex, Content: content,
			Secrets: verify.Secrets(secret17)}
		if strings.Contains(content, "{timestamp}") {
			h.TimestampHeaders = []string{"X-Time"}
		}
		if strings.Contains(content, "{id}") {
			h.IDHeaders = []string{"X-Event-Id"}
		}
		return h
	}
	id := map[string]string{"X-Event-Id": "evt-17"}
	byField, byBody := producer.Header("X-Event-Id"), producer.JSON("id")
	zipped := map[string]string{"Content-Encoding": "gzip"}
	fixed := template("{url}{body}")
	fixed.URL = publicBase + "/webhooks/own?a=1"
	malleable := template("{url}{body}")
	malleable.Malleable = true
	field := template("{header:X-Event-Id}{body}")
	field.Malleable = true
	return map[string]own{
		"hmac, time and body, id in a field":   {scheme: template("{timestamp}.{body}"), key: byField, fields: id},
		"hmac, time and body, id in the body":  {scheme: template("{timestamp}.{body}"), key: byBody},
		"hmac, time and body, no id":           {scheme: template("{timestamp}.{body}"), key: producer.BodyDigest()},
		"hmac, body, id in a field":            {scheme: template("{body}"), key: byField, fields: id},
		"hmac, body, id in a field, as an API": {scheme: template("{body}"), key: byField, fields: id, change: asAPI},
		"hmac, body, id in the body":           {scheme: template("{body}"), key: byBody},
		"hmac, body, id in a gzip body": {scheme: template("{body}"), key: byBody, fields: zipped,
			body: gzipped(ownBody)},
		"hmac, time and body, id in a gzip body": {scheme: template("{timestamp}.{body}"), key: byBody,
			fields: zipped, body: gzipped(ownBody)},
		"hmac, body, no id":           {scheme: template("{body}"), key: producer.BodyDigest()},
		"hmac, canonical body, no id": {scheme: template("{jcs}"), key: producer.BodyDigest()},
		"hmac, id, time and body": {scheme: template("{id}.{timestamp}.{body}"), key: byField,
			fields: id},
		"hmac, a field and the body": {scheme: template("{header:X-Event-Id}.{body}"), key: byField,
			fields: id},
		"hmac, the body and a field": {scheme: template("{body}.{header:X-Event-Id}"), key: byField,
			fields: id},
		"hmac, URL and body": {scheme: template("{url}\n{body}"), key: producer.Query("id"),
			query: "?id=evt-17"},
		"hmac, the URL that was registered": {scheme: fixed, key: byBody, query: "?a=1"},
		"hmac, URL and body, malleable":     {scheme: malleable, key: byBody},
		"hmac, field and body, malleable":   {scheme: field, key: byField, fields: id},
		"hmac, URL and body without a boundary": {scheme: template("{url}{body}"), key: producer.Query("id"),
			query: "?id=evt-17", refused: true},
		"hmac, field and body without one": {scheme: template("{header:X-Event-Id}{body}"), key: byField,
			fields: id, refused: true},
		"bearer": {scheme: verify.BearerToken(secret17), key: byBody, anyID: true},
		"basic": {scheme: verify.Basic("kettle", secret17), key: byField, fields: id,
			anyID: true},
		"a field": {scheme: verify.HeaderValue("X-Token", secret17), key: byField,
			fields: id, anyID: true},
		"a parameter": {scheme: verify.QueryValue("token", secret17), key: byBody,
			anyID: true},
	}
}

// signedProducers sign by RFC 9421.
func signedProducers() map[string]own {
	id := map[string]string{"X-Event-Id": "evt-17", "X-Type": "paid", "Content-Type": "application/json"}
	binary := map[string]string{
		"Ce-Id": "evt-17", "Ce-Source": "/shop", "Ce-Type": "paid", "Ce-Specversion": "1.0",
		"Content-Type": "application/json",
	}
	event := `{"specversion":"1.0","id":"evt-17","source":"/shop","type":"paid","data":{"n":1}}`
	cloudEvents := func(p *producer.Producer) {
		p.Key, p.Type, p.Split, p.Contract = nil, nil, producer.SplitCloudEvents, producer.API
	}
	byAny := producer.First(producer.Header("X-Event-Id"), producer.JSON("id"))
	byQuery := func(p *producer.Producer) { p.QueryScope, p.Contract = true, producer.API }
	return map[string]own{
		"Idempotency-Key": {
			key:    producer.IdempotencyKey{},
			fields: map[string]string{"Idempotency-Key": `"evt-17"`, "Content-Type": "application/json"},
			change: byQuery,
		},
		"id and type in fields": {
			key: producer.Header("X-Event-Id"), fields: id,
			change: func(p *producer.Producer) { p.Type = producer.Header("X-Type") },
		},
		"id in the query": {key: producer.Query("id"), query: "?id=evt-17&b=2", fields: id,
			change: byQuery},
		"id in the body": {key: producer.JSON("id"), fields: id},
		"method and query pinned": {
			key: producer.JSON("id"), fields: id,
			covered: []string{"@authority", "@path", "content-digest", "content-type"},
		},
		"method pinned, no id": {
			key: producer.BodyDigest(), fields: id, covered: []string{"@target-uri", "content-digest", "content-type"},
		},
		"media type pinned": {
			key: producer.JSON("id"), fields: id, change: onlyJSON, covered: []string{"@target-uri", "content-digest"},
		},
		"media type pinned, no id": {
			key: producer.BodyDigest(), fields: id, change: onlyJSON,
			covered: []string{"@target-uri", "content-digest"},
		},
		"time in a field": {
			key: producer.JSON("id"), fields: id, scheme9421: &verify.RFC9421{TimestampHeader: "X-Time"},
			covered: []string{"@target-uri", "content-digest", "content-type", "x-time"},
		},
		"time in a field, no id": {
			key: producer.BodyDigest(), fields: id, scheme9421: &verify.RFC9421{TimestampHeader: "X-Time"},
			covered: []string{"@target-uri", "content-digest", "content-type", "x-time"},
		},
		"no time": {key: producer.JSON("id"), fields: id, scheme9421: &verify.RFC9421{NoTime: true}},
		"no time, id in a field": {
			key: producer.Header("X-Event-Id"), fields: id, scheme9421: &verify.RFC9421{NoTime: true},
		},
		"no time, two signatures": {
			key: producer.JSON("absent"), fields: id, scheme9421: &verify.RFC9421{NoTime: true}, change: onlyJSON,
			second: []string{"@method", "@target-uri", "content-digest"},
		},
		"no time, two signatures, a query": {
			key: producer.JSON("absent"), fields: id, scheme9421: &verify.RFC9421{NoTime: true}, change: onlyJSON,
			query: "?a=1", covered: []string{"@target-uri", "content-digest"},
			second: []string{"@authority", "@path", "content-digest"},
		},
		"no time, two signatures, a type in a field": {
			key: producer.JSON("absent"), fields: id, scheme9421: &verify.RFC9421{NoTime: true},
			change: func(p *producer.Producer) { p.Type = producer.Header("X-Type") },
			second: []string{"@target-uri", "content-digest", "content-type"},
		},
		"no time, an id that is not there": {
			key: producer.Header("X-Absent"), fields: id, scheme9421: &verify.RFC9421{NoTime: true}, change: onlyJSON,
			second: []string{"@target-uri", "content-digest", "x-type"},
		},
		"two signatures, an id that may be left out": {
			key: byAny, fields: id,
			second: []string{"@target-uri", "content-digest", "content-type", "x-type"},
		},
		"no time, two signatures, an id that may be left out": {
			key: byAny, fields: id, scheme9421: &verify.RFC9421{NoTime: true},
			second: []string{"@target-uri", "content-digest", "content-type"},
		},
		"no time, two signatures, an id in a field": {
			key: producer.Header("X-Event-Id"), fields: id, scheme9421: &verify.RFC9421{NoTime: true},
			second: []string{"@target-uri", "content-digest", "content-type"},
		},
		"no id": {key: producer.BodyDigest(), fields: id},
		"host and path pinned by a secret": {
			key: producer.JSON("id"), fields: id, secret: true, covered: []string{"content-digest", "content-type"},
		},
		"host and path pinned by a secret, two signatures": {
			key: producer.JSON("id"), fields: id, secret: true, below: prefix,
			scheme9421: &verify.RFC9421{NoTime: true},
			covered:    []string{"@target-uri", "content-digest", "content-type"},
			second:     []string{"@query", "content-digest", "content-type"},
		},
		"host and path pinned by an audience": {
			key: producer.JSON("id"), fields: id, covered: []string{"content-digest", "content-type"},
			change: forAudience("paid"), other: forAudience("sold"),
		},
		"host and path pinned by an audience, no time and no id": {
			key: producer.BodyDigest(), fields: id, scheme9421: &verify.RFC9421{NoTime: true},
			covered: []string{"content-digest", "content-type"}, change: forAudience("paid"),
			second: []string{"@target-uri", "content-digest", "content-type"},
		},
		"CloudEvents, binary mode": {fields: binary, change: cloudEvents},
		"CloudEvents, structured mode": {fields: map[string]string{"Content-Type": "application/cloudevents+json"},
			body: event, change: cloudEvents},
		"CloudEvents, a batch": {
			fields: map[string]string{"Content-Type": "application/cloudevents-batch+json"}, body: "[" + event + "]",
			change: cloudEvents,
		},
	}
}

// tokenProducers send deliveries that carry a token, or are one.
func tokenProducers(t *testing.T, now time.Time) map[string]own {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := verify.ParseTokenKeys(fmt.Appendf(nil,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`,
		base64.RawURLEncoding.EncodeToString(public)))
	if err != nil {
		t.Fatal(err)
	}
	token := func(claims string) string {
		signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." +
			base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"aud":"us","iat":%d,"exp":%d,%s}`, now.Unix(),
				now.Add(100*time.Hour).Unix(), claims))
		return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(signed)))
	}
	scheme := func(body bool) verify.Scheme {
		return &verify.JWT{Keys: keys, Algorithms: []string{"EdDSA"}, Audiences: []string{"us"}, Body: body}
	}
	bearer, body := token(`"sub":"kettle"`), token(`"jti":"evt-17","type":"paid"`)
	claimed := func(p *producer.Producer) { p.Type = producer.JWT("type") }
	id := map[string]string{"X-Event-Id": "evt-17"}
	authorize := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+bearer) }
	asIs := func(*http.Request) {}
	digest := &verify.JWT{Keys: keys, Algorithms: []string{"EdDSA"}, Field: "X-Token", BodyClaim: "body"}
	inField := func(claim string) func(*http.Request) {
		value := token(fmt.Sprintf(`"body":"%x",%s`, sha256.Sum256([]byte(ownBody)), claim))
		return func(r *http.Request) { r.Header.Set("X-Token", value) }
	}
	return map[string]own{
		"jwt, a bearer token, id in a field": {scheme: scheme(false), prove: authorize,
			key: producer.Header("X-Event-Id"), fields: id, anyID: true},
		"jwt, a bearer token, id in the body": {scheme: scheme(false), prove: authorize, key: producer.JSON("id"),
			anyID: true},
		"jwt, the body, id in a claim": {scheme: scheme(true), prove: asIs, key: producer.JWT("jti"), body: body,
			change: claimed},
		"jwt, the body, id in a field": {scheme: scheme(true), prove: asIs, key: producer.Header("X-Event-Id"),
			fields: id, body: body, change: claimed},
		"jwt, the body, no id": {scheme: scheme(true), prove: asIs, key: producer.BodyDigest(),
			body: body, change: claimed},
		"jwt, the digest of the body, id in a claim": {scheme: digest, prove: inField(`"jti":"evt-17"`),
			key: producer.JWT("jti")},
		"jwt, the digest of the body, id in a field": {scheme: digest, prove: inField(`"sub":"kettle"`),
			key: producer.Header("X-Event-Id"), fields: id},
		"jwt, the digest of the body, no id": {scheme: digest, prove: inField(`"sub":"kettle"`),
			key: producer.BodyDigest()},
	}
}

// certificateProducers authenticate with a certificate.
func certificateProducers(t *testing.T, now time.Time) map[string]own {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(17), DNSNames: []string{"kettle.example"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(100 * time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	direct, proxied := &verify.MutualTLS{Names: template.DNSNames}, &verify.MutualTLS{
		Names: template.DNSNames, ProxyHeader: "Client-Cert",
		Trusted: func(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "192.0.2.1:") },
	}
	connect := func(r *http.Request) {
		r.TLS = &tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{certificate}, VerifiedChains: [][]*x509.Certificate{{certificate}},
		}
	}
	passOn := func(r *http.Request) {
		r.Header.Set("Client-Cert", ":"+base64.StdEncoding.EncodeToString(certificate.Raw)+":")
	}
	byField, id := producer.Header("X-Event-Id"), map[string]string{"X-Event-Id": "evt-17"}
	return map[string]own{
		"mtls, id in a field":                {scheme: direct, prove: connect, key: byField, fields: id, anyID: true},
		"mtls, id in the body":               {scheme: direct, prove: connect, key: producer.JSON("id"), anyID: true},
		"mtls behind a proxy, id in a field": {scheme: proxied, prove: passOn, key: byField, fields: id, anyID: true},
	}
}
