package preset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Mailgun receives webhooks of Mailgun, and messages that its routes forward as
// application/x-www-form-urlencoded. A key is the account's webhook signing key.
//
// The body carries a time, a token and their HMAC. The signature does not cover anything else:
// whoever captured one could send another event with it. A token is therefore accepted with one
// event only, and the signature for 9 hours, because Mailgun retries for 8. Accept Mailgun over
// TLS only. The id in event-data identifies an event; forms have none, and a digest of the body
// does.
//
// Sources, read in November 2026: Mailgun's page on securing webhooks and mailgun-go 4. That
// Mailgun retries for 8 hours unless it gets 200 or 406 is general knowledge.
//
// https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks
func Mailgun(keys ...string) producer.Producer { return mailgun.producer(Settings{Secrets: keys}) }

var mailgun = Preset{
	Name: "mailgun", Docs: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
	Auth: "HMAC-SHA256 of time and token in the body", ID: "body event-data.id", Wants: "200; 8 h",
	Uses: []string{"secrets"},
	key:  producer.JSON("event-data.id"), kind: producer.JSON("event-data.event"),
	tolerance: verify.Tolerance{Past: 9 * time.Hour, Future: 5 * time.Minute}, window: 2 * day,
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, &mailgunScheme{Keys: verify.Secrets(s.Secrets...)})
		p.Nonce = producer.NonceUnique
	},
	sample: sample{
		body: `{"signature":{"timestamp":"{unix}","token":"","signature":""},"event-data":{"event":"{type}",` +
			`"id":"{id}","timestamp":{unix},"recipient":"mallow@example.com",{data}}}`},
}

// mailgunToken is the length of a token. Without it, digits could move between time and token.
const mailgunToken = 50

// mailgunScheme verifies the HMAC of a time and a token, all three in the body.
type mailgunScheme struct{ Keys []verify.Secret }

// Check reports all errors of the keys.
func (m *mailgunScheme) Check() error {
	var errs []error
	if len(m.Keys) == 0 {
		errs = append(errs, errors.New("no signing key is set"))
	}
	for _, k := range m.Keys {
		if _, err := k.Decode(verify.Raw); err != nil {
			errs = append(errs, errors.Join(errors.New("a signing key is empty or has white space around it"), err))
		}
	}
	return errors.Join(errs...)
}

// Verify implements [verify.Scheme]. The token is the nonce, and nothing else of the body is
// bound.
func (m *mailgunScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	if err := m.Check(); err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.KeysUnavailable, Err: err}
	}
	raw, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	var values [3]string
	d := &producer.Delivery{Request: r, Body: raw}
	for i, name := range []string{"timestamp", "token", "signature"} {
		x := producer.First(producer.JSON("signature."+name), producer.Form(name))
		if values[i], err = x.Extract(d); err != nil {
			return verify.Identity{}, err
		}
	}
	stamp, token := values[0], values[1]
	got, err := hex.DecodeString(values[2])
	switch {
	case values[2] == "":
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMissing, Component: "signature"}
	case err != nil || len(token) != mailgunToken:
		return verify.Identity{}, &verify.Error{Code: verify.SignatureMalformed, Component: "signature"}
	}
	seconds, err := strconv.ParseUint(stamp, 10, 40)
	if err != nil {
		return verify.Identity{}, &verify.Error{Code: verify.TimestampMalformed, Component: "timestamp"}
	}
	for _, k := range m.Keys {
		if hmac.Equal(got, mailgunSum(k, stamp, token)) {
			return verify.Identity{SignedAt: time.Unix(int64(seconds), 0), Nonce: token}, nil //nolint:gosec // 40 bits
		}
	}
	return verify.Identity{}, &verify.Error{Code: verify.SignatureMismatch, Component: "signature"}
}

func mailgunSum(key verify.Secret, stamp, token string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(stamp + token))
	return mac.Sum(nil)
}

// SignBody returns a JSON body with a time and an empty token, with a token and the signature.
func (m *mailgunScheme) SignBody(body []byte) ([]byte, error) {
	stamp := valueAt(valueAt(body, "signature"), "timestamp")
	if len(stamp) < 2 || len(m.Keys) == 0 {
		return nil, errors.New("sign: the body has no time")
	}
	sum := sha256.Sum256(body)
	token := hex.EncodeToString(sum[:])[:mailgunToken]
	mac := hex.EncodeToString(mailgunSum(m.Keys[0], string(stamp[1:len(stamp)-1]), token))
	return []byte(strings.Replace(string(body), `"token":"","signature":""`,
		`"token":"`+token+`","signature":"`+mac+`"`, 1)), nil
}

// Binds implements [verify.Binder]: the signature binds a time and nothing of the event.
func (m *mailgunScheme) Binds() verify.Binding { return verify.Binding{Time: true} }

// String describes the scheme for the policy.
func (m *mailgunScheme) String() string {
	return "HMAC-SHA256 (hex) of time and token, all in the body; the rest of the body is not signed"
}
