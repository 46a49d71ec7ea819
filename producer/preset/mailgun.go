package preset

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// mailgun receives webhooks of Mailgun, and messages that its routes forward as forms, with
// attachments as multipart/form-data. A key is the account's webhook signing key.
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
var mailgun = Preset{
	Name: "mailgun", Docs: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
	Auth: "HMAC-SHA256 of time and token in the body", ID: "body event-data.id", Wants: "200; 8h",
	Uses: []string{"secret"},
	like: producer.Producer{
		Summary: []string{
			"{json:event-data.message.headers.subject} to {json:event-data.recipient}",
			"{json:event-data.recipient}",
		},
		Key: producer.JSON("event-data.id"), Type: producer.JSON("event-data.event"),
		Tolerance: verify.Tolerance{Past: 9 * time.Hour, Future: 5 * time.Minute}, Window: 2 * day,
	},
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, newMailgunScheme(s.Secrets))
		p.Nonce = producer.NonceUnique
	},
}

// mailgunToken is the length of a token.
const mailgunToken = 50

// mailgunScheme verifies the HMAC of a time and a token, all three in the body.
type mailgunScheme struct{ *producer.Embedded }

func newMailgunScheme(keys []string) *mailgunScheme {
	value := func(name string) producer.Extractor {
		return producer.First(producer.JSON("signature."+name), producer.Form(name))
	}
	return &mailgunScheme{&producer.Embedded{
		Signature: value("signature"), Timestamp: value("timestamp"),
		Content: "{timestamp}{json:signature.token | form:token}",
		HMAC:    &verify.HMAC{Encoding: verify.Hex, Secrets: verify.Secrets(keys...)},
	}}
}

// SignBody returns a JSON body with a new time, token and signature.
func (m *mailgunScheme) SignBody(_ *http.Request, body []byte, now time.Time) ([]byte, error) {
	if !isJSONObject(bytes.TrimLeft(body, " \t\r\n")) || len(m.HMAC.Secrets) == 0 {
		return nil, errors.New("sign: the body is not a JSON object, or there is no key")
	}
	sum := sha256.Sum256(body)
	token := hex.EncodeToString(sum[:])[:mailgunToken]
	stamp := strconv.FormatInt(now.Unix(), 10)
	sign := hmac.New(sha256.New, []byte(m.HMAC.Secrets[0]))
	sign.Write([]byte(stamp + token))
	mac := hex.EncodeToString(sign.Sum(nil))
	return withMember(body, "signature",
		`{"timestamp":"`+stamp+`","token":"`+token+`","signature":"`+mac+`"}`, true), nil
}
