package receiver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// publicBase is the public URL of the receiver.
const publicBase = "https://hooks.example"

// signer signs a request as a producer does.
type signer interface {
	Sign(r *http.Request, body []byte, now time.Time) error
}

// post is a delivery; header alternates names and values.
func post(name, body string, header ...string) *http.Request {
	return request(http.MethodPost, "/webhooks/"+name, body, header...)
}

func request(method, target, body string, header ...string) *http.Request {
	r, err := http.NewRequest(method, publicBase+target, strings.NewReader(body)) //nolint:noctx // send sets it
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

const (
	secret17 = "the-kettle-is-on-17"
	hexKey   = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
	whsecKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// sampled returns the presets with a sample, and the settings that they need.
func sampled() map[string]preset.Settings {
	text := preset.Settings{Secrets: []string{secret17}}
	hexed := preset.Settings{Secrets: []string{hexKey}}
	standard := preset.Settings{Secrets: []string{whsecKey}}
	return map[string]preset.Settings{
		"ucp":       {SigningKey: adCPKey, MessageKeys: verify.StaticKeys(adCPPublic())},
		"accessowl": {SigningKey: adCPKey}, "pawapay": {SigningKey: pawaPayKey},
		"activitypub": {SigningKey: activityKey}, "openpayments": {SigningKey: adCPKey},
		"ocm":   {SigningKey: adCPKey, MessageKeys: verify.StaticKeys(ofServer())},
		"adcp":  {SigningKey: adCPKey, MessageKeys: verify.StaticKeys(adCPPublic())},
		"adyen": hexed, "adyen-platform": hexed, "aws-eventbridge": {Header: "X-Api-Key", Secrets: []string{secret17}},
		"azure-event-grid": {Query: "code", Secrets: []string{secret17}},
		"chargebee":        {Username: "kettle", Password: secret17},
		"cloudevents":      {Secrets: []string{secret17}},
		"datatrans":        hexed, "dwolla": text, "github": text, "gitlab": text,
		"interledger-rafiki": text, "meta": text, "razorpay": text, "shopify": text, "shopify-events": text,
		"slack": text, "docusign": text,
		"calendly": text, "gitlab-signed": standard, "intercom": text, "line": text, "linear": text,
		"mailgun": text, "mcp-events": standard, "twitch": text, "zendesk": text, "twilio-event-streams": text,
		"hubspot": text, "swt": {Secrets: text.Secrets, Issuers: []string{"https://shop.example"}},
		"okta": text, "paddle": text, "telegram": text, "typeform": text, "workos": text,
		"square":   {Secrets: text.Secrets, SignedURL: publicBase + "/webhooks/square"},
		"trello":   {Secrets: text.Secrets, SignedURL: publicBase + "/webhooks/trello"},
		"mandrill": {Secrets: text.Secrets, SignedURL: publicBase + "/webhooks/mandrill"},
		"postmark": {Username: "kettle", Password: secret17}, "deepgram": {Username: "kettle", Password: secret17},
		"strava": {Query: "key", Secrets: []string{secret17}, Token: "strava-" + secret17},
		"graph":  {Secrets: text.Secrets}, "lark": {Secrets: text.Secrets, Token: "lark-" + secret17},
		"standard-webhooks": standard,
		"vercel":            text, "webflow": text, "elevenlabs": text, "bitbucket": text, "woocommerce": text,
		"xero":  text,
		"clerk": standard, "resend": standard, "openai": standard,
		"stripe": text, "svix": standard, "twilio": text,
		"webengage": {Account: []string{"~17"}, Secrets: []string{secret17}},
		"websub": {Subscriptions: []preset.Subscription{{Topic: "https://blog.example/feed", Secret: secret17,
			Token: "callback-token-17"}}},
		"worldpay": {Keys: map[string]string{"1": secret17}},
		"xsolla":   {Keys: map[string]string{"1": secret17}}, "zoom": text,
	}
}

func openPreset(t *testing.T, name string, s preset.Settings) producer.Producer {
	t.Helper()
	p, ok := preset.Find(name)
	if !ok {
		t.Fatalf("no preset %q", name)
	}
	return p.Open(s)
}

// A delivery of each preset and of each scheme is handled once. The response to it is what its
// sender expects. The same bytes again get that response, as does the event that its sender signed
// again three minutes later.
func TestEveryPresetReachesItsHandlerOnce(t *testing.T) {
	t.Parallel()
	all := presetCaptures(t)
	for _, vendor := range preset.All() {
		if _, ok := all[vendor.Name]; !ok {
			t.Errorf("no delivery of %s", vendor.Name)
		}
	}
	maps.Copy(all, ownCaptures(t))
	for name, c := range all {
		if c.refused {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.reachesItsHandlerOnce)
		})
	}
}

