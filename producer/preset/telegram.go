package preset

import (
	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// Telegram receives updates of a Telegram bot. A token is the secret_token that the bot gave to
// setWebhook: 1 to 256 letters, digits, "_" and "-". It is sent as it is and authenticates the
// sender but not the body.
//
// update_id identifies the update. The event type is the member beside it, such as "message" or
// "callback_query". Telegram gives up after an unknown number of attempts.
//
// Sources, read in November 2026: the description of setWebhook, as several libraries quote it.
//
// https://core.telegram.org/bots/api#setwebhook
func Telegram(tokens ...string) producer.Producer { return telegram.with(tokens) }

var telegram = Preset{
	Name: "telegram", Docs: "https://core.telegram.org/bots/api#setwebhook",
	Auth: "token in X-Telegram-Bot-Api-Secret-Token", ID: "body update_id", Wants: "2xx", Uses: []string{"secret"},
	like: producer.Producer{Key: producer.JSON("update_id"), KeyRequired: true, Type: updateKind{}, Window: 2 * day},
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, verify.HeaderValue("X-Telegram-Bot-Api-Secret-Token", s.Secrets...))
	},
}

// updateKind reads the name of the first member of an update other than update_id.
type updateKind struct{}

func (updateKind) Extract(d *producer.Delivery) (string, error) {
	doc, err := d.JSON()
	if err != nil || doc[0] != '{' {
		return "", nil //nolint:nilerr // the identifier is missing, which is reported
	}
	kind := ""
	err = strictjson.EachMember(doc, func(name, _ []byte) error {
		if text := strictjson.String(name); text != "update_id" && kind == "" {
			kind = text
		}
		return nil
	})
	return kind, err
}

func (updateKind) Consumes() []string { return []string{"@body"} }
func (updateKind) String() string     { return "the member beside update_id" }
