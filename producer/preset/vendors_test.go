package preset

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// fields returns an unsigned request with the header fields.
func fields(t *testing.T, method, address string, pairs ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

func TestGitHubActionIsAnAttribute(t *testing.T) {
	t.Parallel()
	p := GitHub(testSecret)
	const body = `{"action":"opened","number":17}`
	r := fields(t, http.MethodPost, testHook, "X-GitHub-Event", "pull_request", "X-GitHub-Delivery", "d17")
	if _, err := signBy(p.Scheme, r, []byte(body), testNow); err != nil {
		t.Fatal(err)
	}
	items, _, err := receive(p, r, []byte(body), testNow)
	if err != nil || items[0].Type != "pull_request" || items[0].Attributes["action"] != "opened" ||
		items[0].ID != "d17" {
		t.Errorf("got %+v, %v", items, err)
	}
	r.Header.Del("X-GitHub-Delivery")
	if _, _, err := receive(p, r, []byte(body), testNow); verify.CodeOf(err) != verify.IDMissing {
		t.Errorf("GitHub always sends an id: got %v", err)
	}
	if p.MaxBody != 25<<20 {
		t.Errorf("got a limit of %d bytes", p.MaxBody)
	}
}

func TestCloudEventsAreGrantedToOriginsInAnyCase(t *testing.T) {
	t.Parallel()
	p := Open("cloudevents", Settings{Secrets: []string{"0123456789abcdef"}, Origins: []string{"sender.example"}})
	reply, err := p.Challenge(fields(t, http.MethodOptions, testHook, "WebHook-Request-Origin", "Sender.Example"))
	if err != nil || reply.Status != 200 || p.WithDefaults().Accepted.Header.Get("Cache-Control") != "private" {
		t.Errorf("got %+v, %v, accepted with %+v", reply, err, p.WithDefaults().Accepted)
	}
	if Open("cloudevents", Settings{Secrets: []string{"0123456789abcdef"}}).Challenge != nil {
		t.Error("subscriptions are granted without being configured")
	}
}

func TestSvixReadsTheSignedIdentifier(t *testing.T) {
	t.Parallel()
	p := With("svix", testWhsec)
	r := fields(t, http.MethodPost, testHook, "webhook-id", "e17")
	if err := With("standard-webhooks", testWhsec).Scheme.(*verify.HMAC).Sign(r, []byte("{}"), testNow); err != nil {
		t.Fatal(err)
	}
	items, _, err := receive(p, r, []byte("{}"), testNow)
	if err != nil || items[0].ID != "e17" {
		t.Fatalf("fields without the brand: got %+v, %v", items, err)
	}
	r.Header.Set("svix-id", "another") // by an attacker who captured the delivery
	if items, _, err = receive(p, r, []byte("{}"), testNow); err != nil || items[0].ID != "e17" {
		t.Errorf("an unsigned field changed the identifier: %+v, %v", items, err)
	}
}

func TestTwilioWithoutATokenGetsADigest(t *testing.T) {
	t.Parallel()
	p := With("twilio", testSecret)
	id := func(address string) string {
		r := fields(t, http.MethodGet, address)
		if _, err := signBy(p.Scheme, r, nil, testNow); err != nil {
			t.Fatal(err)
		}
		items, _, err := receive(p, r, nil, testNow)
		if err != nil {
			t.Fatal(err)
		}
		return items[0].ID
	}
	a, again, b := id(testHook+"?CallSid=1"), id(testHook+"?CallSid=1"), id(testHook+"?CallSid=2")
	if a != again || a == b || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("got %q, %q, %q", a, again, b)
	}
}

