package preset

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// ucp receives order webhooks of businesses that follow the Universal Commerce Protocol, as
// platforms do; profiles are the complete URLs of their profiles, such as
// "https://shop.example/.well-known/ucp". Only these are fetched, and each is a principal.
//
// The field UCP-Agent names the profile. Unlike in the example of the order capability, the
// signature must cover it. Keys are the profile's "keys", or "signing_keys" as until April 2026.
//
// Signatures need no time. An event is named by the Idempotency-Key, which is covered where it is
// sent, or by the member "event_id", else by its content. Webhook-Id is not signed and not read.
// The protocol recommends to remember keys for 48 hours.
//
// Read in November 2026, as of 22 August: docs/specification/signatures.md and
// shopping/order/index.md of github.com/Universal-Commerce-Protocol/ucp. Neither it nor conformance
// beside it has vectors of signatures.
//
// https://ucp.dev/latest/specification/signatures/
var ucp = Preset{
	Name: "ucp", Docs: "https://ucp.dev/latest/specification/signatures/", Auth: "RFC 9421",
	ID: "Idempotency-Key, or body event_id", Wants: "2xx; the sender's matter", Uses: []string{"allow"},
	like: producer.Producer{
		Fields:    []string{"UCP-Agent"},
		Key:       producer.First(producer.IdempotencyKey{}, producer.JSON("event_id")),
		Type:      producer.Const("order"),
		Tolerance: verify.Tolerance{Past: 24 * time.Hour, Future: 5 * time.Minute}, Window: 3 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		scheme := &verify.RFC9421{Keys: s.MessageKeys, NoTime: true}
		if s.MessageKeys == nil {
			if len(s.Allow) == 0 {
				p.Err = errors.New("set allow: the complete URLs of the profiles that may send")
				return
			}
			profiles, err := verify.NewDirectories(verify.DirectoriesConfig{
				URLs: s.Allow, Field: "UCP-Agent", Member: "profile",
			})
			if err != nil {
				p.Err = err
				return
			}
			scheme.Keys = profiles
		}
		signedBy(p, scheme)
	},
	signWith: signUCP,
}

func signUCP(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	profile := "https://shop.example/.well-known/ucp"
	if len(s.Allow) > 0 {
		profile = s.Allow[0]
	}
	r.Header.Set("UCP-Agent", fmt.Sprintf("profile=%q", profile))
	return signsMessages(verify.Signer{Components: []string{
		"@method", "@authority", "@path", "content-digest", "content-type", "ucp-agent",
	}})(s, r, body, now)
}
