package preset

import (
	"net/http"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var okta = Preset{
	Name: "okta",
	build: func(p *producer.Producer, _ Settings) {
		credential := p.Scheme
		p.Challenge = func(r *http.Request) (*dedup.Response, error) { return oktaChallenge(r, credential) }
		p.ChallengeMethods = []string{http.MethodGet}
	},
}

// oktaChallenge answers the GET with which Okta verifies the URL, if it has the credential.
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
