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

// OpenBankingUK receives event notifications of UK Open Banking: a security event token (RFC 8417) as the
// body, signed with PS256. Settings: audience (the client id that the bank knows), issuers, and jwks_url of the
// bank's keys. What handlers see as the body are the token's claims.
//
// The identifier is "jti" and the type the name of the event in "events"; a token with several of them has the
// type of the first. A token says when it was issued and not when it ends, so it is accepted for 7 days, a
// guess at how long banks try; the window is a day longer.
//
// https://openbankinguk.github.io/read-write-api-site3/v4.0/resources-and-data-models/event-notifications/callback-url.html
func OpenBankingUK(s Settings) producer.Producer {
	p := webhook("openbanking-uk", "https://openbankinguk.github.io/read-write-api-site3/")
	if len(s.Audience) == 0 || len(s.Issuers) == 0 {
		p.Err = errors.New("set audience (the client id that the bank knows) and issuers")
	} else {
		p = signedByTokens(p, s, "", &verify.JWT{
			Algorithms: algorithms(s, "PS256"), Body: true, NoExpiry: true, Audiences: s.Audience, Issuers: s.Issuers,
		})
	}
	p.Tolerance = verify.Tolerance{Past: 7 * 24 * time.Hour, Future: 5 * time.Minute}
	p.Key, p.KeyRequired = producer.JWT("jti"), true
	p.Type = eventName{}
	p.Attributes = attributes(map[string]producer.Extractor{"source": producer.JWT("iss"), "subject": producer.JWT("sub"), "transaction": producer.JWT("txn")})
	p.Payload = claimsPayload
	p.Accepted = dedup.Response{Status: http.StatusAccepted}
	p.Window = 8 * 24 * time.Hour
	return p
}

const maxEventName = 4_096 // bytes

// eventName is the name of the first event of a security event token (RFC 8417 section 2.2).
type eventName struct{}

func (eventName) Extract(d *producer.Delivery) (string, error) {
	events := valueAt(d.Identity.Claims, "events")
	if len(events) == 0 || events[0] != '{' {
		return "", nil // a token without events has no type
	}
	name := ""
	err := strictjson.EachMember(events, func(key, _ []byte) error {
		var err error
		if name == "" && len(key) <= maxEventName {
			name, err = strictjson.Scalar(key)
		}
		return err
	})
	if err != nil {
		return "", refused("events", err)
	}
	return name, nil
}

func (eventName) Consumes() []string { return nil }
func (eventName) String() string     { return "jwt:events (the first name)" }
