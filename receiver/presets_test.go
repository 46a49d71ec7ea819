package receiver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// publicBase is the public URL of the receiver.
const publicBase = "https://hooks.example"

// diskSite is a receiver with a store on disk behind a real HTTP server.
type diskSite struct {
	t       *testing.T
	store   *badgerstore.Store
	srv     *httptest.Server
	now     time.Time // of signatures, and of the receiver
	handled chan receiver.Event[json.RawMessage]
}

// openDiskSite opens the producers. Without handlers, take gets all events of the first
// producer.
func openDiskSite(t *testing.T, now time.Time, producers []producer.Producer, handlers ...receiver.Handler) *diskSite {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := badgerstore.Open(t.TempDir(), badgerstore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	h := &diskSite{t: t, store: store, now: now, handled: make(chan receiver.Event[json.RawMessage], 100)}
	if handlers == nil {
		handlers = []receiver.Handler{receiver.On(producers[0].Name, "*", h.take)}
	}
	rx, err := receiver.Open(receiver.Config{
		Store: store, Producers: producers, Handlers: handlers, URL: publicBase, Logger: quiet,
		Clock: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(errors.Join(err, store.Close()))
	}
	h.srv = httptest.NewServer(rx.Handler())
	t.Cleanup(func() {
		h.srv.Close()
		if err := errors.Join(rx.Close(), store.Close()); err != nil {
			t.Error("close:", err)
		}
	})
	return h
}

// take is the default handler.
func (h *diskSite) take(_ context.Context, ev receiver.Event[json.RawMessage]) error {
	h.handled <- ev
	return nil
}

// awaited returns the next event of take.
func (h *diskSite) awaited() receiver.Event[json.RawMessage] {
	h.t.Helper()
	select {
	case ev := <-h.handled:
		return ev
	case <-time.After(30 * time.Second):
		h.t.Fatal("no event reached the handler")
	}
	panic("unreachable")
}

// settled waits until no task is open, and fails if take got an event that was not awaited.
func (h *diskSite) settled() {
	h.t.Helper()
	for range 1_000 {
		busy := false
		for _, rec := range h.records() {
			busy = busy || rec.Open()
		}
		if !busy {
			if len(h.handled) > 0 {
				h.t.Errorf("handled once more: %+v", <-h.handled)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatal("some tasks stay open")
}

// records lists the records on disk, newest first.
func (h *diskSite) records() []dedup.Record {
	h.t.Helper()
	var all []dedup.Record
	for rec, err := range h.store.List(h.t.Context(), dedup.Filter{Body: true}) {
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// quarantined counts the records quarantined for the reason.
func (h *diskSite) quarantined(reason string) int {
	n := 0
	for _, rec := range h.records() {
		if rec.QuarantineReason == reason {
			n++
		}
	}
	return n
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

// signedAt signs a request as the producer would at a time, if its scheme signs header fields.
func signedAt(t *testing.T, p producer.Producer, r *http.Request, at time.Time) *http.Request {
	t.Helper()
	if s, ok := p.Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	}); ok {
		if err := s.Sign(r, bodyOf(t, r), at); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// signed signs a request as the producer would.
func (h *diskSite) signed(p producer.Producer, r *http.Request) *http.Request {
	h.t.Helper()
	body := bodyOf(h.t, r)
	if err := p.Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	}).Sign(r, body, h.now); err != nil {
		h.t.Fatal(err)
	}
	return r
}

func bodyOf(t *testing.T, r *http.Request) []byte {
	t.Helper()
	rc, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(rc)
	if err := errors.Join(err, rc.Close()); err != nil {
		t.Fatal(err)
	}
	return body
}

// response is a response as the producer gets it.
type response struct {
	status int
	header http.Header
	body   string
}

func (s response) replayed() bool { return s.header.Get("Idempotency-Replayed") == "true" }

// send sends a request for the public address to the server, as a proxy does. The request can be
// sent again.
func (h *diskSite) send(r *http.Request) response {
	h.t.Helper()
	again, err := http.NewRequestWithContext(h.t.Context(), r.Method, h.srv.URL+r.URL.RequestURI(),
		bytes.NewReader(bodyOf(h.t, r)))
	if err != nil {
		h.t.Fatal(err)
	}
	again.Header = r.Header.Clone()
	again.Host = r.Host
	resp, err := plain.Do(again)
	if err != nil {
		h.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		h.t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(body)}
}

var plain = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// expect sends a delivery and checks the status, and whether the response is a replayed one.
func (h *diskSite) expect(r *http.Request, status int, replayed bool) response {
	h.t.Helper()
	got := h.send(r)
	if got.status != status || got.replayed() != replayed {
		h.t.Fatalf("%s %s: got %d, replayed %v, %q; want %d, replayed %v",
			r.Method, r.URL.Path, got.status, got.replayed(), got.body, status, replayed)
	}
	return got
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
		"adyen": hexed, "adyen-platform": hexed, "aws-eventbridge": {Header: "X-Api-Key", Value: secret17},
		"azure-event-grid": {Query: "code", Value: secret17}, "chargebee": {Username: "kettle", Password: secret17},
		"cloudevents": {Bearer: secret17}, "datatrans": hexed, "dwolla": text, "github": text, "gitlab": text,
		"interledger-rafiki": text, "meta": text, "razorpay": text, "shopify": text, "shopify-events": text,
		"slack": text, "docusign": text,
		"calendly": text, "gitlab-signed": standard, "intercom": text, "line": text, "linear": text,
		"mailgun": text, "mcp-events": standard, "twitch": text, "zendesk": text, "twilio-event-streams": text,
		"hubspot": text, "swt": {Secrets: text.Secrets, Issuers: []string{"https://shop.example"}},
		"okta": text, "paddle": text, "telegram": text, "typeform": text, "workos": text,
		"square":            {Secrets: text.Secrets, NotificationURL: publicBase + "/webhooks/square"},
		"standard-webhooks": standard,
		"stripe":            text, "svix": standard, "twilio": text,
		"webengage": {LicenseCode: "~17", SecretKey: secret17},
		"websub": {Subscriptions: []preset.Subscription{{Topic: "https://blog.example/feed", Secret: secret17,
			Token: "callback-token-17"}}},
		"worldpay": {Keys: map[string]string{"1": secret17}}, "zoom": text,
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

// It delivers a sample of each vendor twice, and once damaged.
func TestEveryPresetReachesItsHandlerOnce(t *testing.T) {
	t.Parallel()
	for name, settings := range sampled() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vendor, _ := preset.Find(name)
			h := openDiskSite(t, time.Now(), []producer.Producer{vendor.Open(settings)})
			r, _, err := vendor.Sample(settings, publicBase+"/webhooks/"+name, "", "evt-17", h.now)
			if err != nil {
				t.Fatal(err)
			}
			first := h.expect(r, http.StatusOK, false)
			ev := h.awaited()
			if ev.Type == "" || ev.ID == "" || ev.Producer != name || len(ev.Body) == 0 {
				t.Errorf("event %+v", ev)
			}
			second := h.expect(r, http.StatusOK, true)
			if second.body != first.body || second.header.Get("Content-Type") != first.header.Get("Content-Type") {
				t.Errorf("the duplicate got %q, the first got %q", second.body, first.body)
			}
			h.settled()
			if n := len(h.records()); n != 1 {
				t.Errorf("%d records", n)
			}
		})
	}
}

// Senders sign a retry again, or send the same bytes again.
func TestAPresetThatSignsAgainLaterSendsADuplicate(t *testing.T) {
	t.Parallel()
	deliveries := map[string]func(at time.Time) (producer.Producer, *http.Request){
		"own": func(at time.Time) (producer.Producer, *http.Request) { // as in the README
			p := producer.Producer{
				Name: "own", Contract: producer.Webhook, Key: producer.JSON("id"), Type: producer.JSON("type"),
				Scheme: &verify.HMAC{
					Headers: []string{"X-Signature"}, Encoding: verify.Hex, Content: "{timestamp}.{body}",
					TimestampHeaders: []string{"X-Timestamp"}, Secrets: verify.Secrets(secret17),
				},
			}
			return p, signedAt(t, p, post(p.Name, `{"id":"evt-17","type":"made"}`), at)
		},
		"unnamed": func(at time.Time) (producer.Producer, *http.Request) {
			p := producer.Producer{
				Name: "unnamed", Contract: producer.Webhook, Key: producer.BodyDigest(),
				Scheme: &verify.HMAC{
					Headers: []string{"X-Signature"}, Encoding: verify.Hex, Content: "{timestamp}.{body}",
					TimestampHeaders: []string{"X-Timestamp"}, Secrets: verify.Secrets(secret17),
				},
			}
			return p, signedAt(t, p, post(p.Name, `{"type":"made"}`), at)
		},
	}
	for name, settings := range sampled() {
		vendor, _ := preset.Find(name)
		deliveries[name] = func(at time.Time) (producer.Producer, *http.Request) {
			p := vendor.Open(settings)
			r, _, err := vendor.Sample(settings, publicBase+"/webhooks/"+name, "", "evt-17",
				time.Unix(1_900_000_000, 0))
			if err != nil {
				t.Fatal(err)
			}
			return p, signedAt(t, p, r, at)
		}
	}
	for name, deliver := range deliveries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_900_000_000, 0)
			p, first := deliver(now)
			h := openDiskSite(t, now.Add(3*time.Minute), []producer.Producer{p})
			_, later := deliver(now.Add(3 * time.Minute))
			for i, r := range []*http.Request{first, later, first} {
				h.expect(r, http.StatusOK, i > 0)
			}
			h.awaited()
			h.settled()
		})
	}
}