func TestAdyenBatchesAreSplit(t *testing.T) {
	t.Parallel()
	const item = `{"NotificationRequestItem":{"pspReference":"p%","amount":{"value":1,"currency":"EUR"},` +
		`"eventCode":"CAPTURE","success":"true"}}`
	both := strings.ReplaceAll(item, "%", "1") + "," + strings.ReplaceAll(item, "%", "2%x")
	body, err := newAdyenScheme(testHex).SignBody(nil, []byte(`{"notificationItems":[`+both+`]}`), testNow)
	if err != nil {
		t.Fatal(err)
	}
	p := With("adyen", testHex)
	items, id, err := receive(p, fields(t, http.MethodPost, testHook), body, testNow)
	if err != nil || len(items) != 2 || items[0].ID != "p1:CAPTURE:true" || items[1].ID != "p2%25x:CAPTURE:true" ||
		items[1].Type != "CAPTURE" {
		t.Fatalf("got %+v, %v", items, err)
	}
	if strings.Contains(string(items[0].Body), "p2") || !strings.Contains(string(items[0].Body),
		`"pspReference":"p1"`) {
		t.Errorf("got the body %s", items[0].Body)
	}
	if id.Signed != nil || id.Covers("@body") {
		t.Error("the body is not covered: a digest would treat an altered item as a replay")
	}
	if string(p.Accepted.Body) != "[accepted]" {
		t.Errorf("responds %q", p.Accepted.Body)
	}
}

// Members that are not signed may change, so they do not make another event.
func TestAdyenItemsWithoutAReferenceAreNamedBySignedMembers(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, members := range []string{`"reason":"1"`, `"pspReference":null,"reason":"2"`, `"pspReference":""`} {
		body, err := newAdyenScheme(testHex).SignBody(nil, []byte(`{"notificationItems":[{"NotificationRequestItem":{`+
			`"eventCode":"CAPTURE","success":"true",`+members+`}}]}`), testNow)
		if err != nil {
			t.Fatal(err)
		}
		items, _, err := receive(With("adyen", testHex), fields(t, http.MethodPost, testHook), body, testNow)
		if err != nil || !items[0].Unnamed {
			t.Fatalf("%s: %+v, %v", members, items, err)
		}
		ids[items[0].ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("got %v", ids)
	}
}

func TestWorldpayBase64Setting(t *testing.T) {
	t.Parallel()
	p, _ := Find("worldpay")
	s := Settings{Keys: map[string]string{"1": testSecret}, Encoding: "base64"}
	r, body, err := p.Sample(s, testHook, "", "", testNow)
	if err != nil {
		t.Fatal(err)
	}
	if _, id, err := receive(p.Open(s), r, body, testNow); err != nil || id.KeyID != "1" {
		t.Errorf("got key %q, %v", id.KeyID, err)
	}
	s.Encoding = ""
	if _, _, err := receive(p.Open(s), r, body, testNow); verify.CodeOf(err) != verify.SignatureMalformed {
		t.Errorf("base64 instead of hex: got %v", err)
	}
	if s.Encoding = "rot13"; p.Open(s).Err == nil {
		t.Error("an unknown encoding is accepted")
	}
}

func TestSharedCredentialsOfEveryKind(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Settings{
		"header":  {Header: "X-Key", Secrets: []string{testSecret}},
		"query":   {Query: "key", Secrets: []string{testSecret}},
		"bearer":  {Secrets: []string{testSecret}},
		"basic":   {Username: "kettle", Password: testSecret},
		"rotated": {Header: "X-Key", Secrets: []string{testSecret, "old"}},
	} {
		for _, preset := range []string{"aws-eventbridge", "chargebee"} {
			p, _ := Find(preset)
			made := p.Open(s)
			if errs := made.Check(); len(errs) > 0 {
				t.Errorf("%s, %s: %v", preset, name, errs)
				continue
			}
			r, body, err := p.Sample(s, testHook, "", "", testNow)
			if err != nil {
				t.Fatal(err)
			}
			if _, id, err := receive(made, r, body, testNow); err != nil || id.Signed != nil {
				t.Errorf("%s, %s: got %+v, %v", preset, name, id, err)
			}
			if s.Query != "" && (len(made.SecretQuery) != 1 || made.WithDefaults().ScopeIgnores[0] != "key") {
				t.Errorf("the key in the URL is stored: %v", made.SecretQuery)
			}
			if s.Header != "" && len(made.SecretHeaders) != 1 {
				t.Error("the key in the header is stored")
			}
		}
	}
	p, _ := Find("chargebee")
	if p.Open(Settings{Username: "a", Password: "b", Query: "key", Secrets: []string{"c"}}).Err == nil {
		t.Error("two credentials, of which one would have no effect, are accepted")
	}
}

func TestChargebeeAttemptsAreOneEvent(t *testing.T) {
	t.Parallel()
	p := With("chargebee").WithDefaults()
	fingerprint := func(body string) [32]byte {
		d := &producer.Delivery{Request: fields(t, http.MethodPost, testHook), Body: []byte(body)}
		return p.Fingerprint(d, producer.Item{Body: d.Body})
	}
	a := fingerprint(`{"id":"e1","event_type":"x","occurred_at":17,"webhook_status":"scheduled"}`)
	if a != fingerprint(`{"id":"e1","event_type":"x","occurred_at":17,"webhook_status":"re_scheduled"}`) {
		t.Error("the state of the delivery changes the fingerprint")
	}
	if a == fingerprint(`{"id":"e1","event_type":"y","occurred_at":17,"webhook_status":"scheduled"}`) {
		t.Error("another type has the same fingerprint")
	}
}

func TestAllowedIPsOfEveryPreset(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		s.AllowedIPs = []netip.Prefix{prefix}
		if made := p.Open(s); made.Err != nil || len(made.AllowedIPs) != 1 || made.AllowedIPs[0] != prefix {
			t.Errorf("got %v, %v", made.AllowedIPs, made.Err)
		}
	})
}