func (c capture) reachesItsHandlerOnce(t *testing.T) {
	handled := make(chan receiver.Event[[]byte], 100)
	arrival := c.now.Add(3 * time.Minute)
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{
		Store: store, Producers: []producer.Producer{c.producer}, Clock: func() time.Time { return arrival },
		Handlers: []receiver.Handler{
			receiver.On(c.producer.Name, "*", func(_ context.Context, ev receiver.Event[[]byte]) error {
				handled <- ev
				return nil
			}),
		},
	})
	again := c.message.clone()
	if by, ok := c.producer.Scheme.(signer); ok {
		r := again.request()
		r.URL.Scheme, r.URL.Host = "https", r.Host
		if by.Sign(r, c.message.body, arrival) == nil { // a scheme with public keys alone cannot sign
			again.header = r.Header
		}
	}
	p := c.producer.WithDefaults()
	want := append(slices.Collect(maps.Values(p.AcceptedTypes)), p.Accepted)
	for i, msg := range []message{c.message, again, c.message} {
		w := answer(rx, msg.clone().request())
		if isReplayed(w) != (i > 0) || !slices.ContainsFunc(want, func(a dedup.Response) bool {
			return w.Code == a.Status && (a.Body == nil || w.Body.String() == string(a.Body))
		}) {
			t.Errorf("response %d is %d %v %q, want one of %v", i, w.Code, w.Header(), w.Body, want)
		}
	}
	synctest.Wait()
	records := recordsOf(t, store)
	if len(records) == 0 || len(handled) != len(records) {
		t.Errorf("%d records, %d events handled", len(records), len(handled))
	}
	for range len(handled) {
		if ev := <-handled; ev.ID == "" || ev.Producer != c.producer.Name ||
			len(ev.Body) == 0 && len(c.message.body) > 0 ||
			ev.Type == "" && c.producer.Preset != "" && c.message.method == http.MethodPost {
			t.Errorf("event %+v", ev)
		}
	}
}

