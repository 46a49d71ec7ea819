package producer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// tokenPresetNames are the presets with certificates and tokens, which only their vendor can sign for.
func tokenPresetNames() []string {
	return []string{"aws-sns", "google-eventarc", "google-pubsub", "openbanking-uk", "paypal", "yandex-pay"}
}

// validCases are the recorded deliveries of a producer that are accepted without being a matter of policy.
func validCases(t *testing.T, name string) []vectorCase {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", "producers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := readCases(raw)
	if err != nil {
		t.Fatal(err)
	}
	cases = slices.DeleteFunc(cases, func(c vectorCase) bool { return !c.Expect.Valid || c.Advisory || c.Expect.Reason != "ok" })
	if len(cases) == 0 {
		t.Fatalf("no accepted delivery of %s", name)
	}
	return cases
}

// outcome is what a receiver keeps of a delivery.
type outcome struct {
	id   verify.Identity
	item Item
}

func receiveCase(p Producer, r *http.Request, body []byte, c *vectorCase) (outcome, error) {
	id, err := p.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
	if err != nil {
		return outcome{}, err
	}
	items, err := p.Items(&Delivery{Request: r, Body: body, Identity: id})
	if err != nil {
		return outcome{}, err
	}
	if err := p.Tolerance.Check(id, c.now()); err != nil {
		return outcome{}, err
	}
	if len(items) == 0 { // an empty batch
		return outcome{id: id}, nil
	}
	return outcome{id, items[0]}, nil
}

// TestEveryChangeOfATokenPresetIsRefusedOrWithoutEffect flips a bit of each byte of body and fields. A change
// is accepted only where it leaves the signed content, the identifier and the type as they were.
func TestEveryChangeOfATokenPresetIsRefusedOrWithoutEffect(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"aws-sns", "paypal", "yandex-pay", "openbanking-uk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range validCases(t, name)[:1] {
				var fetched []string
				p := c.producer(t, &fetched)
				r, body := c.request(t), c.body(t)
				want, err := receiveCase(p, r, body, &c)
				if err != nil {
					t.Fatal(err)
				}
				refused := 0
				for _, m := range changes(r, body) {
					got, err := receiveCase(p, m.r, m.body, &c)
					if err != nil {
						refused++
						if verify.CodeOf(err) == "" {
							t.Errorf("%s: untyped error %v", m.what, err)
						}
						continue
					}
					if string(got.id.Signed) != string(want.id.Signed) || got.item.ID != want.item.ID || got.item.Type != want.item.Type {
						t.Errorf("%s: accepted as %+v", m.what, got.item)
					}
				}
				if refused < len(body)/2 {
					t.Errorf("only %d changes were refused", refused)
				}
			}
		})
	}
}

// change is a delivery with one bit flipped.
type change struct {
	what string
	r    *http.Request
	body []byte
}

func changes(r *http.Request, body []byte) []change {
	var all []change
	for i := range body {
		flipped := slices.Clone(body)
		flipped[i] ^= 1 << (i % 7)
		all = append(all, change{fmt.Sprintf("body[%d]", i), r, flipped})
	}
	for name, values := range r.Header {
		for i := range values[0] {
			flipped := []byte(values[0])
			flipped[i] ^= 1
			changed := r.Clone(r.Context())
			changed.Header.Set(name, string(flipped))
			all = append(all, change{fmt.Sprintf("%s[%d]", name, i), changed, body})
		}
	}
	return all
}

