package preset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// tokenPresetNames are the presets with certificates and tokens, for which only the vendor can
// sign.
func tokenPresetNames() []string {
	return []string{"accessowl", "activitypub", "adcp", "aws-sns", "google-eventarc", "google-pubsub", "ocm",
		"openbanking-uk", "openpayments", "pawapay", "paypal", "ucp", "yandex-pay"}
}

// Public keys as senders publish them.
const (
	edJWK = `{"kty":"OKP","crv":"Ed25519","x":"fhlxm1r5-RppONn5lebZJ9TjJBLXj-lLV7NVkaPxESs"}`
	ecPEM = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMM\n" +
		"sTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==\n-----END PUBLIC KEY-----\n"
)

func rsaPEM() string {
	text, err := verify.MarshalPublicKey(rsaKey().Public())
	if err != nil {
		panic(err)
	}
	return string(text)
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
		"accessowl":       {Keys: map[string]string{"whsec_1": edJWK}},
		"pawapay":         {Keys: map[string]string{"HTTP_EC_P256_KEY:1": ecPEM}},
		"activitypub":     {Keys: map[string]string{"https://social.example/a#main-key": rsaPEM()}},
		"ocm":             {Allow: []string{"https://cloud.example/.well-known/jwks.json"}},
		"openpayments":    {JWKSURL: "https://wallet.example/alice/jwks.json"},
		"adcp":            {JWKSURL: "https://seller.example/jwks"},
		"aws-sns":         {Topics: []string{"arn:aws:sns:us-east-1:123456789012:t"}},
		"google-eventarc": {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"google-pubsub":   {Audience: []string{"https://a.example"}, Email: "a@b.example"},
		"openbanking-uk": {Audience: []string{"a"}, Issuers: []string{"https://bank.example/"},
			JWKSURL: "https://bank.example/jwks"},
		"paypal":     {Account: []string{"w1"}},
		"ucp":        {Allow: []string{"https://shop.example/.well-known/ucp"}},
		"yandex-pay": {Account: []string{"m1"}},
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
		wrong.Encoding = "x"
		if preset.Open(wrong).Err == nil {
			t.Errorf("%s accepts a setting that it does not use", name)
		}
	}
	if errs := check(Open("azure-event-grid", entra)); len(errs) != 0 {
		t.Errorf("azure-event-grid with Entra: %v", errs)
	}
	for name, s := range map[string]Settings{
		"nothing": {}, "an empty key": {Query: "code"}, "an empty header": {Header: "X-Key"},
		"no issuer": {Audience: []string{"a"}},
	} {
		if Open("azure-event-grid", s).Err == nil {
			t.Errorf("azure-event-grid opens with %s", name)
		}
	}
	bad := full["openbanking-uk"]
	for _, address := range []string{"", "http://bank.example/jwks", "not a URL"} {
		if bad.JWKSURL = address; Open("openbanking-uk", bad).Err == nil {
			t.Errorf("openbanking-uk opens with keys from %q", address)
		}
	}
}

