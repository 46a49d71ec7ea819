package preset

import "github.com/eyelet-dev/eyelet/producer"

// Resend receives webhooks of Resend, which sends them through Svix: see [Svix]. A secret is the
// endpoint's signing secret ("whsec_" and base64). Resend documents the schedule of Svix.
//
// Sources, read in November 2026: Resend's page on retries and replays.
//
// https://resend.com/docs/webhooks/retries-and-replays
func Resend(secrets ...string) producer.Producer { return resend.producer(Settings{Secrets: secrets}) }

var resend = svix.sentBy("resend", "https://resend.com/docs/webhooks/introduction")
