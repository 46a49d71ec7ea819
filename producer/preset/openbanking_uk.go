package preset

import (
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// openBankingUK receives event notifications of UK Open Banking: the body is a security event
// token (RFC 8417), signed with PS256. Settings: audience (the client id that the bank knows),
// issuers, and jwks_url of the bank's keys. Handlers get the token's claims as the body.
//
// The identifier is "jti", the type the name of the first event in "events". A token contains
// its issue time but no end, so it is accepted for 7 days, a guess at how long banks retry; the
// window is a day longer.
//
// https://openbankinguk.github.io/read-write-api-site3/v4.0/resources-and-data-models/event-notifications/callback-url.html
var openBankingUK = Preset{
	Name: "openbanking-uk", Docs: "https://openbankinguk.github.io/read-write-api-site3/",
	Auth: "the body is a token signed with PS256", ID: "jti", Wants: "202; the bank's matter",
	Uses: []string{"audience", "issuers", "jwks_url", "alg"},
	like: producer.Producer{
		Fields: []string{"X-Jws-Signature", "X-Fapi-*"}, Key: producer.JWT("jti"), KeyRequired: true,
		Type: securityEvent{}, Tolerance: verify.Tolerance{Past: 7 * day, Future: 5 * time.Minute}, Window: 8 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		if len(s.Audience) == 0 || len(s.Issuers) == 0 {
			p.Err = errors.New("set audience (the client id that the bank knows) and issuers")
		} else {
			signedByTokens(p, s, "", &verify.JWT{
				Algorithms: algorithms(s, "PS256"), Body: true, NoExpiry: true,
				Audiences: s.Audience, Issuers: s.Issuers,
			})
		}
		p.Attributes = attributes(map[string]producer.Extractor{
			"source": producer.JWT("iss"), "subject": producer.JWT("sub"), "transaction": producer.JWT("txn"),
		})
		p.Payload = claimsPayload
		p.Accepted = dedup.Response{Status: http.StatusAccepted, Body: []byte{}}
	},
	signWith: signAsToken("PS256", false),
}

// securityEvent reads the name of the first event of a security event token (RFC 8417 section 2.2).
type securityEvent struct{}

func (securityEvent) Extract(d *producer.Delivery) (string, error) {
	const maxName = 4_096 // bytes, as written
	events := valueAt(d.Identity.Claims, "events")
	if len(events) == 0 || events[0] != '{' {
		return "", nil // a token without events has no type
	}
	name := ""
	err := strictjson.EachMember(events, func(key, _ []byte) error {
		var err error
		if name == "" && len(key) <= maxName {
			name, err = strictjson.Scalar(key)
		}
		return err
	})
	if err != nil {
		return "", malformed("events", err)
	}
	return name, nil
}

func (securityEvent) Consumes() []string { return nil }
func (securityEvent) String() string     { return "jwt:events (the first name)" }
