package preset

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// echo returns a challenge as text, which no browser interprets as anything else.
func echo(challenge string) *dedup.Response {
	r := textResponse(challenge)
	r.Header.Set("X-Content-Type-Options", "nosniff")
	return &r
}

// textResponse returns a response of plain text.
func textResponse(text string) dedup.Response {
	header := http.Header{"Content-Type": {"text/plain"}}
	return dedup.Response{Status: http.StatusOK, Header: header, Body: []byte(text)}
}

// echoJSON returns a challenge as the only member of an object.
func echoJSON(challenge string) *dedup.Response {
	return jsonResponse(map[string]string{"challenge": challenge})
}

// echoesChallenge returns the Handshake of a [producer.Producer] that answers a signed body, of
// which a member has the value, with its member "challenge".
func echoesChallenge(member producer.Extractor, value string, reply func(string) *dedup.Response,
) func(context.Context, *producer.Delivery) (*dedup.Response, error) {
	return func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
		if got, err := member.Extract(d); got != value {
			return nil, err
		}
		challenge, err := producer.JSON("challenge").Extract(d)
		switch {
		case err != nil:
			return nil, err
		case challenge == "":
			return nil, malformed("json:challenge", nil)
		}
		return reply(challenge), nil
	}
}

// jsonResponse returns the members of an object as JSON.
func jsonResponse(members map[string]string) *dedup.Response {
	body, _ := json.Marshal(members) // strings always marshal
	header := http.Header{"Content-Type": {"application/json"}}
	return &dedup.Response{Status: http.StatusOK, Header: header, Body: body}
}

// sameText compares a received credential in constant time.
func sameText(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// maxChallenge limits what an unauthenticated client can make the receiver echo, in bytes.
const maxChallenge = 1_024

// hubQuery is the query of a subscription check (WebSub section 5.3), which Meta uses too.
type hubQuery struct{ mode, topic, challenge, token string }

func readHubQuery(r *http.Request) (hubQuery, error) {
	var q hubQuery
	for name, to := range map[string]*string{
		"hub.mode": &q.mode, "hub.topic": &q.topic, "hub.challenge": &q.challenge, "hub.verify_token": &q.token,
	} {
		v, err := producer.Query(name).Extract(&producer.Delivery{Request: r})
		if err != nil {
			return hubQuery{}, err
		}
		*to = v
	}
	if len(q.challenge) > maxChallenge {
		return hubQuery{}, &verify.Error{Code: verify.ChallengeUnexpected, Component: "hub.challenge"}
	}
	return q, nil
}

// grantsOrigins answers requests to subscribe (CloudEvents HTTP webhook section 4) from the
// origins of the settings. Without origins they stay unanswered. A scheme, if given, must
// accept the request first: it checks keys in the URL.
func grantsOrigins(p *producer.Producer, s Settings, scheme verify.Scheme) {
	if len(s.Origins) == 0 {
		return
	}
	p.ChallengeMethods = []string{http.MethodOptions}
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		if r.Method != http.MethodOptions {
			return nil, nil
		}
		if scheme != nil {
			if _, err := scheme.Verify(r, func() ([]byte, error) { return nil, nil }); err != nil {
				return nil, err
			}
		}
		return grant(r, s.Origins, perMinute(s.Rate))
	}
}

// grant answers one request to subscribe (section 4.2). It echoes listed origins only.
func grant(r *http.Request, origins []string, rate int) (*dedup.Response, error) {
	asked := r.Header.Values("WebHook-Request-Origin")
	if len(asked) != 1 || !slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, asked[0]) }) {
		return &dedup.Response{Status: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {http.MethodPost}}},
			&verify.Error{Code: verify.ChallengeUnexpected, Component: "webhook-request-origin"}
	}
	header := http.Header{"Allow": {http.MethodPost}}
	header.Set("WebHook-Allowed-Origin", asked[0])
	header.Set("WebHook-Allowed-Rate", grantedRate(r.Header.Get("WebHook-Request-Rate"), rate))
	return &dedup.Response{Status: http.StatusOK, Header: header}, nil
}

// perMinute returns a rate in events per minute, at least 1 if there is a limit, or else 0.
func perMinute(r producer.Rate) int {
	if r = r.WithDefaults(); !r.Limits() {
		return 0
	}
	return max(1, int(min(math.MaxInt32, int64(r.Events)*int64(time.Minute)/int64(r.Per))))
}

// grantedRate returns the requested rate, at most limit requests per minute. A limit of 0 means
// no limit.
func grantedRate(asked string, limit int) string {
	n, err := strconv.Atoi(asked)
	if err != nil || n <= 0 || limit > 0 && limit < n {
		n = limit
	}
	if n <= 0 {
		return "*"
	}
	return strconv.Itoa(n)
}
