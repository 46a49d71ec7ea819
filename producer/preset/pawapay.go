package preset

import (
	"errors"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// PawaPay receives signed callbacks of pawaPay. Keys are its public keys for callbacks in PEM by
// their ids, as GET /v2/public-key/http of its API lists them; that list is not a JSON Web Key Set.
//
// The documents do not say how ECDSA signatures are encoded. Both programs that pawaPay publishes
// sign in DER and verify its signatures so, as does the preset; `signature_encoding: raw` accepts
// r and s side by side (RFC 9421). Not seen in a callback of pawaPay.
//
// The identifier is that of the payment with its status, because some are reported while they are
// PROCESSING. pawaPay wants 200, retries for 15 minutes, and sends again when asked to; that this
// makes a new signature, which lasts a minute, is assumed.
//
// Read in November 2026: the pages on signatures, callbacks and public keys, and
// github.com/pawaPay/signatures-node-example and signatures-java-example.
//
// https://docs.pawapay.io/v2/docs/signatures
func PawaPay(keys map[string]string) producer.Producer { return pawaPay.producer(Settings{Keys: keys}) }

var pawaPay = Preset{
	Name: "pawapay", Docs: "https://docs.pawapay.io/v2/docs/signatures", Auth: "RFC 9421",
	ID: "body depositId, ... and status", Wants: "200; 15 minutes", Uses: []string{"keys", "signature_encoding"},
	like: producer.Producer{
		Fields: []string{"Signature-Date"},
		Key: producer.Join(producer.First(
			producer.JSON("depositId"), producer.JSON("payoutId"), producer.JSON("refundId"),
			producer.JSON("remittanceId"), producer.JSON("checkoutId")), producer.JSON("status")),
		Type: producer.JSON("status"), Tolerance: fiveMinutes, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		if !slices.Contains([]string{"", "der", "raw"}, s.SignatureEncoding) {
			p.Err = errors.New("signature_encoding is der or raw")
		}
		signedByMessages(p, s, &verify.RFC9421{
			Label: "sig-pp", Algs: []verify.Alg{verify.ECDSAP256SHA256}, DER: s.SignatureEncoding != "raw",
			Coverage: verify.Coverage{Required: []string{"signature-date"}},
		}, verify.JWKSConfig{})
	},
	signWith: signsMessages(verify.Signer{
		NameAlg: true, Expires: 5 * time.Minute, Digests: []string{"sha-512"},
		Components: []string{"@method", "@authority", "@path", "signature-date", "content-digest", "content-type"},
	}),
}
