package preset

import (
	"cmp"
	"net/http"
	"net/url"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// mandrill receives webhooks of Mandrill (Mailchimp Transactional Email). A key is the webhook's
// key. The URL, exactly as entered there, and the form are signed with HMAC-SHA1. With an empty
// signedURL the public URL of the endpoint is used.
//
// The form has one member, mandrill_events, which is a batch; a form with another member is
// refused. Events have no identifier (_id is that of the message), so a digest of its bytes
// identifies one. The event type is "event" ("open", "hard_bounce"), or "type" of changed lists.
// The HEAD with which Mandrill checks a new webhook is answered.
//
// Sources, read in November 2026: Mailchimp's pages on webhooks and on authenticating them, and
// django-anymail. How long Mandrill retries is not documented. Bodies of up to 25 MiB are
// accepted; that size is ours.
//
// https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/
var mandrill = Preset{
	Name: "mandrill", Docs: "https://mailchimp.com/developer/transactional/docs/webhooks/",
	Auth: "HMAC-SHA1 of URL and form", ID: "digest of each event", Wants: "200",
	Uses: []string{"secret", "signed_url"},
	like: producer.Producer{
		Fields: []string{"X-Mandrill-*"}, Fingerprint: producer.FingerprintNone, Window: 4 * day,
		Summary: []string{"{json:msg.subject} to {json:msg.email}", "{json:msg.email}"},
	},
	build: func(p *producer.Producer, s Settings) {
		p.Err = checkText(s.Secrets)
		signedBy(p, newMandrillScheme(s.SignedURL, s.Secrets))
		p.Pings, p.MaxBody = []string{http.MethodHead}, 25<<20
		events := batch{
			ID: producer.Const(""), Kind: producer.First(producer.JSON("event"), producer.JSON("type")),
			Own: map[string]producer.Extractor{"subject": producer.JSON("_id"), "time": producer.JSON("ts")},
		}
		p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
			text, _ := producer.FormValue(d.Body, mandrillMember)
			return events.split(&producer.Delivery{Request: d.Request, Body: text, Identity: d.Identity})
		}
	},
	typeFrom: "json:*.event",
}

// mandrillMember is the one member of the form.
const mandrillMember = "mandrill_events"

// mandrillScheme verifies an HMAC of the URL and the decoded form.
type mandrillScheme struct{ *verify.HMAC }

func newMandrillScheme(address string, keys []string) mandrillScheme {
	covers := []string{"@body"}
	if address == "" {
		covers = append(covers, "@target-uri", "@authority", "@path", "@query")
	}
	return mandrillScheme{&verify.HMAC{
		Headers: []string{"X-Mandrill-Signature"}, Hash: verify.SHA1, Encoding: verify.Base64,
		Secrets: verify.Secrets(keys...), Covers: covers,
		Contents: func(r *http.Request, body []byte) ([][][]byte, error) {
			value, ok := producer.FormValue(body, mandrillMember)
			if !ok {
				return nil, &verify.Error{Code: verify.EventMalformed, Component: "@body"}
			}
			return [][][]byte{{[]byte(cmp.Or(address, r.URL.String())), []byte(mandrillMember), value}}, nil
		},
	}}
}

// SignBody signs a form, or JSON events, which it puts in one.
func (m mandrillScheme) SignBody(r *http.Request, body []byte, now time.Time) ([]byte, error) {
	if isJSONObject(body) {
		body = append(append([]byte("["), body...), ']')
	}
	if len(body) > 0 && body[0] == '[' {
		body = []byte(mandrillMember + "=" + url.QueryEscape(string(body)))
		r.Header.Set("Content-Type", formMedia)
	}
	return body, m.Sign(r, body, now)
}
