package preset

import (
	"encoding/hex"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// OpenPayments receives requests of one client of Open Payments that create incoming payments;
// jwksURL is "/jwks.json" at its wallet address. Setting keys has public keys by their ids instead,
// such as one that the client gave in a grant request (directed identity).
//
// The access token in Authorization must be signed and is neither checked nor given to handlers:
// the endpoint is for clients that may create payments. The response, 201 with the payment, is that
// of your handler. Requests have no identifier, so each signature is a payment, and only the same
// bytes are a duplicate; an Idempotency-Key is used if it is signed. The tolerance of 5 minutes is
// ours. The tag of GNAP (RFC 9635 section 7.3.1) is not demanded, because the documents show none.
//
// Read in November 2026, as of August: identity/ and implement/security of the documentation, and
// openapi/resource-server.yaml of github.com/interledger/open-payments-specifications.
//
// https://openpayments.dev/identity/http-signatures/
func OpenPayments(jwksURL string) producer.Producer {
	return openPayments.producer(Settings{JWKSURL: jwksURL})
}

var openPayments = Preset{
	Name: "openpayments", Docs: "https://openpayments.dev/identity/http-signatures/", Auth: "RFC 9421",
	ID: "the signature", Wants: "201 by a handler", Uses: []string{"jwks_url", "keys"},
	like: producer.Producer{
		Key: producer.First(producer.IdempotencyKey{}, signatureID{}), Type: producer.Const("incoming-payment"),
		Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		signedByMessages(p, s, &verify.RFC9421{
			Algs: []verify.Alg{verify.Ed25519}, Coverage: verify.Coverage{Required: []string{"authorization"}},
		}, verify.JWKSConfig{})
	},
	signWith: signsMessages(verify.Signer{NameAlg: true, Digests: []string{"sha-512"}, Components: []string{
		"content-type", "content-digest", "content-length", "authorization", "@method", "@target-uri",
	}}),
}

// signatureID identifies what is signed, its time included.
type signatureID struct{}

func (signatureID) Extract(d *producer.Delivery) (string, error) {
	return hex.EncodeToString(d.Identity.Signed), nil
}
func (signatureID) Consumes() []string { return nil }
func (signatureID) String() string     { return "the signature" }
