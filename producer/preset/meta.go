package preset

import (
	"net/http"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

var meta = Preset{
	Name: "meta",
	build: func(p *producer.Producer, s Settings) {
		if s.Token != "" {
			p.Challenge = func(r *http.Request) (*dedup.Response, error) { return hubChallenge(r, s.Token) }
			p.ChallengeMethods = []string{http.MethodGet}
			p.SecretQuery = []string{"hub.verify_token"}
		}
	},
}

var strava = Preset{
	Name: "strava",
	build: func(p *producer.Producer, s Settings) {
		if p.Scheme == nil || s.Token == "" {
			return
		}
		credential := p.Scheme
		p.SecretQuery = append(p.SecretQuery, "hub.verify_token")
		p.ChallengeMethods = []string{http.MethodGet}
		p.Challenge = func(r *http.Request) (*dedup.Response, error) {
			resp, err := hubChallenge(r, s.Token)
			if resp == nil || err != nil {
				return resp, err
			}
			if _, err := credential.Verify(r, nil); err != nil {
				return nil, err
			}
			return jsonResponse(map[string]string{"hub.challenge": string(resp.Body)}), nil
		}
	},
}

// hubChallenge answers a subscription check that has the token with its challenge, as text.
func hubChallenge(r *http.Request, token string) (*dedup.Response, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	q, err := readHubQuery(r)
	if err != nil {
		return nil, err
	}
	if q.mode != "subscribe" || q.challenge == "" || !sameText(q.token, token) {
		return &dedup.Response{Status: http.StatusForbidden}, &verify.Error{Code: verify.ChallengeUnexpected}
	}
	return echo(q.challenge), nil
}