// It sends the same samples with another secret.
func TestForgedDeliveriesNeverReachTheStore(t *testing.T) {
	t.Parallel()
	var producers []producer.Producer
	for name, settings := range sampled() {
		producers = append(producers, openPreset(t, name, settings))
	}
	h := openDiskSite(t, time.Now(), producers)
	for name, settings := range sampled() {
		vendor, _ := preset.Find(name)
		r, _, err := vendor.Sample(anotherSecret(settings), publicBase+"/webhooks/"+name, "", "evt-17", h.now)
		if err != nil {
			t.Fatal(err)
		}
		got := h.expect(r, http.StatusUnauthorized, false)
		if got.header.Get("WWW-Authenticate") == "" || strings.Contains(got.body, secret17) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if n := len(h.records()); n != 0 {
		t.Errorf("%d records", n)
	}
}

// anotherSecret returns the settings with other secrets.
func anotherSecret(s preset.Settings) preset.Settings {
	other := strings.NewReplacer(secret17, "the-kettle-is-off-17", hexKey, strings.Repeat("0b", 32),
		whsecKey, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
	s.Value, s.Password = other.Replace(s.Value), other.Replace(s.Password)
	s.Bearer, s.SecretKey = other.Replace(s.Bearer), other.Replace(s.SecretKey)
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
	return s
}

// GitHub signs the body, but not the identifier.
func TestGitHubRepetitionsAreQuarantined(t *testing.T) {
	t.Parallel()
	p := preset.GitHub(secret17)
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	push := func(guid, body string) *http.Request {
		return h.signed(p, post("github", body, "X-GitHub-Event", "push", "X-GitHub-Delivery", guid))
	}
	h.expect(push("guid-1", `{"ref":"a"}`), 200, false)
	original := h.awaited()
	if original.VendorID != "guid-1" || !strings.HasPrefix(original.ID, "sha256:") {
		t.Errorf("id %q, vendor's id %q", original.ID, original.VendorID)
	}

	// The same signed bytes under identifiers of an attacker.
	for i := range 20 {
		guid := "attacker-" + strings.Repeat("x", i)
		if got := h.expect(push(guid, `{"ref":"a"}`), 200, false); !strings.Contains(got.body, "kept_aside") {
			t.Errorf("%+v", got)
		}
	}
	if n := h.quarantined("same_bytes"); n != 16 {
		t.Errorf("%d repetitions are stored, want 16", n)
	}

	// The same identifier with another payload signed by GitHub is another event.
	h.expect(push("guid-1", `{"ref":"b"}`), 200, false)
	h.expect(push("guid-1", `{"ref":"b"}`), 200, true)
	if other := h.awaited(); other.VendorID != "guid-1" || other.ID == original.ID {
		t.Errorf("%+v", other)
	}
	for _, rec := range h.records() {
		if rec.QuarantineReason != "" && (rec.Original != original.EventID || !rec.Shared) {
			t.Errorf("%s is quarantined for %q", rec.Key.ID, rec.Original)
		}
		if rec.Event == original.EventID && rec.QuarantineCount != 20 {
			t.Errorf("%d are counted, want 20", rec.QuarantineCount)
		}
	}
	h.settled()
}

// It has no body of its own, and runs even after its original was purged.
func TestAQuarantinedDeliveryRunsWithTheBodyOfItsOriginal(t *testing.T) {
	t.Parallel()
	p := preset.GitHub(secret17)
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	for _, guid := range []string{"guid-1", "guid-2", "guid-3", "guid-4"} {
		h.expect(h.signed(p, post("github", `{"ref":"a"}`, "X-GitHub-Event", "push", "X-GitHub-Delivery", guid)), 200,
			false)
	}
	original := h.awaited().EventID
	h.settled()
	if err := h.store.Purge(t.Context(), original); err != nil {
		t.Fatal(err)
	}
	for _, rec := range h.records() {
		if _, err := h.store.Reopen(t.Context(), rec.Event); err != nil {
			t.Fatal(err)
		}
		if ev := h.awaited(); ev.EventID != rec.Event || string(ev.Body) != `{"ref":"a"}` ||
			ev.VendorID != rec.Payload.VendorID {
			t.Errorf("%+v", ev)
		}
	}
	h.settled()
}

// Stripe signs a retry again, while a proxy may repeat old bytes.
func TestStripeResentLaterGetsItsAnswer(t *testing.T) {
	t.Parallel()
	p := preset.Stripe(secret17)
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	const body = `{"id":"evt_17","type":"charge.succeeded","data":{}}`
	old := h.signed(p, post("stripe", body))
	h.expect(old, 200, false)
	if ev := h.awaited(); ev.ID != "evt_17" || ev.Type != "charge.succeeded" {
		t.Errorf("%+v", ev)
	}
	h.now = h.now.Add(-time.Minute)
	h.expect(h.signed(p, post("stripe", body)), 200, true)
	h.now = h.now.Add(-time.Hour)
	h.expect(h.signed(p, post("stripe", body)), 200, true)
	h.expect(h.signed(p, post("stripe", strings.Replace(body, "evt_17", "evt_18", 1))), 401, false)
	h.settled()
}

func TestSlackChallengeAndEvents(t *testing.T) {
	t.Parallel()
	p := preset.Slack(secret17)
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	challenge := post("slack", `{"type":"url_verification","token":"x","challenge":"<script>alert(1)</script>"}`)
	h.expect(challenge, 401, false)
	got := h.expect(h.signed(p, challenge), 200, false)
	if got.body != "<script>alert(1)</script>" {
		t.Errorf("got %q", got.body)
	}
	isInert(t, got)
	event := h.signed(p, post("slack", `{"type":"event_callback","event_id":"Ev17","event":{"type":"app_mention"}}`))
	h.expect(event, 200, false)
	if ev := h.awaited(); ev.ID != "Ev17" || ev.Type != "app_mention" {
		t.Errorf("%+v", ev)
	}
	h.expect(event, 200, true)
	h.settled()
	if n := len(h.records()); n != 1 {
		t.Errorf("%d records: a challenge is not an event", n)
	}
}

// isInert checks that browsers show the echoed challenge as text.
func isInert(t *testing.T, got response) {
	t.Helper()
	kind := got.header.Get("Content-Type")
	if !strings.HasPrefix(kind, "text/plain") && kind != "application/json" ||
		got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a challenge is echoed as %q, %q", kind, got.header.Get("X-Content-Type-Options"))
	}
}

// Twilio plays the response of the handler on the call, so a duplicate must get the same one.
func TestTwilioGetsItsTwiMLAgain(t *testing.T) {
	t.Parallel()
	p := preset.Twilio(secret17)
	ran := make(chan string, 10)
	h := openDiskSite(t, time.Now(), []producer.Producer{p},
		receiver.Answer("twilio", "*",
			func(_ context.Context, ev receiver.Event[url.Values]) (receiver.Response, error) {
				ran <- ev.Data.Get("From") + " " + ev.Type
				return receiver.Response{
					Header: http.Header{"Content-Type": {"text/xml"}},
					Body:   []byte("<Response><Say>tea</Say></Response>"),
				}, nil
			}))
	call := func(form string) *http.Request {
		return h.signed(p, post("twilio", form, "Content-Type", "application/x-www-form-urlencoded",
			"I-Twilio-Idempotency-Token", "tok-1"))
	}
	first := call("CallSid=CA17&CallStatus=ringing&From=%2B15550017")
	for _, replayed := range []bool{false, true, true} {
		got := h.expect(first, 200, replayed)
		if got.body != "<Response><Say>tea</Say></Response>" || got.header.Get("Content-Type") != "text/xml" {
			t.Errorf("got %+v", got)
		}
	}
	if got := <-ran; got != "+15550017 ringing" {
		t.Errorf("the handler saw %q", got)
	}
	// Another form under the same token is another call and must not get the response of the first.
	h.expect(call("CallSid=CA18&CallStatus=ringing&From=%2B15550018"), 200, false)
	if got := <-ran; got != "+15550018 ringing" {
		t.Errorf("the handler saw %q", got)
	}
}

// Adyen expects the body "[accepted]".
func TestAdyenBatchesAreAccepted(t *testing.T) {
	t.Parallel()
	vendor, _ := preset.Find("adyen")
	settings := sampled()["adyen"]
	h := openDiskSite(t, time.Now(), []producer.Producer{vendor.Open(settings)})
	r, _, err := vendor.Sample(settings, publicBase+"/webhooks/adyen", "CAPTURE", "psp17", h.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, replayed := range []bool{false, true} {
		if got := h.expect(r, 200, replayed); got.body != "[accepted]" ||
			!strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
			t.Errorf("got %+v", got)
		}
	}
	if ev := h.awaited(); ev.Type != "CAPTURE" || !strings.Contains(ev.ID, "psp17") {
		t.Errorf("%+v", ev)
	}
	h.settled()
}
