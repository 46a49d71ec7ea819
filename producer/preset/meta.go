package preset

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Meta receives webhooks of Meta's platforms (Facebook, Instagram, WhatsApp). A secret is the app secret.
// verifyToken is the text that was entered beside the address; with it the unsigned GET by which Meta checks
// the address is answered, and without it ("") the check stays off.
//
// Meta gives no id; a digest of the body names a delivery, and one delivery may hold several changes. The type
// is the member "object". That it tries for 36 hours is general knowledge, not re-read.
//
// https://developers.facebook.com/docs/graph-api/webhooks/getting-started
func Meta(verifyToken string, secrets ...string) producer.Producer {
	return meta(Settings{VerifyToken: verifyToken, Secrets: secrets})
}

func meta(s Settings) producer.Producer {
	p := signedAsHub(webhook("meta", "https://developers.facebook.com/docs/graph-api/webhooks/getting-started"), s)
	p.Key = producer.BodyDigest()
	p.Type = producer.JSON("object")
	p.EventTime = producer.JSON("entry.0.time")
	p.Window = 60 * time.Hour
	if s.VerifyToken != "" {
		p.Challenge = func(r *http.Request) (*dedup.Response, error) { return metaChallenge(r, s.VerifyToken) }
		p.ChallengeMethods = []string{http.MethodGet}
		p.SecretQuery = []string{"hub.verify_token"}
	}
	return p
}

func metaChallenge(r *http.Request, token string) (*dedup.Response, error) {
	if r.Method != http.MethodGet {
		return nil, nil
	}
	q, err := hubQuery(r)
	if err != nil {
		return nil, err
	}
	if q.mode != "subscribe" || q.challenge == "" || !sameText(q.token, token) {
		return &dedup.Response{Status: http.StatusForbidden}, &verify.Error{Code: verify.ChallengeUnexpected}
	}
	return echo(q.challenge), nil
}

// sameText compares a received credential with the expected one, in a time that depends on neither.
func sameText(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// maxChallenge bounds what a stranger can make us send back.
const maxChallenge = 1_024

// hub is the query of a subscription check, as WebSub defined it and Meta took it over.
type hub struct{ mode, topic, challenge, token string }

func hubQuery(r *http.Request) (hub, error) {
	var h hub
	for name, to := range map[string]*string{
		"hub.mode": &h.mode, "hub.topic": &h.topic, "hub.challenge": &h.challenge, "hub.verify_token": &h.token,
	} {
		v, err := producer.Query(name).Extract(&producer.Delivery{Request: r})
		if err != nil {
			return hub{}, err
		}
		*to = v
	}
	if len(h.challenge) > maxChallenge {
		return hub{}, &verify.Error{Code: verify.ChallengeUnexpected, Component: "hub.challenge"}
	}
	return h, nil
}
