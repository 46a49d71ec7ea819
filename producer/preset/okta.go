package preset

import (
	"cmp"
	"net/http"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Okta receives event hooks of Okta. A secret is the hook's authentication secret, which is sent
// as it is in the hook's authentication field and authenticates the sender but not the body. The
// field is Authorization unless the setting header names another.
//
// The GET with which Okta verifies the URL carries the secret too, and is answered only with it.
// A delivery is a batch (data.events); an event's uuid identifies it.
//
// Sources, read in November 2026: Okta's documentation of event hooks and its support article on
// their verification, with the requests. Okta waits 3 seconds and tries once more.
//
// https://developer.okta.com/docs/concepts/event-hooks/
func Okta(secrets ...string) producer.Producer { return okta.with(secrets) }

var okta = Preset{
	Name: "okta", Docs: "https://developer.okta.com/docs/concepts/event-hooks/", Auth: "secret in Authorization",
	ID: "each event's uuid", Deadline: "3s", Wants: "200 or 204; 1 retry", Uses: []string{"secret", "header"},
	like: producer.Producer{Fields: []string{"X-Okta-*"}, Window: 2 * day},
	build: func(p *producer.Producer, s Settings) {
		credential := verify.HeaderValue(cmp.Or(s.Header, "Authorization"), s.Secrets...)
		withCredential(p, credential)
		p.Split = batch{
			Path: []string{"data", "events"}, ID: producer.JSON("uuid"), Kind: producer.JSON("eventType"),
			Own: map[string]producer.Extractor{"time": producer.JSON("published")},
		}.split
		p.Challenge = func(r *http.Request) (*dedup.Response, error) { return oktaChallenge(r, credential) }
		p.ChallengeMethods = []string{http.MethodGet}
	},
	typeFrom: "json:data.events.*.eventType",
}

func oktaChallenge(r *http.Request, credential verify.Scheme) (*dedup.Response, error) {
	const field = "X-Okta-Verification-Challenge"
	if r.Method != http.MethodGet {
		return nil, nil
	}
	if _, err := credential.Verify(r, func() ([]byte, error) { return nil, nil }); err != nil {
		return nil, err
	}
	challenge, err := producer.Header(field).Extract(&producer.Delivery{Request: r})
	if err != nil {
		return nil, err
	}
	if challenge == "" || len(challenge) > maxChallenge {
		return nil, &verify.Error{Code: verify.ChallengeUnexpected, Component: field}
	}
	return jsonResponse(map[string]string{"verification": challenge}), nil
}