// TestEveryChangeOfABearerTokenIsRefused looks at the credential only: nothing else of the delivery is signed.
func TestEveryChangeOfABearerTokenIsRefused(t *testing.T) {
	t.Parallel()
	c := validCases(t, "google-eventarc")[0]
	var fetched []string
	p := c.producer(t, &fetched)
	token := c.request(t).Header.Get("Authorization")
	for i := len("Bearer "); i < len(token); i++ {
		flipped := []byte(token)
		flipped[i] ^= 1
		r := c.request(t)
		r.Header.Set("Authorization", string(flipped))
		if _, err := receiveCase(p, r, c.body(t), &c); err == nil {
			t.Errorf("character %d may be changed", i)
		} else if strings.Contains(err.Error(), token[len(token)-30:len(token)-5]) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}

// TestOneTokenServesManyMessages receives several messages under one bearer token; none is a replay.
func TestOneTokenServesManyMessages(t *testing.T) {
	t.Parallel()
	c := validCases(t, "google-eventarc")[0]
	c.Scheme = "google-pubsub"
	var fetched []string
	p := c.producer(t, &fetched)
	ids := map[string]bool{}
	for i := range 5 {
		body := fmt.Sprintf(`{"message":{"data":"aGVsbG8=","messageId":"%d"},"subscription":"projects/p/subscriptions/s"}`, 100+i)
		got, err := receiveCase(p, c.request(t), []byte(body), &c)
		if err != nil {
			t.Fatal(err)
		}
		if got.id.Signed != nil {
			t.Fatal("the token is taken for a signature of the message")
		}
		ids[got.item.ID] = true
		if got.item.Type != "projects/p/subscriptions/s" {
			t.Errorf("type %q", got.item.Type)
		}
	}
	if len(ids) != 5 {
		t.Errorf("5 messages have %d identifiers", len(ids))
	}
}

func TestCountersOfAPushAreNoPartOfTheFingerprint(t *testing.T) {
	t.Parallel()
	p := googlePubSub(Settings{Audience: []string{"a"}, Email: "e"})
	fingerprint := func(body string) [32]byte { return p.Fingerprint(delivery(hook, body), Item{Body: []byte(body)}) }
	first := fingerprint(`{"message":{"data":"YQ==","messageId":"1"},"deliveryAttempt":1}`)
	if first != fingerprint(`{"message":{"data":"YQ==","messageId":"1"},"deliveryAttempt":2}`) {
		t.Error("another attempt of a message looks like another message")
	}
	if first == fingerprint(`{"message":{"data":"Yg==","messageId":"1"},"deliveryAttempt":1}`) {
		t.Error("another message looks like the same")
	}
}

func TestTokenPresetsDemandWhatTheyNeed(t *testing.T) {
	t.Parallel()
	full := map[string]Settings{
		"aws-sns":         {Topics: []string{"arn:aws:sns:us-east-1:123456789012:t"}},
		"google-eventarc": {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"google-pubsub":   {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"openbanking-uk":  {Audience: []string{"a"}, Issuers: []string{"https://bank.example/"}, JWKSURL: "https://bank.example/jwks"},
		"paypal":          {WebhookID: "w1"},
		"yandex-pay":      {MerchantID: "m1"},
	}
	entra := Settings{Audience: []string{"api://app"}, Issuers: []string{"https://sts.windows.net/t/"}}
	for _, name := range tokenPresetNames() {
		preset, ok := FindPreset(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		p := preset.Open(full[name])
		if errs := p.Check(); len(errs) != 0 {
			t.Errorf("%s: %v", name, errs)
		}
		if d := p.WithDefaults(); d.Window.Hours() < 25 || !d.StaleKnown || d.Contract != Webhook || d.Docs == "" {
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
			t.Errorf("%s takes a setting that it does not know", name)
		}
	}
	if errs := check(AzureEventGrid(entra)); len(errs) != 0 {
		t.Errorf("azure-event-grid with Entra: %v", errs)
	}
	for name, s := range map[string]Settings{
		"nothing": {}, "an empty key": {Query: "code"}, "an empty header": {Header: "X-Key"}, "no issuer": {Audience: []string{"a"}},
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

func check(p Producer) []error { return p.Check() }

func emptied(list []string) []string {
	if len(list) == 0 {
		return list
	}
	return []string{""}
}

// TestSNSConfirmsOnlyAtSNS hands the handshake deliveries whose address is not one of SNS, as if they verified.
func TestSNSConfirmsOnlyAtSNS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind, address string
		status              int // 0: refused
		fetched             bool
		code                verify.Code
	}{
		{"good", "SubscriptionConfirmation", "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1", 200, true, ""},
		{"the end of a subscription", "UnsubscribeConfirmation", "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription", 200, false, ""},
		{"a stranger's address", "SubscriptionConfirmation", "https://169.254.169.254/latest", 0, false, verify.ChallengeUnexpected},
		{"a host that looks like it", "SubscriptionConfirmation", "https://sns.eu-west-1.amazonaws.com.evil.example/", 0, false, verify.ChallengeUnexpected},
		{"plain http", "SubscriptionConfirmation", "http://sns.eu-west-1.amazonaws.com/", 0, false, verify.ChallengeUnexpected},
		{"no address", "SubscriptionConfirmation", "", 0, false, verify.ChallengeUnexpected},
		{"a host that is down", "SubscriptionConfirmation", "https://sns.down-1.amazonaws.com/", 0, true, verify.KeysUnavailable},
	} {
		fetched := false
		p := awsSNS(Settings{Topics: []string{"t"}, Fetch: func(_ context.Context, address string) ([]byte, error) {
			if fetched = true; strings.Contains(address, "down") {
				return nil, errors.New("down")
			}
			return nil, nil
		}})
		d := delivery(hook, fmt.Sprintf(`{"Type":%q,"SubscribeURL":%q}`, c.kind, c.address))
		reply, err := p.Handshake(t.Context(), d)
		if verify.CodeOf(err) != c.code || (reply == nil) != (c.status == 0) || reply != nil && reply.Status != c.status || fetched != c.fetched {
			t.Errorf("%s: %+v, %v, fetched %v", c.name, reply, err, fetched)
		}
	}
	p := AWSSNS("t")
	if reply, err := p.Handshake(t.Context(), delivery(hook, `{"Type":"Notification"}`)); reply != nil || err != nil {
		t.Errorf("a notification is a handshake: %v, %v", reply, err)
	}
}

func TestEventGridAnswersItsValidationOnly(t *testing.T) {
	t.Parallel()
	p := AzureEventGrid(Settings{Query: "code", Value: "0123456789"})
	const event = `[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"<b>\"x"}}]`
	reply, err := p.Handshake(t.Context(), delivery(hook, event, "aeg-event-type", "SubscriptionValidation"))
	if err != nil || reply.Header.Get("Content-Type") != "application/json" || !sameJSON(reply.Body, []byte(`{"validationResponse":"<b>\"x"}`)) ||
		strings.Contains(string(reply.Body), "<") {
		t.Errorf("got %+v, %v", reply, err)
	}
	if reply, err := p.Handshake(t.Context(), delivery(hook, event, "aeg-event-type", "Notification")); reply != nil || err != nil {
		t.Errorf("a notification is a handshake: %+v, %v", reply, err)
	}
	for _, body := range []string{
		`[]`, `{}`, `x`, `[{"id":"1","eventType":"Other","data":{"validationCode":"x"}}]`, `[{"id":"1","eventType":"` + validationEvent + `"}]`,
	} {
		if reply, err := p.Handshake(t.Context(), delivery(hook, body, "aeg-event-type", "SubscriptionValidation")); reply != nil || err == nil {
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
		"two":          {"[" + one + "," + strings.Replace(one, `"1"`, `"2"`, 1) + "]", 2, ""},
		"none":         {"[]", 0, ""},
		"over 5,000":   {many, 0, verify.EventMalformed},
		"no array":     {one, 0, verify.EventMalformed},
		"not JSON":     {"[", 0, verify.EventMalformed},
		"without id":   {`[{"eventType":"a"}]`, 0, verify.EventMalformed},
		"without type": {`[{"id":"1"}]`, 0, verify.EventMalformed},
		"id twice":     {`[{"id":"1","id":"2","eventType":"a"}]`, 0, verify.AmbiguousField},
		"no object":    {`[1]`, 0, verify.EventMalformed},
	} {
		items, err := eventGrid{}.split(delivery(hook, c.body, "Content-Type", "application/json"))
		if len(items) != c.items || verify.CodeOf(err) != c.code {
			t.Errorf("%s: %d items, %v", name, len(items), err)
		}
	}
}

func TestEventGridTakesListedTopicsOnly(t *testing.T) {
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
		"listed":                  {"[" + event("/subscriptions/s/topics/A") + "]", "application/json", ""},
		"another":                 {"[" + event("/subscriptions/s/topics/b") + "]", "application/json", verify.TopicUnexpected},
		"one of two":              {"[" + event("/subscriptions/s/topics/a") + "," + event("/b") + "]", "application/json", verify.TopicUnexpected},
		"none":                    {"[" + event("") + "]", "application/json", verify.TopicUnexpected},
		"CloudEvent":              {source + `/subscriptions/s/topics/a"}`, ceStructured, ""},
		"CloudEvent from another": {source + `/b"}`, ceStructured, verify.TopicUnexpected},
	} {
		d := delivery(hook, c.body, "Content-Type", c.media, "aeg-event-type", "SubscriptionValidation")
		if _, err := p.Items(d); verify.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if reply, err := p.Handshake(t.Context(), d); c.media != ceStructured && (verify.CodeOf(err) != c.code || (reply == nil) != (c.code != "")) {
			t.Errorf("%s, as a validation: %+v, %v", name, reply, err)
		}
	}
}

// TestYandexPayNamesEveryKindOfEvent holds the identifier to the claims, however the token was signed.
func TestYandexPayNamesEveryKindOfEvent(t *testing.T) {
	t.Parallel()
	p := YandexPay("m1")
	for claims, want := range map[string]string{
		`{"event":"ORDER","eventTime":"T","order":{"orderId":"o","paymentStatus":"S"}}`:            "o:ORDER:S:T",
		`{"event":"OPERATION","eventTime":"T","operation":{"operationId":"x","status":"SUCCESS"}}`: "x:OPERATION:SUCCESS:T",
	} {
		d := delivery(hook, "token")
		d.Identity.Claims = []byte(claims)
		items, err := p.Items(d)
		if err != nil || items[0].ID != want || string(items[0].Body) != claims {
			t.Errorf("%s: %+v, %v", claims, items, err)
		}
	}
	ids := map[string]bool{}
	for _, token := range []string{"first", "second"} {
		d := delivery(hook, token)
		d.Identity.Claims = []byte(`{"event":"OTHER"}`)
		items, err := p.Items(d)
		if err != nil {
			t.Fatal(err)
		}
		ids[items[0].ID] = true
	}
	if len(ids) != 1 {
		t.Error("a token that is signed afresh is another event")
	}
}
