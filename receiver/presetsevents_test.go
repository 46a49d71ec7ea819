package receiver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

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
		WebhookID       string `json:"webhook_id"`
		MerchantID      string `json:"merchant_id"`
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

// fakeSNS is a local server in the role of SNS: it serves certificates and accepts
// confirmations.
type fakeSNS struct {
	client *http.Client
	mu     sync.Mutex
	asked  []string // URLs of confirmations
	down   bool
}

func newFakeSNS(t *testing.T, certs map[string]string) *fakeSNS {
	t.Helper()
	a := &fakeSNS{}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := "https://" + r.Host + r.URL.RequestURI()
		if text, ok := certs[address]; ok {
			_, _ = io.WriteString(w, text)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		a.asked = append(a.asked, address)
		_, _ = io.WriteString(w, "<ConfirmSubscriptionResponse/>")
	}))
	t.Cleanup(srv.Close)
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	a.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", srv.Listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{RootCAs: pool,
			ServerName: "example.com"}, DisableKeepAlives: true, // the name in httptest's certificate
	}}
	return a
}

// fetch resolves every address to the local server.
func (a *fakeSNS) fetch(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return text, nil
}

func (a *fakeSNS) set(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

func (a *fakeSNS) confirmations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

func TestSNSConfirmsAndDelivers(t *testing.T) {
	t.Parallel()
	confirm, message := recorded(t, "aws-sns", "handshake: made"), recorded(t, "aws-sns", "valid: made, version 2")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(confirm.Keys.Roots))
	sns := newFakeSNS(t, confirm.Keys.Certs)
	p := openPreset(t, "aws-sns",
		preset.Settings{Topics: confirm.Config.Topics, CheckChain: true, Roots: roots, Fetch: sns.fetch})
	h := openDiskSite(t, time.Unix(confirm.Now, 0), []producer.Producer{p})
	at := func(r recording) *http.Request {
		d := r.delivery(t)
		d.URL.Path = "/webhooks/aws-sns"
		return d
	}

	tampered := confirm
	tampered.Body = strings.Replace(confirm.Body, "ConfirmSubscription", "ConfirmSubscriptioN", 1)
	h.expect(at(tampered), 401, false)
	if got := sns.confirmations(); len(got) != 0 {
		t.Fatalf("an unverified message caused a fetch of %q", got)
	}
	sns.set(true)
	if got := h.expect(at(confirm), 503, false); got.header.Get("Retry-After") == "" {
		t.Errorf("SNS got no retryable response: %+v", got)
	}
	sns.set(false)
	h.expect(at(confirm), 200, false)
	var subscribe struct{ SubscribeURL string }
	if err := json.Unmarshal([]byte(confirm.Body), &subscribe); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{subscribe.SubscribeURL}, sns.confirmations()); d != "" {
		t.Errorf("confirmed (-want +got):\n%s", d)
	}

	h.expect(at(message), 200, false)
	ev := h.awaited()
	if ev.ID != message.Expect.ID || ev.Type != "Notification" || ev.Extensions["topic"] != confirm.Config.Topics[0] ||
		ev.Time.IsZero() {
		t.Errorf("event %+v", ev)
	}
	h.expect(at(message), 200, true)
	h.settled()
	if n := len(h.records()); n != 1 {
		t.Errorf("%d records: a confirmation is not an event", n)
	}
}

// It sends recorded deliveries of vendors whose tokens only they can sign.
func TestRecordedTokensReachTheirHandlers(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"paypal": 200, "yandex-pay": 200, "openbanking-uk": 202,
		"google-eventarc": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := map[string]string{"paypal": "valid: made chain root", "google-eventarc": "valid: plain"}[name]
			rec := recorded(t, name, prefixOr(prefix, "valid"))
			h := openDiskSite(t, time.Unix(rec.Now, 0), []producer.Producer{openPreset(t, name, rec.settings(t))})
			d := rec.delivery(t)
			d.URL.Path, d.URL.RawQuery = "/webhooks/"+name, ""
			h.expect(d, status, false)
			if ev := h.awaited(); rec.Expect.ID != "" && ev.ID != rec.Expect.ID || ev.Type != rec.Expect.Type {
				t.Errorf("id %q, type %q; want %q, %q", ev.ID, ev.Type, rec.Expect.ID, rec.Expect.Type)
			}
			h.expect(d, status, true)
			h.settled()
		})
	}
}

func prefixOr(prefix, otherwise string) string {
	if prefix == "" {
		return otherwise
	}
	return prefix
}

// settings are the receiver's settings for the case.
func (r recording) settings(t *testing.T) preset.Settings {
	t.Helper()
	s := preset.Settings{Email: r.Config.Email, Issuers: r.Config.Issuers, WebhookID: r.Config.WebhookID,
		MerchantID: r.Config.MerchantID}
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
		s.Fetch = newFakeSNS(t, r.Keys.Certs).fetch
	}
	return s
}

