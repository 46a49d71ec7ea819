package preset

import "github.com/eyelet-dev/eyelet/producer"

// Clerk receives webhooks of Clerk, which sends them through Svix: see [Svix]. A secret is the
// endpoint's signing secret ("whsec_" and base64).
//
// Sources, read in November 2026: Clerk's overview of webhooks and @clerk/backend 2.29.
//
// https://clerk.com/docs/guides/development/webhooks/overview
func Clerk(secrets ...string) producer.Producer { return clerk.producer(Settings{Secrets: secrets}) }

var clerk = svix.sentBy("clerk", "https://clerk.com/docs/guides/development/webhooks/overview")
