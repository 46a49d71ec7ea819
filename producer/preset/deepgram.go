package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// Deepgram receives callbacks of Deepgram. Deepgram signs nothing; the credential is one of user
// and password, or a parameter, in the callback's URL. Since October 2026 its field dg-token,
// which holds the id of an API key, does not count any more.
//
// A digest of the body identifies a callback, because all results of a stream have one
// request_id. The type is the member "type" of streamed results, and "callback" for others.
// Bodies of up to 25 MiB are accepted; that size is ours.
//
// Sources, read in November 2026: Deepgram's page on callbacks and its changelog of 27 October
// 2026. That it tries 10 times more, every 30 seconds, is general knowledge.
//
// https://developers.deepgram.com/docs/callback
func Deepgram(s Settings) producer.Producer { return deepgram.producer(s) }

var deepgram = Preset{
	Name: "deepgram", Docs: "https://developers.deepgram.com/docs/callback",
	Auth: "basic, or a key in the URL", ID: "digest of the body", Wants: "2xx; 5m",
	Uses:   []string{"username", "password", "query", "value", "secrets"},
	fields: []string{"Dg-Token"},
	key:    producer.BodyDigest(), kind: producer.First(producer.JSON("type"), producer.Const("callback")),
	window: day + time.Hour,
	build: func(p *producer.Producer, s Settings) {
		withCredential(p, s.credential())
		p.MaxBody = 25 << 20
	},
}
