package preset

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// ocm receives requests of servers of Open Cloud Mesh: shares, notifications and accepted invites.
// URLs are the complete addresses of their keys, such as
// "https://cloud.example/.well-known/jwks.json". Only these are fetched, and each is a principal.
// A share's sender, an invite's recipientProvider, or the party that asks for a share must be at
// the host of that URL, else the request is refused. Notifications name no server: compare the
// principal with that of the share. So does the owner of a share, which may be at another server.
//
// The identifier is providerId, of a notification with its type. The response is 201 without the
// name of the recipient, which a handler can answer. How long servers retry is not documented; the
// tolerance of 5 minutes and the window are ours.
//
// Read in November 2026: draft-ietf-ocm-open-cloud-mesh-05 in github.com/cs3org/OCM-API.
//
// https://datatracker.ietf.org/doc/draft-ietf-ocm-open-cloud-mesh/
var ocm = Preset{
	Name: "ocm", Docs: "https://datatracker.ietf.org/doc/draft-ietf-ocm-open-cloud-mesh/", Auth: "RFC 9421",
	ID: "body providerId", Wants: "201", Uses: []string{"allow"},
	like: producer.Producer{
		Summary: []string{"{json:name} from {json:sender}"},
		Key: producer.First(producer.Join(producer.JSON("notificationType"), producer.JSON("providerId")),
			producer.JSON("providerId")),
		Type:      producer.First(producer.JSON("notificationType"), producer.JSON("resourceType")),
		Tolerance: fiveMinutes, Window: 3 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		from := producer.First(producer.JSON("sender"), producer.JSON("recipientProvider"), producer.JSON("shareWith"))
		p.Admit = sentBy(from, func(id verify.Identity, sender string) bool {
			return sender == "" || strings.EqualFold(sender[strings.LastIndex(sender, "@")+1:], hostOf(id.Principal))
		})
		p.Accepted = dedup.Response{
			Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
			Body: []byte(`{"recipientDisplayName":""}`),
		}
		signedByMessages(p, s, &verify.RFC9421{
			Tag: "ocm", OneTag: true, Coverage: verify.Coverage{Required: []string{"content-length"}},
			Algs: []verify.Alg{verify.Ed25519, verify.ECDSAP256SHA256, verify.ECDSAP384SHA384, verify.RSAPSSSHA512},
		}, verify.JWKSConfig{})
	},
	signWith: signsMessages(verify.Signer{NameAlg: true, Components: []string{
		"@method", "@target-uri", "content-digest", "content-length", "content-type",
	}}),
}

// hostOf returns host and port of a URL, or "".
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