func TestSampleErrors(t *testing.T) {
	t.Parallel()
	p, _ := Find("github")
	s := Settings{Secrets: []string{testSecret}}
	for want, try := range map[string]func() error{
		"only the vendor": func() error {
			_, _, err := Preset{Name: "somebody"}.Sample(s, testHook, "", "", testNow)
			return err
		},
		"none is set":   func() error { _, _, err := p.Sample(Settings{}, testHook, "", "", testNow); return err },
		"not absolute":  func() error { _, _, err := p.Sample(s, "/hook", "", "", testNow); return err },
		"one line each": func() error { _, _, err := p.Sample(s, testHook, "a\r\nX: 1", "", testNow); return err },
		"no subscription ": func() error {
			w, _ := Find("websub")
			_, _, err := w.Sample(presetSettings()["websub"], testHook, "https://c.example/", "", testNow)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestWebSubUnsignedTopicsNeedAllowedIPs(t *testing.T) {
	t.Parallel()
	p, _ := Find("websub")
	s := Settings{Subscriptions: []Subscription{{Topic: "https://a.example/", Token: testToken}}}
	if made := p.Open(s); len(made.Check()) == 0 {
		t.Error("a topic without a secret needs no address")
	}
	s.AllowedIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	made := p.Open(s)
	if errs := made.Check(); len(errs) > 0 {
		t.Fatal(errs)
	}
	link := fields(t, http.MethodPost, testHook+"?token="+testToken, "Link", `<https://a.example/>; rel="self"`)
	if _, id, err := receive(made, link, []byte("x"), testNow); err != nil || id.Signed != nil ||
		id.Principal != "https://a.example/" {
		t.Errorf("got %+v, %v", id, err)
	}
	bare := fields(t, http.MethodPost, testHook, "Link", `<https://a.example/>; rel="self"`)
	if _, _, err := receive(made, bare, []byte("x"), testNow); verify.CodeOf(err) != verify.CredentialsMissing {
		t.Errorf("without the token of the callback: got %v", err)
	}
	link.Header.Set("Link", `<https://b.example/>; rel="self"`)
	if _, _, err := receive(made, link, []byte("x"), testNow); verify.CodeOf(err) != verify.TopicUnexpected {
		t.Errorf("an unlisted topic: got %v", err)
	}
	for _, secrets := range [][2]string{{"", testSecret}, {testSecret, ""}} {
		s.Subscriptions = []Subscription{{Topic: "https://a.example/", Secret: secrets[0], Token: testToken},
			{Topic: "https://a.example/", Secret: secrets[1], Token: testToken}}
		if made := p.Open(s); len(made.Check()) == 0 {
			t.Errorf("one topic with and without a secret opens: %q", secrets)
		}
	}
}
