package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Xsolla receives requests of Xsolla to payment providers, which create a payment. Keys are the
// secrets by their ids, such as acc_123. The media type is not signed, so only application/json
// without other parameters than charset is accepted. The response that Xsolla reads, the action
// object, is that of your handler.
//
// The identifier is Request-Id. That a retry has the same, how long Xsolla retries, and the body
// of a sample are not documented on that page; it does not say either what the secret's text is:
// its characters are the key. Signatures end with their parameter expires, ten minutes later in the
// example; the tolerance of 5 minutes is ours.
//
// Read in November 2026.
//
// https://developers.xsolla.com/payment-providers/self-integration/implementation
func Xsolla(keys map[string]string) producer.Producer { return xsolla.producer(Settings{Keys: keys}) }

var xsolla = Preset{
	Name: "xsolla", Docs: "https://developers.xsolla.com/payment-providers/self-integration/implementation",
	Auth: "RFC 9421, HMAC-SHA256", ID: "Request-Id", Wants: "a handler's answer", Uses: []string{"keys"},
	like: producer.Producer{
		Fields: []string{"Prefer"}, Key: producer.Header("Request-Id"), KeyRequired: true,
		Type: producer.Const("payment"), Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		p.MediaTypes = []string{"application/json"}
		signedByMessages(p, s, &verify.RFC9421{
			Algs: []verify.Alg{verify.HMACSHA256}, Coverage: verify.Coverage{Required: []string{"request-id"}},
		}, verify.JWKSConfig{})
	},
	sharedKeys: true,
	signWith: signsMessages(verify.Signer{
		NameAlg: true, Expires: 10 * time.Minute,
		Components: []string{"@method", "@target-uri", "content-digest", "request-id"},
	}),
}
