package preset

import (
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// AccessOwl receives webhooks of AccessOwl. Keys are the public keys of its webhooks by their ids
// ("whsec_..."), both as its settings show them, in PEM or as a JSON Web Key. The method is not
// signed, so the endpoint accepts POST only.
//
// The identifier is the Idempotency-Key; that it is the same in retries is assumed. AccessOwl wants
// 2xx within 30 seconds, and retries for 24 hours. The tolerance of 5 minutes is ours; that each
// retry is signed again is assumed.
//
// Read in November 2026: the pages on security, on the payload and on retries.
//
// https://docs.accessowl.com/guides/webhooks/security
func AccessOwl(keys map[string]string) producer.Producer {
	return accessOwl.producer(Settings{Keys: keys})
}

var accessOwl = Preset{
	Name: "accessowl", Docs: "https://docs.accessowl.com/guides/webhooks/security", Auth: "RFC 9421",
	ID: "Idempotency-Key", Deadline: "30s", Wants: "2xx; 24 hours", Uses: []string{"keys"},
	like: producer.Producer{
		Key: producer.IdempotencyKey{}, KeyRequired: true, Type: producer.JSON("event_type"), Tolerance: fiveMinutes,
		Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedByMessages(p, s, &verify.RFC9421{Algs: []verify.Alg{verify.Ed25519}}, verify.JWKSConfig{})
	},
	signWith: signsMessages(verify.Signer{
		Label: "sig", Digests: []string{"sha-512"},
		Components: []string{"@target-uri", "content-digest", "content-type", "idempotency-key"},
	}),
}
