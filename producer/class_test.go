package producer

import (
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestTheClassOfEveryPresetFollowsFromItsScheme: it is known without secrets, and a verified delivery has the same.
func TestTheClassOfEveryPresetFollowsFromItsScheme(t *testing.T) {
	t.Parallel()
	want := map[Class]string{
		ClassIDSigned: "adyen aws-sns dwolla interledger-rafiki openbanking-uk paypal slack square standard-webhooks stripe svix " +
			"worldpay yandex-pay",
		ClassTimeSigned:    "datatrans zoom",
		ClassContentSigned: "github razorpay shopify shopify-events twilio",
		ClassUnnamed:       "adyen-platform meta websub",
		ClassUnsigned: "aws-eventbridge azure-event-grid chargebee cloudevents gitlab google-eventarc google-pubsub webengage " +
			"yookassa",
	}
	got := map[string]Class{}
	for class, names := range want {
		for _, name := range strings.Fields(names) {
			got[name] = class
		}
	}
	for _, p := range Presets() {
		if class := p.Class(); class != got[p.Name] {
			t.Errorf("%s: class %v, want %v", p.Name, class, got[p.Name])
		}
	}
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s)
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil || made.Scheme == nil || p.Name == "slack" { // of slack, commands have no identifier
			return
		}
		id, err := made.Scheme.Verify(r, func() ([]byte, error) { return body, nil })
		if err != nil {
			t.Fatal(err)
		}
		if class := made.ClassOf(id); class != got[p.Name] && p.Name != "adyen" {
			t.Errorf("class of a delivery %v, want %v", class, got[p.Name])
		}
	})
}

func TestTheClassOfAnOwnHMACFollowsFromItsTemplate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		content string
		key     Extractor
		want    Class
	}{
		{"{timestamp}.{body}", JSON("id"), ClassIDSigned},
		{"{timestamp}.{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{timestamp}.{body}", Header("X-Id"), ClassTimeSigned},
		{"{timestamp}.{body}", BodyDigest(), ClassTimeSigned},
		{"{body}", Header("X-Id"), ClassContentSigned},
		{"{body}", BodyDigest(), ClassUnnamed},
		{"{body}", JSON("id"), ClassIDSigned},
		{"{header:X-Id}.{body}", Header("X-Id"), ClassIDSigned},
		{"{header:X-Id}{body}", Header("X-Id"), ClassContentSigned}, // bytes can be moved from the identifier to the body
		{"{url}{body}", JSON("id"), ClassIDSigned},
	} {
		scheme := &verify.HMAC{Headers: []string{"Sig"}, Encoding: verify.Hex, Content: row.content, Secrets: verify.Secrets(testSecret), Malleable: true}
		if strings.Contains(row.content, "timestamp") {
			scheme.TimestampHeaders = []string{"X-Time"}
		}
		p := Producer{Name: "own", Scheme: scheme, Key: row.key}
		if got := p.Class(); got != row.want {
			t.Errorf("%s with %v: %v, want %v", row.content, row.key, got, row.want)
		}
		warned := strings.Contains(strings.Join(p.Warnings(), " "), "neither id nor time")
		if warned != (row.want == ClassContentSigned) {
			t.Errorf("%s with %v: warned %t", row.content, row.key, warned)
		}
	}
	p := Producer{Name: "own", Scheme: verify.HeaderValue("X-Token", testSecret), Key: Header("X-Id")}
	if got := p.Class(); got != ClassUnsigned {
		t.Errorf("a token: %v", got)
	}
}

func TestPoliciesForEqualContentAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Producer){
		"under the API contract": func(p *Producer) { p.Contract, p.SameSigned = API, SameSignedAside },
		`of type "a"`:            func(p *Producer) { p.SameSignedTypes = map[string]SameSigned{"a": SameSignedOff} },
		"not negative":           func(p *Producer) { p.SameSignedMax = -1 },
		"is not known":           func(p *Producer) { p.SameSigned = SameSignedRun + 1 },
	} {
		p := GitHub(testSecret)
		change(&p)
		found := ""
		for _, err := range p.Check() {
			found += err.Error()
		}
		if !strings.Contains(found, want) {
			t.Errorf("%q does not say %q", found, want)
		}
	}
}