// opened opens a receiver whose log is discarded. It is closed with its store after the test.
func opened(t *testing.T, c receiver.Config) *receiver.Receiver {
	t.Helper()
	c.URL, c.Logger = publicBase, slog.New(slog.DiscardHandler)
	rx, err := receiver.Open(c)
	if err != nil {
		t.Fatal(errors.Join(err, c.Store.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(rx.Close(), c.Store.Close()); err != nil {
			t.Error("close:", err)
		}
	})
	return rx
}

// replaced replaces the configuration of a receiver that [opened] opened.
func replaced(t *testing.T, rx *receiver.Receiver, c receiver.Config) *receiver.Receiver {
	t.Helper()
	c.URL, c.Logger = publicBase, slog.New(slog.DiscardHandler)
	next, err := rx.Replace(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return next
}

// answer returns the response to a request.
func answer(rx *receiver.Receiver, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	rx.Handler().ServeHTTP(w, r)
	return w
}

func isReplayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get("Idempotency-Replayed") == "true"
}

// recordsOf lists the records of a store, newest first, with their bodies.
func recordsOf(t *testing.T, store dedup.Store) []dedup.Record {
	t.Helper()
	var all []dedup.Record
	for rec, err := range store.List(t.Context(), dedup.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// It sends the samples with another secret, and requests a subscription that is not configured.
// TestADeliveryNamesTheSenderThatSigned: one server or actor cannot send for another.
func TestADeliveryNamesTheSenderThatSigned(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, name := range []string{"activitypub", "ocm"} {
		settings := sampled()[name]
		signer, _ := verify.NewPublicKey("k1", "", settings.SigningKey.Public())
		if name == "activitypub" {
			signer, _ = verify.NewPublicKey("k1", verify.RSAv15SHA256, settings.SigningKey.Public())
		}
		for principal, want := range map[string]int{
			"https://other.example/.well-known/jwks.json": 401, map[string]string{
				"activitypub": "k1", "ocm": "https://cloud.example/.well-known/jwks.json"}[name]: 200} {
			signer.Principal = principal
			settings.MessageKeys = verify.StaticKeys(signer)
			store := memstore.New(memstore.Options{})
			rx := opened(t, receiver.Config{Store: store, Producers: []producer.Producer{openPreset(t, name, settings)},
				Clock: func() time.Time { return now }})
			vendor, _ := preset.Find(name)
			r, _, err := vendor.Sample(settings, publicBase+"/webhooks/"+name, "", "evt-17", now)
			if err != nil {
				t.Fatal(err)
			}
			if w := answer(rx, r); w.Code/100 != want/100 {
				t.Errorf("%s of %s: %d %s", name, principal, w.Code, w.Body)
			}
		}
	}
}

func TestForgedDeliveriesNeverReachTheStore(t *testing.T) {
	t.Parallel()
	var producers []producer.Producer
	for name, settings := range sampled() {
		if name == "websub" { // its subscriptions are its configuration
			settings = preset.Settings{Secrets: []string{secret17}}
		}
		producers = append(producers, openPreset(t, name, settings))
	}
	now := time.Now()
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: producers, Clock: func() time.Time { return now }})
	for name, settings := range sampled() {
		vendor, _ := preset.Find(name)
		r, _, err := vendor.Sample(anotherSecret(settings), publicBase+"/webhooks/"+name, "", "evt-17", now)
		if err != nil {
			t.Fatal(err)
		}
		if w := answer(rx, r); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" ||
			strings.Contains(w.Body.String(), secret17) {
			t.Errorf("%s: %d %v %q", name, w.Code, w.Header(), w.Body)
		}
		for _, r := range []*http.Request{
			request("GET", "/webhooks/"+name+"?hub.mode=subscribe&hub.topic=t&hub.challenge=nonce17&hub.verify_token=",
				""),
			request("OPTIONS", "/webhooks/"+name, "", "WebHook-Request-Origin", "nonce17"),
		} {
			if w := answer(rx, r); w.Code < 400 || strings.Contains(w.Body.String()+fmt.Sprint(w.Header()), "nonce17") {
				t.Errorf("%s %s: %d %v %q", r.Method, name, w.Code, w.Header(), w.Body)
			}
		}
	}
	if n := len(recordsOf(t, store)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// anotherSecret returns the settings with other secrets.
func anotherSecret(s preset.Settings) preset.Settings {
	other := strings.NewReplacer(secret17, "the-kettle-is-off-17", hexKey, strings.Repeat("0b", 32),
		whsecKey, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
	s.Password = other.Replace(s.Password)
	secrets := s.Secrets
	s.Secrets = nil
	for _, v := range secrets {
		s.Secrets = append(s.Secrets, other.Replace(v))
	}
	if s.Keys != nil {
		s.Keys = map[string]string{"1": other.Replace(s.Keys["1"])}
	}
	if s.Subscriptions != nil {
		s.Subscriptions = []preset.Subscription{{Topic: s.Subscriptions[0].Topic, Secret: other.Replace(secret17),
			Token: s.Subscriptions[0].Token}}
	}
	if _, ok := s.SigningKey.(*ecdsa.PrivateKey); ok {
		s.SigningKey, _ = verify.GenerateKey(verify.ECDSAP256SHA256)
	} else if _, ok := s.SigningKey.(*rsa.PrivateKey); ok {
		s.SigningKey, _ = rsa.GenerateKey(rand.Reader, 2048)
	} else if s.SigningKey != nil {
		s.SigningKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	}
	return s
}

// recording is the part of a vector case that these tests need.
type recording struct {
	Name, Method, URL, Body string
	Headers                 map[string]string
	Keys                    struct {
		Certs, PublicKeys map[string]string
		Roots             string
		JWKS              json.RawMessage
	}
	Config struct {
		Topics, Issuers []string
		Audience, Email string
		Account         string
	}
	Now    int64
	Expect struct{ ID, Type string }
	Secret json.RawMessage // one, or a list that settings leaves out
}

// recorded returns the first case of a producer with the prefix.
func recorded(t *testing.T, name, prefix string) recording {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", "producers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, one := range cases {
		var head struct{ Name string }
		if err := json.Unmarshal(one, &head); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(head.Name, prefix) {
			continue
		}
		var r recording
		if err := json.Unmarshal(one, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("no case of %s has the prefix %q", name, prefix)
	return recording{}
}

// delivery is the recorded request.
func (r recording) delivery(t *testing.T) *http.Request {
	t.Helper()
	made, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	made.Header = http.Header{}
	for name, value := range r.Headers {
		made.Header.Set(name, value)
	}
	return made
}

// settings are the receiver's settings for the case.
func (r recording) settings(t *testing.T) preset.Settings {
	t.Helper()
	s := preset.Settings{Email: r.Config.Email, Issuers: r.Config.Issuers}
	if r.Config.Account != "" {
		s.Account = []string{r.Config.Account}
	}
	var secret string
	if json.Unmarshal(r.Secret, &secret) == nil && secret != "" {
		s.Secrets = []string{secret}
	}
	if r.Config.Audience != "" {
		s.Audience = []string{r.Config.Audience}
	}
	if r.Keys.JWKS != nil {
		keys, err := verify.ParseTokenKeys(r.Keys.JWKS)
		if err != nil {
			t.Fatal(err)
		}
		s.TokenKeys = keys
	}
	if r.Keys.Certs != nil {
		s.Roots = x509.NewCertPool()
		s.Roots.AppendCertsFromPEM([]byte(r.Keys.Roots))
		s.Fetch = func(_ context.Context, address string) ([]byte, error) {
			if text, ok := r.Keys.Certs[address]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("status 404")
		}
	}
	return s
}

// A client that names certificates of its own invention keeps nobody else from having one fetched,
// also behind a proxy.
func TestForgedCertificateURLsOfOneClientAreFew(t *testing.T) {
	t.Parallel()
	var asked []string
	p := openPreset(t, "paypal", preset.Settings{Account: []string{"WH-17"},
		Fetch: func(_ context.Context, address string) ([]byte, error) {
			asked = append(asked, address)
			return nil, errors.New("status 404")
		}})
	rx, err := receiver.Open(receiver.Config{
		Store: memstore.New(memstore.Options{}), Producers: []producer.Producer{p}, URL: publicBase,
		Logger: slog.New(slog.DiscardHandler), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Handlers: []receiver.Handler{
			receiver.On("paypal", "*", func(context.Context, receiver.Event[[]byte]) error { return nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	send := func(client, name string) {
		r := request(http.MethodPost, "/webhooks/paypal", "{}", "Content-Type", "application/json",
			"Paypal-Transmission-Sig", "AAAA", "Paypal-Auth-Algo", "SHA256withRSA", "Paypal-Transmission-Id", "1",
			"Paypal-Transmission-Time", "2026-11-27T00:00:00Z", "Paypal-Cert-Url", "https://api.paypal.com/"+name)
		r.RemoteAddr = "192.0.2.1:1234"
		r.Header.Set("X-Forwarded-For", client)
		rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	for i := range 30 {
		send("203.0.113.7", fmt.Sprint(i))
	}
	forged := len(asked)
	if send("198.51.100.1", "real"); len(asked) != forged+1 || forged > 10 {
		t.Errorf("%d fetches for one client, %d more for another", forged, len(asked)-forged)
	}
}
