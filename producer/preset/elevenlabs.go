package preset

import (
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// ElevenLabs receives webhooks of an ElevenLabs workspace. A secret is the webhook's shared secret.
// A signature is valid for 30 minutes, as in the vendor's library.
//
// ElevenLabs sends no id; a digest of the body identifies the event. It wants 200. Retries are off
// unless they are enabled: then it tries 5 times more after 5xx, 429 and 408. Ten failures in a row
// may disable the webhook. Bodies of up to 25 MiB are accepted, because one may hold the audio of a
// call; that size is ours.
//
// Sources, read in November 2026: ElevenLabs' pages on webhooks and on post-call webhooks, and
// elevenlabs-js 2.
//
// https://elevenlabs.io/docs/eleven-api/resources/webhooks
func ElevenLabs(secrets ...string) producer.Producer {
	return elevenLabs.producer(Settings{Secrets: secrets})
}

var elevenLabs = Preset{
	Name: "elevenlabs", Docs: "https://elevenlabs.io/docs/eleven-api/resources/webhooks",
	Auth: "HMAC-SHA256 of time and body", ID: "digest of the body", Wants: "200; 5 retries",
	Uses: []string{"secrets"}, fields: []string{"ElevenLabs-*"},
	key: producer.BodyDigest(), kind: producer.JSON("type"), window: 2 * day,
	tolerance: verify.Tolerance{Past: 30 * time.Minute, Future: 5 * time.Minute},
	build: func(p *producer.Producer, s Settings) {
		p.MaxBody = 25 << 20
		signedByHMAC(p, &verify.HMAC{
			Headers: []string{"ElevenLabs-Signature"}, Separator: ",", Entries: []string{"t={timestamp}", "v0={sig}"},
			Encoding: verify.Hex, Content: "{timestamp}.{body}",
		}, s.Secrets)
	},
}