// Google uses a token for an hour, so a message with a known token is not a replay.
func TestOneGoogleTokenServesManyMessages(t *testing.T) {
	t.Parallel()
	rec := recorded(t, "google-eventarc", "valid: plain")
	h := openDiskSite(t, time.Unix(rec.Now, 0), []producer.Producer{openPreset(t, "google-pubsub", rec.settings(t))})
	push := func(id, data string, attempt int) *http.Request {
		return post("google-pubsub", fmt.Sprintf(
			`{"deliveryAttempt":%d,"message":{"data":%q,"messageId":%q,"publishTime":"2026-01-02T03:04:05.678Z"},`+
				`"subscription":"s"}`,
			attempt, data, id), "Authorization", rec.Headers["Authorization"])
	}
	ids := map[string]bool{}
	for i := range 30 {
		h.expect(push(fmt.Sprint("m", i), "dGVh", 1), 200, false)
		ev := h.awaited()
		ids[ev.ID] = true
		if ev.Source != "s" || ev.Type != "s" || !ev.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)) {
			t.Errorf("%+v", ev)
		}
	}
	if len(ids) != 30 {
		t.Errorf("%d messages were handled", len(ids))
	}
	h.expect(push("m7", "dGVh", 2), 200, true) // the counter of attempts does not make it another event
	h.expect(push("m7", "bWlsaw==", 2), 200, false)
	h.settled()
	if conflicts, replays := h.quarantined("conflict"), h.quarantined("replayed"); conflicts != 1 || replays != 0 {
		t.Errorf("%d conflicts, %d replays are quarantined", conflicts, replays)
	}
	forged := push("m99", "dGVh", 1)
	forged.Header.Set("Authorization", rec.Headers["Authorization"]+"x")
	h.expect(forged, 401, false)
}

// A subscription is validated, and each item of a batch is an event.
func TestEventGridBatches(t *testing.T) {
	t.Parallel()
	h := openDiskSite(t, time.Now(), []producer.Producer{openPreset(t, "azure-event-grid", preset.Settings{
		Query: "code", Value: secret17, Origins: []string{"eventgrid.azure.net"},
	})})
	const path = "/webhooks/azure-event-grid?code=" + secret17
	validation := `[{"id":"v","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","topic":"t",` +
		`"data":{"validationCode":"<b>17</b>","validationUrl":"` + forbidden(t) + `"}}]`
	h.expect(post("azure-event-grid", validation, "Aeg-Event-Type", "SubscriptionValidation"), 401, false)
	got := h.expect(request("POST", path, validation, "Aeg-Event-Type", "SubscriptionValidation"), 200, false)
	var answer struct{ ValidationResponse string }
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.ValidationResponse != "<b>17</b>" {
		t.Errorf("%+v, %v", got, err)
	}
	isInert(t, got)

	batch := func(events ...string) *http.Request {
		return request("POST", path, "["+strings.Join(events, ",")+"]", "Aeg-Event-Type", "Notification")
	}
	event := func(id, total string) string {
		return fmt.Sprintf(`{"id":%q,"eventType":"Shop.Sold","topic":"/t","subject":"orders/%s",`+
			`"eventTime":"2026-01-02T03:04:05Z","data":{"total":%q}}`, id, id, total)
	}
	h.expect(batch(event("1", "5"), event("2", "6"), event("3", "7")), 200, false)
	for range 3 {
		ev := h.awaited()
		if ev.Type != "Shop.Sold" || ev.Source != "/t" || ev.Subject != "orders/"+ev.ID || ev.Time.IsZero() {
			t.Errorf("%+v", ev)
		}
	}
	h.expect(batch(event("1", "5"), event("2", "6"), event("3", "7")), 200, true)
	// One conflicting item is quarantined, the known one is ignored, and the new one is handled.
	h.expect(batch(event("1", "5"), event("2", "66"), event("4", "8")), 200, false)
	if ev := h.awaited(); ev.ID != "4" {
		t.Errorf("%+v", ev)
	}
	h.settled()
	if n := h.quarantined("conflict"); n != 1 || len(h.records()) != 5 {
		t.Errorf("%d conflicts in %d records, want 1 in 5", n, len(h.records()))
	}
	// If one identifier is missing, nothing of the batch is stored.
	h.expect(batch(event("5", "9"), `{"eventType":"Shop.Sold"}`), 400, false)
	if n := len(h.records()); n != 5 {
		t.Errorf("%d records", n)
	}
}

const structured = "application/cloudevents+json"

