package preset

import (
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Twilio receives webhooks of Twilio. A secret is the account's auth token. Twilio signs the URL, so the
// receiver must know its public one; [verify.Twilio] says what else is signed.
//
// The identifier I-Twilio-Idempotency-Token is not signed: events are named by a digest of the signed content (URL and
// parameters). Requests of a running call may be equal in it; up to 256 of them with different tokens are accepted, within
// 24 hours of the first. Everything else that comes again under another token is quarantined. The body of the answer matters here: it may be TwiML, so use
// an Answer handler, whose response duplicates get again. Twilio waits 15 seconds and tries once more unless the
// URL's fragment says otherwise.
//
// https://www.twilio.com/docs/usage/webhooks/webhooks-security
func Twilio(tokens ...string) producer.Producer {
	p := webhook("twilio", "https://www.twilio.com/docs/usage/webhooks/webhooks-security")
	_, err := plainSecrets(tokens)
	p = signedBy(p, verify.NewTwilio(tokens...))
	p.Err = errors.Join(err, p.Err)
	p.Key = producer.Header("I-Twilio-Idempotency-Token")
	p.Repeatable = ofRunningCall
	p.Type = producer.First(
		producer.Form("EventType"), producer.Form("MessageStatus"), producer.Form("SmsStatus"), producer.Form("CallStatus"), producer.Form("RecordingStatus"),
		producer.Form("TranscriptionStatus"), producer.Form("ConferenceStatus"), producer.Form("StatusCallbackEvent"), producer.JSON("type"),
	)
	p.Methods = []string{http.MethodPost, http.MethodGet}
	p.SignsURL, p.QueryScope, p.ScopeIgnores = true, true, []string{"bodySHA256"}
	p.Window = 25 * time.Hour
	return p
}

// ofRunningCall lets requests of a running call occur again: the same key pressed at the same menu is another request.
// Messages and status callbacks do not: they have an identifier of their own, a number or a time in what is signed.
func ofRunningCall(d *producer.Delivery) producer.Repeats {
	value := func(name string) string {
		v, err := producer.First(producer.Form(name), producer.Query(name)).Extract(d)
		if err != nil {
			return "ambiguous"
		}
		return v
	}
	for _, name := range []string{"SequenceNumber", "Timestamp", "EventType", "MessageStatus", "SmsStatus"} {
		if value(name) != "" {
			return producer.Repeats{}
		}
	}
	if value("CallSid") == "" || value("CallStatus") == "completed" {
		return producer.Repeats{}
	}
	return producer.Repeats{Max: 256, Within: 24 * time.Hour}
}