// TestAdCPBoundsNoncesAndTheirTime: by its documents, for a signature of five minutes.
func TestAdCPBoundsNoncesAndTheirTime(t *testing.T) {
	t.Parallel()
	s := sampleSettings(t)["adcp"]
	const good = "AAAAAAAAAAAAAAAAAAAAAA" // 16 bytes
	for _, c := range []struct {
		nonce string
		after time.Duration
		code  verify.Code
	}{
		{good, 0, ""}, {good + "-_", 0, ""}, {good, -time.Minute, ""}, {good, 6 * time.Minute, ""},
		{good, 6*time.Minute + time.Second, verify.TokenExpired}, {good, -61 * time.Second, verify.TimestampTooNew},
		{"AAAAAAAAAAAAAAAAAAAA", 0, verify.SignatureMalformed}, {good + "==", 0, verify.SignatureMalformed},
		{good + "+/", 0, verify.SignatureMalformed}, {"AAAAAAAAAAAAAAAAAAAAAB", 0, verify.SignatureMalformed},
	} {
		r, body, err := adCP.Draft(s, testHook, "", "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		made := adCP.Open(s)
		s.scheme, _ = made.Scheme.(*verify.RFC9421)
		sign := signsMessages(verify.Signer{
			NameAlg: true, Components: adCPComponents, Expires: 5 * time.Minute, Nonce: c.nonce})
		if _, err := sign(s, r, body, testNow); err != nil {
			t.Fatal(err)
		}
		_, id, err := receive(made, r, body, testNow.Add(c.after))
		if verify.CodeOf(err) != c.code {
			t.Errorf("%q, after %v: %v, want %q (%v)", c.nonce, c.after, err, c.code, id)
		}
	}
}

// TestGivenKeysMustBeUsable: one has a private half that is published (RFC 9421 appendix B.1.4).
func TestGivenKeysMustBeUsable(t *testing.T) {
	t.Parallel()
	published := strings.Replace(edJWK, "fhlxm1r5-RppONn5lebZJ9TjJBLXj-lLV7NVkaPxESs",
		"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs", 1)
	for want, p := range map[string]producer.Producer{
		"published for tests":    Open("accessowl", Settings{Keys: map[string]string{"k": published}}),
		"neither PEM nor a JSON": Open("accessowl", Settings{Keys: map[string]string{"k": "secret"}}),
		"does not fit":           Open("accessowl", Settings{Keys: map[string]string{"k": ecPEM}}),
		"has 0 bytes":            Open("xsolla", Settings{Keys: map[string]string{"k": ""}}),
		"signature_encoding": Open("pawapay",
			Settings{Keys: map[string]string{"k": ecPEM}, SignatureEncoding: "hex"}),
	} {
		if p.Err == nil || !strings.Contains(p.Err.Error(), want) {
			t.Errorf("got %v, want %q", p.Err, want)
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

func TestASubscriptionToSNSIsConfirmedByAFetch(t *testing.T) {
	t.Parallel()
	p := awsSNS.producer(Settings{Topics: []string{"t"}, Fetch: func(context.Context, string) ([]byte, error) {
		return nil, errors.New("down")
	}})
	reply, err := p.Handshake(t.Context(), newDelivery(testHook,
		`{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.eu-west-1.amazonaws.com/"}`))
	if reply != nil || verify.CodeOf(err) != verify.KeysUnavailable {
		t.Errorf("a host that is down: %+v, %v", reply, err)
	}
}

// The recorded deliveries have other events, topics and validations.
func TestEventGridReadsListedTopicsOnly(t *testing.T) {
	t.Parallel()
	p := Open("azure-event-grid", Settings{Query: "code", Secrets: []string{"0123456789"}, Topics: []string{"/a"}})
	event := func(topic, kind string) string {
		return `{"id":"1","eventType":"` + kind + `","topic":"` + topic + `","data":{"validationCode":"<b>"}}`
	}
	const source = `{"specversion":"1.0","id":"1","type":"t","source":"`
	many := "[" + strings.TrimSuffix(strings.Repeat(event("/a", "t")+",", maxBatch+1), ",") + "]"
	for name, c := range map[string]struct {
		body, media string
		code        verify.Code
	}{
		"over 5,000": {many, "application/json", verify.EventMalformed},
		"id twice": {`[{"id":"1","id":"2","eventType":"a","topic":"/a"}]`, "application/json",
			verify.AmbiguousField},
		"CloudEvent":              {source + `/a"}`, producer.MediaCloudEvent, ""},
		"CloudEvent from another": {source + `/b"}`, producer.MediaCloudEvent, verify.TopicUnexpected},
	} {
		items, err := p.Items(newDelivery(testHook, c.body, "Content-Type", c.media))
		if err == nil {
			err = items[0].Err
		}
		if verify.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
	for body, code := range map[string]verify.Code{
		event("/a", validationEvent): "", event("/b", validationEvent): verify.TopicUnexpected,
		event("/a", "Other"): verify.EventMalformed,
	} {
		reply, err := p.Handshake(t.Context(), newDelivery(testHook, "["+body+"]", "aeg-event-type",
			"SubscriptionValidation"))
		if verify.CodeOf(err) != code || (reply != nil) != (code == "") ||
			reply != nil && strings.Contains(string(reply.Body), "<") {
			t.Errorf("%s, as a validation: %+v, %v", body, reply, err)
		}
	}
}

// The identifier of an event without a name is that of its claims, not of the token's signature.
func TestEqualClaimsOfYandexPayAreOneEvent(t *testing.T) {
	t.Parallel()
	p := Open("yandex-pay", Settings{Account: []string{"m1"}})
	var ids [2]string
	for i := range ids {
		d := newDelivery(testHook, fmt.Sprint("token ", i))
		d.Identity.Claims = []byte(`{"event":"OTHER"}`)
		items, err := p.Items(d)
		if err != nil || string(items[0].Body) != `{"event":"OTHER"}` {
			t.Fatal(items, err)
		}
		ids[i] = items[0].ID
	}
	if ids[0] != ids[1] {
		t.Errorf("the same claims in another token are another event: %q", ids)
	}
}
