package preset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// tokenPresetNames are the presets with certificates and tokens, for which only the vendor can
// sign.
func tokenPresetNames() []string {
	return []string{"aws-sns", "google-eventarc", "google-pubsub", "openbanking-uk", "paypal", "yandex-pay"}
}

func TestFingerprintIgnoresPushCounters(t *testing.T) {
	t.Parallel()
	p := googlePubSub.producer(Settings{Audience: []string{"a"}, Email: "e"})
	fingerprint := func(body string) [32]byte {
		return p.Fingerprint(newDelivery(testHook, body), producer.Item{Body: []byte(body)})
	}
	first := fingerprint(`{"message":{"data":"YQ==","messageId":"1"},"deliveryAttempt":1}`)
	if first != fingerprint(`{"message":{"data":"YQ==","messageId":"1"},"deliveryAttempt":2}`) {
		t.Error("another attempt of a message looks like another message")
	}
	if first == fingerprint(`{"message":{"data":"Yg==","messageId":"1"},"deliveryAttempt":1}`) {
		t.Error("another message looks like the same")
	}
}

func TestTokenPresetsRequireTheirSettings(t *testing.T) {
	t.Parallel()
	full := map[string]Settings{
		"aws-sns":         {Topics: []string{"arn:aws:sns:us-east-1:123456789012:t"}},
		"google-eventarc": {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"google-pubsub":   {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"openbanking-uk": {Audience: []string{"a"}, Issuers: []string{"https://bank.example/"},
			JWKSURL: "https://bank.example/jwks"},
		"paypal":     {WebhookID: "w1"},
		"yandex-pay": {MerchantID: "m1"},
	}
	entra := Settings{Audience: []string{"api://app"}, Issuers: []string{"https://sts.windows.net/t/"}}
	for _, name := range tokenPresetNames() {
		preset, ok := Find(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		p := preset.Open(full[name])
		if errs := p.Check(); len(errs) != 0 {
			t.Errorf("%s: %v", name, errs)
		}
		if d := p.WithDefaults(); d.Window.Hours() < 25 || !d.StaleKnown || d.Contract != producer.Webhook ||
			d.Docs == "" {
			t.Errorf("%s: %+v", name, d)
		}
		if w := p.Warnings(); len(w) != 0 {
			t.Errorf("%s: %v", name, w)
		}
		empty := preset.Open(Settings{})
		if empty.Err == nil || len(empty.Check()) == 0 {
			t.Errorf("%s opens without its settings", name)
		}
		for _, spoil := range []func(*Settings){
			func(s *Settings) { s.Topics = emptied(s.Topics) }, func(s *Settings) { s.Audience = emptied(s.Audience) },
			func(s *Settings) { s.Issuers = emptied(s.Issuers) },
		} {
			s := full[name]
			before := fmt.Sprint(s)
			if spoil(&s); fmt.Sprint(s) == before {
				continue
			}
			if preset.Open(s).Err == nil {
				t.Errorf("%s opens with an empty setting: %+v", name, s)
			}
		}
		wrong := full[name]
		wrong.LicenseCode = "x"
		if preset.Open(wrong).Err == nil {
			t.Errorf("%s accepts a setting that it does not use", name)
		}
	}
	if errs := check(AzureEventGrid(entra)); len(errs) != 0 {
		t.Errorf("azure-event-grid with Entra: %v", errs)
	}
	for name, s := range map[string]Settings{
		"nothing": {}, "an empty key": {Query: "code"}, "an empty header": {Header: "X-Key"},
		"no issuer": {Audience: []string{"a"}},
	} {
		if AzureEventGrid(s).Err == nil {
			t.Errorf("azure-event-grid opens with %s", name)
		}
	}
	bad := full["openbanking-uk"]
	for _, address := range []string{"", "http://bank.example/jwks", "not a URL"} {
		if bad.JWKSURL = address; OpenBankingUK(bad).Err == nil {
			t.Errorf("openbanking-uk opens with keys from %q", address)
		}
	}
}

func check(p producer.Producer) []error { return p.Check() }

func emptied(list []string) []string {
	if len(list) == 0 {
		return list
	}
	return []string{""}
}

// TestSNSConfirmsOnlyAtSNS treats deliveries with a SubscribeURL elsewhere as verified.
func TestSNSConfirmsOnlyAtSNS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind, address string
		status              int // 0: refused
		fetched             bool
		code                verify.Code
	}{
		{"good", "SubscriptionConfirmation", "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1",
			200, true, ""},
		{"the end of a subscription", "UnsubscribeConfirmation",
			"https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription", 200, false, ""},
		{"another address", "SubscriptionConfirmation", "https://169.254.169.254/latest", 0, false,
			verify.ChallengeUnexpected},
		{"a similar host", "SubscriptionConfirmation", "https://sns.eu-west-1.amazonaws.com.evil.example/",
			0, false, verify.ChallengeUnexpected},
		{"plain http", "SubscriptionConfirmation", "http://sns.eu-west-1.amazonaws.com/", 0, false,
			verify.ChallengeUnexpected},
		{"no address", "SubscriptionConfirmation", "", 0, false, verify.ChallengeUnexpected},
		{"a host that is down", "SubscriptionConfirmation", "https://sns.down-1.amazonaws.com/", 0, true,
			verify.KeysUnavailable},
	} {
		fetched := false
		p := awsSNS.producer(Settings{Topics: []string{"t"},
			Fetch: func(_ context.Context, address string) ([]byte, error) {
				if fetched = true; strings.Contains(address, "down") {
					return nil, errors.New("down")
				}
				return nil, nil
			}})
		d := newDelivery(testHook, fmt.Sprintf(`{"Type":%q,"SubscribeURL":%q}`, c.kind, c.address))
		reply, err := p.Handshake(t.Context(), d)
		if verify.CodeOf(err) != c.code || (reply == nil) != (c.status == 0) || reply != nil &&
			reply.Status != c.status || fetched != c.fetched {
			t.Errorf("%s: %+v, %v, fetched %v", c.name, reply, err, fetched)
		}
	}
	p := AWSSNS("t")
	if reply, err := p.Handshake(t.Context(), newDelivery(testHook, `{"Type":"Notification"}`)); reply != nil ||
		err != nil {
		t.Errorf("a notification is a handshake: %v, %v", reply, err)
	}
}

func TestEventGridAnswersItsValidationOnly(t *testing.T) {
	t.Parallel()
	p := AzureEventGrid(Settings{Query: "code", Value: "0123456789"})
	const event = `[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":` +
		`{"validationCode":"<b>\"x"}}]`
	reply, err := p.Handshake(t.Context(), newDelivery(testHook, event, "aeg-event-type", "SubscriptionValidation"))
	if err != nil || reply.Header.Get("Content-Type") != "application/json" ||
		!equalJSON(reply.Body, []byte(`{"validationResponse":"<b>\"x"}`)) ||
		strings.Contains(string(reply.Body), "<") {
		t.Errorf("got %+v, %v", reply, err)
	}
	if reply, err := p.Handshake(t.Context(), newDelivery(testHook, event, "aeg-event-type",
		"Notification")); reply != nil || err != nil {
		t.Errorf("a notification is a handshake: %+v, %v", reply, err)
	}
	for _, body := range []string{
		`[]`, `{}`, `x`, `[{"id":"1","eventType":"Other","data":{"validationCode":"x"}}]`, `[{"id":"1","eventType":"` +
			validationEvent + `"}]`,
	} {
		if reply, err := p.Handshake(t.Context(), newDelivery(testHook, body, "aeg-event-type",
			"SubscriptionValidation")); reply != nil || err == nil {
			t.Errorf("%s: %+v, %v", body, reply, err)
		}
	}
}

func TestEventGridBatches(t *testing.T) {
	t.Parallel()
	one := `{"id":"1","eventType":"a","topic":"/t","subject":"s"}`
	many := "[" + strings.TrimSuffix(strings.Repeat(one+",", maxGridEvents+1), ",") + "]"
	for name, c := range map[string]struct {
		body  string
		items int
		code  verify.Code
	}{
		"two":           {"[" + one + "," + strings.Replace(one, `"1"`, `"2"`, 1) + "]", 2, ""},
		"none":          {"[]", 0, ""},
		"over 5,000":    {many, 0, verify.EventMalformed},
		"not an array":  {one, 0, verify.EventMalformed},
		"not JSON":      {"[", 0, verify.EventMalformed},
		"without id":    {`[{"eventType":"a"}]`, 0, verify.EventMalformed},
		"without type":  {`[{"id":"1"}]`, 0, verify.EventMalformed},
		"id twice":      {`[{"id":"1","id":"2","eventType":"a"}]`, 0, verify.AmbiguousField},
		"not an object": {`[1]`, 0, verify.EventMalformed},
	} {
		items, err := eventGrid{}.split(newDelivery(testHook, c.body, "Content-Type", "application/json"))
		if len(items) != c.items || verify.CodeOf(err) != c.code {
			t.Errorf("%s: %d items, %v", name, len(items), err)
		}
	}
}

func TestEventGridAcceptsListedTopicsOnly(t *testing.T) {
	t.Parallel()
	p := AzureEventGrid(Settings{Query: "code", Value: "0123456789", Topics: []string{"/subscriptions/S/topics/a"}})
	event := func(topic string) string {
		return `{"id":"1","eventType":"` + validationEvent + `","topic":"` + topic + `","data":{"validationCode":"x"}}`
	}
	const source = `{"specversion":"1.0","id":"1","type":"t","source":"`
	for name, c := range map[string]struct {
		body, media string
		code        verify.Code
	}{
		"listed": {"[" + event("/subscriptions/s/topics/A") + "]", "application/json", ""},
		"another": {"[" + event("/subscriptions/s/topics/b") + "]", "application/json",
			verify.TopicUnexpected},
		"one of two": {"[" + event("/subscriptions/s/topics/a") + "," + event("/b") + "]",
			"application/json", verify.TopicUnexpected},
		"none":                    {"[" + event("") + "]", "application/json", verify.TopicUnexpected},
		"CloudEvent":              {source + `/subscriptions/s/topics/a"}`, producer.MediaCloudEvent, ""},
		"CloudEvent from another": {source + `/b"}`, producer.MediaCloudEvent, verify.TopicUnexpected},
	} {
		d := newDelivery(testHook, c.body, "Content-Type", c.media, "aeg-event-type", "SubscriptionValidation")
		if _, err := p.Items(d); verify.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if reply, err := p.Handshake(t.Context(), d); c.media != producer.MediaCloudEvent &&
			(verify.CodeOf(err) != c.code || (reply == nil) != (c.code != "")) {
			t.Errorf("%s, as a validation: %+v, %v", name, reply, err)
		}
	}
}

// TestYandexPayIdentifiesEveryKindOfEvent: claims give the identifier, not the signature of the
// token.
func TestYandexPayIdentifiesEveryKindOfEvent(t *testing.T) {
	t.Parallel()
	p := YandexPay("m1")
	for claims, want := range map[string]string{
		`{"event":"ORDER","eventTime":"T","order":{"orderId":"o","paymentStatus":"S"}}`: "o:ORDER:S:T",
		`{"event":"OPERATION","eventTime":"T","operation":{"operationId":"x","status":` +
			`"SUCCESS"}}`: "x:OPERATION:SUCCESS:T",
	} {
		d := newDelivery(testHook, "token")
		d.Identity.Claims = []byte(claims)
		items, err := p.Items(d)
		if err != nil || items[0].ID != want || string(items[0].Body) != claims {
			t.Errorf("%s: %+v, %v", claims, items, err)
		}
	}
	ids := map[string]bool{}
	for _, token := range []string{"first", "second"} {
		d := newDelivery(testHook, token)
		d.Identity.Claims = []byte(`{"event":"OTHER"}`)
		items, err := p.Items(d)
		if err != nil {
			t.Fatal(err)
		}
		ids[items[0].ID] = true
	}
	if len(ids) != 1 {
		t.Error("the same claims in another token are another event")
	}
}
