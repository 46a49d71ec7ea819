package producer

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

// TestDocumentedInboundIdentifiers calls each system of the table with an identifier.
func TestDocumentedInboundIdentifiers(t *testing.T) {
	t.Parallel()
	fields := map[string]string{
		"Adyen": "Idempotency-Key", "BBVA": "X-Unique-Transaction-ID", "Datatrans": "Idempotency-Key",
		"Django (django-idempotency-key)": "Idempotency-Key", "Dwolla": "Idempotency-Key",
		"Finastra":        "Idempotency-Key",
		"GitLab webhooks": "Idempotency-Key", "http4s": "Idempotency-Key",
		"Interledger (Open Payments)": "Idempotency-Key",
		"OpenBanking UK":              "x-idempotency-key", "PayPal": "PayPal-Request-Id",
		"RazorpayX payouts": "X-Payout-Idempotency",
		"Stripe":            "Idempotency-Key", "TabaPay webhooks": "Idempotency-Key",
		"Twilio webhooks": "I-Twilio-Idempotency-Token",
		"WebEngage":       "x-request-id", "Worldpay": "Idempotency-Key", "Yandex Cloud": "Idempotency-Key",
		"YooKassa": "Idempotence-Key",
	}
	bodies := map[string]string{
		"Google Standard Payments": `{"requestHeader":{"protocolVersion":{"major":1},"requestId":"%s"},"amount":` +
			`{"amountMicros":"1"}}`,
		"Square": `{"idempotency_key":"%s","amount_money":{"amount":1000,"currency":"USD"}}`,
	}
	const id = "4935a656-a929-4792-b97c-8848be85c27c"
	systems := documentedSystems(t)
	for _, in := range systems {
		t.Run(in.System, func(t *testing.T) {
			t.Parallel()
			x, err := ParseExtractor(in.Key)
			if err != nil {
				t.Fatal(err)
			}
			if x.String() != in.Key {
				t.Errorf("%q is written as %q", in.Key, x)
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
				t.Fatal("the test has no call of this system")
			}
			expectID(t, x, delivery(hook, "{}", field, id), id, "")
			expectID(t, x, delivery(hook, "{}", field, `"`+id+`"`), id, "")
			expectID(t, x, delivery(hook, "{}", field, id, field, id), "", verify.AmbiguousField)
			expectID(t, x, delivery(hook, "{}"), "", "")
		})
	}
	if len(systems) != len(fields)+len(bodies) {
		t.Errorf("%d systems, but calls of %d", len(systems), len(fields)+len(bodies))
	}
	if !slices.IsSortedFunc(systems, func(a, b system) int {
		return strings.Compare(strings.ToLower(a.System),
			strings.ToLower(b.System))
	}) {
		t.Error("the table is not sorted by name")
	}
}

// system is a row of the table in docs/producers.md of APIs whose callers send an identifier.
type system struct{ System, Key string }

func documentedSystems(t *testing.T) []system {
	t.Helper()
	raw, err := os.ReadFile("../docs/producers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "<!-- inbound: ")
	table, _, _ = strings.Cut(table, "<!-- end of inbound -->")
	var all []system
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) == 3 && strings.HasPrefix(cells[1], "`") && cells[0] != "| System" {
			all = append(all, system{strings.TrimPrefix(cells[0], "| "), strings.Trim(cells[1], "`")})
		}
	}
	return all
}

func expectID(t *testing.T, x Extractor, d *Delivery, want string, code verify.Code) {
	t.Helper()
	got, err := x.Extract(d)
	if got != want || verify.CodeOf(err) != code || (err == nil) != (code == "") {
		t.Errorf("got %q, %v; want %q, %q", got, err, want, code)
	}
}
