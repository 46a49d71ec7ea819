package producer

import (
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestInboundIdentifiersAreFound sends each system's identifier as that system is called.
func TestInboundIdentifiersAreFound(t *testing.T) {
	t.Parallel()
	fields := map[string]string{
		"Adyen": "Idempotency-Key", "BBVA": "X-Unique-Transaction-ID", "Datatrans": "Idempotency-Key",
		"Django (django-idempotency-key)": "Idempotency-Key", "Dwolla": "Idempotency-Key", "Finastra": "Idempotency-Key",
		"GitLab webhooks": "Idempotency-Key", "http4s": "Idempotency-Key", "Interledger (Open Payments)": "Idempotency-Key",
		"OpenBanking UK": "x-idempotency-key", "PayPal": "PayPal-Request-Id", "RazorpayX payouts": "X-Payout-Idempotency",
		"Stripe": "Idempotency-Key", "TabaPay webhooks": "Idempotency-Key", "Twilio webhooks": "I-Twilio-Idempotency-Token",
		"WebEngage": "x-request-id", "Worldpay": "Idempotency-Key", "Yandex Cloud": "Idempotency-Key", "YooKassa": "Idempotence-Key",
	}
	bodies := map[string]string{
		"Google Standard Payments": `{"requestHeader":{"protocolVersion":{"major":1},"requestId":"%s"},"amount":{"amountMicros":"1"}}`,
		"Square":                   `{"idempotency_key":"%s","amount_money":{"amount":1000,"currency":"USD"}}`,
	}
	const id = "4935a656-a929-4792-b97c-8848be85c27c"
	for _, in := range Inbounds() {
		t.Run(in.System, func(t *testing.T) {
			t.Parallel()
			x, err := ParseExtractor(in.Key)
			if err != nil {
				t.Fatal(err)
			}
			if x.String() != in.Key {
				t.Errorf("%q is spelled %q", in.Key, x)
			}
			if body, ok := bodies[in.System]; ok {
				text := strings.Replace(body, "%s", id, 1)
				expectID(t, x, delivery(hook, text), id, "")
				member := in.Key[strings.LastIndexAny(in.Key, ".:")+1:]
				twice := strings.Replace(text, `"`+member+`"`, `"`+member+`":"x","`+member+`"`, 1)
				expectID(t, x, delivery(hook, twice), "", verify.AmbiguousField)
				return
			}
			field := fields[in.System]
			if field == "" {
				t.Fatal("the test does not know how this system is called")
			}
			expectID(t, x, delivery(hook, "{}", field, id), id, "")
			expectID(t, x, delivery(hook, "{}", field, `"`+id+`"`), id, "")
			expectID(t, x, delivery(hook, "{}", field, id, field, id), "", verify.AmbiguousField)
			expectID(t, x, delivery(hook, "{}"), "", "")
		})
	}
	if names := Inbounds(); len(names) != len(fields)+len(bodies) {
		t.Errorf("%d systems, %d are called here", len(names), len(fields)+len(bodies))
	}
	if !slices.IsSortedFunc(Inbounds(), func(a, b Inbound) int { return strings.Compare(strings.ToLower(a.System), strings.ToLower(b.System)) }) {
		t.Error("the table is not in the order of its names")
	}
}

func expectID(t *testing.T, x Extractor, d *Delivery, want string, code verify.Code) {
	t.Helper()
	got, err := x.Extract(d)
	if got != want || verify.CodeOf(err) != code || (err == nil) != (code == "") {
		t.Errorf("got %q, %v; want %q, %q", got, err, want, code)
	}
}
