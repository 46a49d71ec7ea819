package producer

// Inbound is where callers of an API put the idempotency identifier. A producer of your own that speaks to you as it
// speaks to that API needs no preset: Key is its `key:` setting.
type Inbound struct {
	// System is the API.
	System string
	// Key is the extractor as [ParseExtractor] reads it.
	Key string
	// Note says what else is to know; may be empty.
	Note string
}

// Inbounds returns the APIs that the Idempotency-Key draft and the event-delivery draft name, with others of
// the same kind. The draft's field is a quoted string; none of these senders quotes it, and both forms are one
// key here.
func Inbounds() []Inbound {
	const draft = "idempotency-key"
	return []Inbound{
		{"Adyen", draft, ""},
		{"BBVA", "idempotency-key:X-Unique-Transaction-ID", "as the draft says; the authentication of its webhooks is not public"},
		{"Datatrans", draft, ""},
		{"Django (django-idempotency-key)", draft, "HTTP_IDEMPOTENCY_KEY is the WSGI spelling of the same field"},
		{"Dwolla", draft, ""},
		{"Finastra", draft, ""},
		{"GitLab webhooks", draft, "the same value on every retry"},
		{"Google Standard Payments", "json:requestHeader.requestId", "bodies are PGP or JWE, so something must decrypt them before"},
		{"http4s", draft, ""},
		{"Interledger (Open Payments)", draft, "signs with RFC 9421: scheme rfc9421"},
		{"OpenBanking UK", "idempotency-key:x-idempotency-key", "remembered for 24 hours (general knowledge)"},
		{"PayPal", "idempotency-key:PayPal-Request-Id", ""},
		{"RazorpayX payouts", "idempotency-key:X-Payout-Idempotency", ""},
		{"Square", "json:idempotency_key", ""},
		{"Stripe", draft, ""},
		{"TabaPay webhooks", draft, "signed with X-HMAC-Signature: t=,v1=,v2=, where v2 is made with the old secret"},
		{"Twilio webhooks", "idempotency-key:I-Twilio-Idempotency-Token", ""},
		{"WebEngage", "idempotency-key:x-request-id", ""},
		{"Worldpay", draft, ""},
		{"Yandex Cloud", draft, ""},
		{"YooKassa", "idempotency-key:Idempotence-Key", "spelled so"},
	}
}
