package producer

import (
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Twilio receives webhooks of Twilio. A secret is the account's auth token. Twilio signs the URL, so the
// receiver must know its public one; [verify.Twilio] says what else is signed.
//
// The identifier is I-Twilio-Idempotency-Token, which is not signed; where it is missing, a digest of the
// signed content (URL and parameters) stands in. The body of the answer matters here: it may be TwiML, so use
// an Answer handler, whose response duplicates get again. Twilio waits 15 seconds and tries once more unless the
// URL's fragment says otherwise.
//
// https://www.twilio.com/docs/usage/webhooks/webhooks-security
func Twilio(tokens ...string) Producer {
	p := webhook("twilio", "https://www.twilio.com/docs/usage/webhooks/webhooks-security")
	_, err := plainSecrets(tokens)
	p = p.signedBy(verify.NewTwilio(tokens...))
	p.Err = errors.Join(err, p.Err)
	p.Key = First(Header("I-Twilio-Idempotency-Token"), signedDigest{})
	p.Type = First(
		Form("EventType"), Form("MessageStatus"), Form("SmsStatus"), Form("CallStatus"), Form("RecordingStatus"),
		Form("TranscriptionStatus"), Form("ConferenceStatus"), Form("StatusCallbackEvent"), JSON("type"),
	)
	p.Methods = []string{http.MethodPost, http.MethodGet}
	p.SignsURL, p.QueryScope, p.ScopeIgnores = true, true, []string{"bodySHA256"}
	p.Window = 25 * time.Hour
	return p
}

// signedDigest names a delivery by the digest of all that is signed of it.
type signedDigest struct{}

func (signedDigest) Extract(d *Delivery) (string, error) {
	if d.Identity.Signed == nil {
		return "", nil
	}
	return "signed:" + hex.EncodeToString(d.Identity.Signed), nil
}

func (signedDigest) Consumes() []string { return nil }
func (signedDigest) String() string     { return "digest:signed" }
