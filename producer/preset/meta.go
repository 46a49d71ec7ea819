package preset

import (
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Meta receives webhooks of Meta's platforms (Facebook, Instagram, WhatsApp). A secret is the
// app secret. token is the text entered beside the URL. With it, the unsigned GET with
// which Meta checks the URL is answered; with "", it is not.
//
// Meta sends no id; a digest of the body identifies a delivery, which may contain several
// changes. The type is the member "object". That Meta retries for 36 hours is general
// knowledge, not re-read.
//
// https://developers.facebook.com/docs/graph-api/webhooks/getting-started
func Meta(token string, secrets ...string) producer.Producer {
	return meta.producer(Settings{Token: token, Secrets: secrets})
}

var meta = Preset{
	Name: "meta", Docs: "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
	Auth: "HMAC-SHA256 of the body", ID: "digest of the body", Wants: "200; 36h",
	Uses: []string{"secret", "token", "alg"},
	like: producer.Producer{
		Key: producer.BodyDigest(), Type: producer.JSON("object"), EventTime: producer.JSON("entry.0.time"),
		Window: 60 * time.Hour,
	},
	build: func(p *producer.Producer, s Settings) {
		signedAsHub(p, s)
		if s.Token != "" {
			p.Challenge = func(r *http.Request) (*dedup.Response, error) { return hubChallenge(r, s.Token) }
			p.ChallengeMethods = []string{http.MethodGet}
			p.SecretQuery = []string{"hub.verify_token"}
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
