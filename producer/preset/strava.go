package preset

import (
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// Strava receives webhooks of a Strava application. Strava sends no credential with an event: give
// the callback URL a parameter of your own, named in query, with the secret as its value. That
// Strava calls the URL with it is assumed.
//
// The GET with which Strava checks a new callback is answered only if it has token and that
// parameter. Events have no identifier; a digest of the body identifies one. The type is object
// and aspect ("activity:create").
//
// Sources, read in November 2026: Strava's page on webhooks. It wants 200 within 2 seconds and
// tries 3 times.
//
// https://developers.strava.com/docs/webhooks/
func Strava(s Settings) producer.Producer { return strava.producer(s) }

var strava = Preset{
	Name: "strava", Docs: "https://developers.strava.com/docs/webhooks/", Auth: "key in the URL",
	ID: "digest of the body", Deadline: "2s", Wants: "200; 3 times",
	Uses: []string{"query", "secret", "token"}, needs: map[string]any{"query": "key"},
	like: producer.Producer{
		Key: producer.BodyDigest(), Window: day + time.Hour,
		Type: producer.First(producer.Join(producer.JSON("object_type"), producer.JSON("aspect_type")),
			producer.JSON("aspect_type")),
	},
	build: func(p *producer.Producer, s Settings) {
		credential := s.credential(false)
		withCredential(p, credential)
		if credential == nil || s.Token == "" {
			return
		}
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