func sold(id, extra string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"/shop","type":"sold","subject":"tea pot",` +
		`"time":"2026-01-02T03:04:05.5+09:00","shard":7,"datacontenttype":"application/json",` +
		`"data":{"N":` + extra + `}}`
}

func bearer(header ...string) []string { return append(header, "Authorization", "Bearer "+secret17) }

func binary(id, n string) *http.Request {
	return post("cloudevents", `{"N":`+n+`}`,
		bearer("Ce-Specversion", "1.0", "Ce-Id", id, "Ce-Source", "/shop", "Ce-Type", "sold",
			"Ce-Subject", "tea%20pot", "Ce-Time", "2026-01-02T03:04:05.5+09:00", "Ce-Shard", "7")...)
}

// facts are what a handler gets of a CloudEvent.
type facts struct {
	ID, Type, Source, Subject, Time string
	Extensions                      map[string]string
	N                               int
}

// Handlers get the same event in every mode.
func TestCloudEventsInThreeModes(t *testing.T) {
	t.Parallel()
	handled := make(chan facts, 10)
	h := openDiskSite(t, time.Now(), []producer.Producer{openPreset(t, "cloudevents", preset.Settings{
		Bearer: secret17, Batch: true, Origins: []string{"shop.example"}, Rate: 100,
	})}, receiver.On("cloudevents", "sold", func(_ context.Context, ev receiver.Event[struct{ N int }]) error {
		handled <- facts{ev.ID, ev.Type, ev.Source, ev.Subject, ev.Time.Format(time.RFC3339Nano), ev.Extensions,
			ev.Data.N}
		return nil
	}))
	expect := func(id string, n int) {
		t.Helper()
		want := facts{
			producer.JoinID("/shop", id), "sold", "/shop", "tea pot", "2026-01-02T03:04:05.5+09:00",
			map[string]string{"shard": "7"}, n,
		}
		select {
		case got := <-handled:
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no event reached the handler")
		}
	}
	h.expect(post("cloudevents", sold("1", "5"), bearer("Content-Type", structured)...), 200, false)
	expect("1", 5)
	h.expect(binary("2", "6"), 200, false)
	expect("2", 6)
	batch := func(events ...string) *http.Request {
		return post("cloudevents", "["+strings.Join(events, ",")+"]",
			bearer("Content-Type", "application/cloudevents-batch+json")...)
	}
	h.expect(batch(sold("3", "7")), 200, false)
	expect("3", 7)
	h.expect(batch(), 200, false)

	h.expect(post("cloudevents", sold("1", "5"), bearer("Content-Type", structured)...), 200, true)
	h.expect(binary("2", "6"), 200, true)
	h.expect(batch(sold("1", "5"), sold("3", "7")), 200, true)
	h.expect(batch(sold("3", "77"), sold("4", "8")), 200, false)
	expect("4", 8)
	h.expect(binary("2", "66"), 200, false)
	h.settled()
	if n := h.quarantined("conflict"); n != 2 || len(handled) != 0 {
		t.Errorf("%d conflicts are quarantined, want 2; %d more were handled", n, len(handled))
	}
	h.expect(post("cloudevents", "{}", bearer("Content-Type", "application/cloudevents+avro")...), 415, false)
	cloudEventsOptions(t, h)
}

// cloudEventsOptions requests a subscription, once for a configured sender and once for another.
func cloudEventsOptions(t *testing.T, h *diskSite) {
	t.Helper()
	got := h.expect(request("OPTIONS", "/webhooks/cloudevents", "", "WebHook-Request-Origin", "shop.example",
		"WebHook-Request-Rate", "120",
		"WebHook-Request-Callback", forbidden(t)), 200, false)
	if got.header.Get("WebHook-Allowed-Origin") != "shop.example" || got.header.Get("WebHook-Allowed-Rate") != "100" {
		t.Errorf("%v", got.header)
	}
	got = h.expect(request("OPTIONS", "/webhooks/cloudevents", "", "WebHook-Request-Origin", "stranger.example"), 405,
		false)
	if got.header.Get("Allow") == "" || got.header.Get("WebHook-Allowed-Origin") != "" ||
		strings.Contains(got.body, "stranger") {
		t.Errorf("%+v", got)
	}
}

// Batches are off by default.
func TestCloudEventsCanBeAnsweredUnlessTheyComeInBatches(t *testing.T) {
	t.Parallel()
	quote := receiver.Answer("cloudevents", "sold",
		func(_ context.Context, ev receiver.Event[struct{ N int }]) (receiver.Response, error) {
			return receiver.Response{Body: fmt.Appendf(nil, `{"total":%d}`, 2*ev.Data.N)}, nil
		})
	h := openDiskSite(t, time.Now(),
		[]producer.Producer{openPreset(t, "cloudevents", preset.Settings{Bearer: secret17})}, quote)
	for _, replayed := range []bool{false, true} {
		if got := h.expect(binary("1", "21"), 200, replayed); got.body != `{"total":42}` {
			t.Errorf("%+v", got)
		}
	}
	if got := h.expect(post("cloudevents", sold("2", "4"), bearer("Content-Type", structured)...), 200,
		false); got.body != `{"total":8}` {
		t.Errorf("%+v", got)
	}
	h.expect(post("cloudevents", "["+sold("3", "7")+"]",
		bearer("Content-Type", "application/cloudevents-batch+json")...), 415, false)
	if n := len(h.records()); n != 2 {
		t.Errorf("%d records", n)
	}
	_, err := receiver.Open(receiver.Config{
		Store: h.store, Handlers: []receiver.Handler{quote},
		Producers: []producer.Producer{openPreset(t, "cloudevents", preset.Settings{Bearer: secret17, Batch: true})},
	})
	if err == nil || !strings.Contains(err.Error(), "sends batches") {
		t.Errorf("opened with batches and an Answer handler: %v", err)
	}
}

// forbidden is an address in an unverified message. Calling it fails the test.
func forbidden(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was called because of an unverified message", r.Method, r.URL)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// It requests an unconfigured subscription from every preset.
func TestUnsignedChallengesAreOffUntilConfigured(t *testing.T) {
	t.Parallel()
	var producers []producer.Producer
	for name, settings := range sampled() {
		if name == "websub" { // its subscriptions are its configuration
			settings = preset.Settings{Secrets: []string{secret17}}
		}
		producers = append(producers, openPreset(t, name, settings))
	}
	h := openDiskSite(t, time.Now(), producers)
	for name := range sampled() {
		for _, r := range []*http.Request{
			request("GET", "/webhooks/"+name+"?hub.mode=subscribe&hub.topic=t&hub.challenge=nonce17&hub.verify_token=",
				""),
			request("OPTIONS", "/webhooks/"+name, "", "WebHook-Request-Origin", "nonce17"),
		} {
			got := h.send(r)
			if got.status < 400 || strings.Contains(got.body+fmt.Sprint(got.header), "nonce17") {
				t.Errorf("%s %s: %+v", r.Method, name, got)
			}
		}
	}
}

// Browsers show an echoed challenge as text. An unconfigured subscription is refused as the
// vendor expects.
func TestUnsignedChallengesEchoTextOnly(t *testing.T) {
	t.Parallel()
	const topic, script = "https://blog.example/feed", "%3Cscript%3E"
	h := openDiskSite(t, time.Now(), []producer.Producer{
		openPreset(t, "websub", preset.Settings{Subscriptions: []preset.Subscription{{Topic: topic, Secret: secret17,
			Token: "callback-token-17"}}}),
		openPreset(t, "meta", preset.Settings{Secrets: []string{secret17}, VerifyToken: "wanted"}),
	})
	const websub, meta = "/webhooks/websub?token=callback-token-17&hub.mode=", "/webhooks/meta?hub.mode=subscribe&"
	for _, target := range []string{
		websub + "subscribe&hub.topic=" + topic + "&hub.challenge=" + script,
		meta + "hub.verify_token=wanted&hub.challenge=" + script,
	} {
		got := h.expect(request("GET", target, ""), 200, false)
		if got.body != "<script>" {
			t.Errorf("%s: %+v", target, got)
		}
		isInert(t, got)
	}
	for target, status := range map[string]int{
		websub + "subscribe&hub.topic=https://evil.example&hub.challenge=" + script:  404,
		websub + "unsubscribe&hub.topic=" + topic + "&hub.challenge=" + script:       404,
		meta + "hub.verify_token=unwanted&hub.challenge=" + script:                   403,
		meta + "hub.challenge=" + script:                                             403,
		meta + "hub.verify_token=wanted&hub.challenge=" + strings.Repeat("x", 2_000): 403,
	} {
		got := h.expect(request("GET", target, ""), status, false)
		if strings.Contains(got.body, "<scr") || strings.Contains(got.body, "xxx") {
			t.Errorf("%.80s: %+v", target, got)
		}
	}
	if n := len(h.records()); n != 0 {
		t.Errorf("%d records", n)
	}
}

// A client that names certificates of its own invention keeps nobody else from having one fetched,
// also behind a proxy.
func TestForgedCertificateURLsOfOneClientAreFew(t *testing.T) {
	t.Parallel()
	var asked []string
	p := openPreset(t, "paypal", preset.Settings{WebhookID: "WH-17",
		Fetch: func(_ context.Context, address string) ([]byte, error) {
			asked = append(asked, address)
			return nil, errors.New("status 404")
		}})
	rx, err := receiver.Open(receiver.Config{
		Store: dedup.NewMemory(dedup.MemoryOptions{}), Producers: []producer.Producer{p}, URL: publicBase,
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
