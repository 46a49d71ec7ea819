package preset

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// This file has the methods of [verify.Alternator] of the schemes of this package, and Offline of
// those that fetch certificates.

// Alternatives implements [verify.Alternator].
func (t *twilioScheme) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	return verify.VerifyAround(t.verify).Alternatives(t.HMAC, r, offered)
}

// Alternatives implements [verify.Alternator].
func (b *bodyTimed) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	return verify.VerifyAround(b.verify).Alternatives(b.HMAC, r, offered)
}

// Alternatives implements [verify.Alternator].
func (s docuSignScheme) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	return verify.VerifyAround(s.verify).Alternatives(s.HMAC, r, offered)
}

// Alternatives implements [verify.Alternator]: those of the subscription that the request names.
func (b bySubscription) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	scheme, _, err := b.of(r)
	if err != nil {
		return nil
	}
	return scheme.Alternatives(r, offered)
}

// Offers implements [verify.Alternator].
func (b bySubscription) Offers(ctx context.Context) (all []verify.Offer) {
	for _, id := range slices.Sorted(maps.Keys(b.schemes)) {
		all = append(all, named(ctx, b.schemes[id], "subscription", id)...)
	}
	return all
}

// Alternatives implements [verify.Alternator]: those of the topic that the request names.
func (t *topics) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	topic, err := producer.Link("self").Extract(&producer.Delivery{Request: r})
	if err != nil {
		return nil
	}
	scheme, _ := t.of(topic)
	if one, ok := scheme.(verify.Alternator); ok {
		return one.Alternatives(r, offered)
	}
	return nil
}

// Offers implements [verify.Alternator].
func (t *topics) Offers(ctx context.Context) (all []verify.Offer) {
	for _, topic := range slices.Sorted(maps.Keys(t.byTopic)) {
		if one, ok := t.byTopic[topic].(verify.Alternator); ok {
			all = append(all, named(ctx, one, "topic", topic)...)
		}
	}
	if t.other != nil {
		all = append(all, t.other.Offers(ctx)...)
	}
	return all
}

// named adds the owner to the names of offers.
func named(ctx context.Context, of verify.Alternator, what, owner string) []verify.Offer {
	offers := of.Offers(ctx)
	for i := range offers {
		offers[i].Name += fmt.Sprintf(" of %s %q", what, owner)
	}
	return offers
}

// Alternatives implements [verify.Alternator].
func (a *adyenScheme) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	if a.err != nil {
		return nil
	}
	return verify.SecretAlternatives(a.Offers(r.Context()), offered, verify.Hex, func(raw []byte) verify.Scheme {
		return newAdyenScheme(hex.EncodeToString(raw))
	})
}

// Offers implements [verify.Alternator].
func (a *adyenScheme) Offers(context.Context) []verify.Offer {
	return verify.SecretOffers(a.secrets(), verify.Hex)
}

// Alternatives implements [verify.Alternator].
func (s *swtScheme) Alternatives(r *http.Request, offered []verify.Offer) []verify.Alternative {
	if s.Check() != nil {
		return nil
	}
	if s.jwt != nil {
		return verify.VerifyAround(s.verify).Alternatives(s.jwt, r, offered)
	}
	return verify.SecretAlternatives(s.Offers(r.Context()), offered, verify.Raw, func(raw []byte) verify.Scheme {
		return &swtScheme{Issuers: s.Issuers, Secrets: []verify.Secret{verify.Secret(raw)}}
	})
}

// Offers implements [verify.Alternator].
func (s *swtScheme) Offers(context.Context) []verify.Offer {
	return verify.SecretOffers(s.Secrets, verify.Raw)
}

// Alternatives implements [verify.Alternator]: other topics, as the fields of SNS name them, and
// older versions.
func (s *snsScheme) Alternatives(r *http.Request, _ []verify.Offer) (all []verify.Alternative) {
	if s.Check() != nil {
		return nil
	}
	other := func(m verify.Mistake, detail string, topics []string, hashes ...verify.Hash) {
		all = append(all, verify.Alternative{Mistake: m, Detail: detail, Scheme: func() verify.Scheme {
			return &snsScheme{certs: s.certs.offline(), topics: topics, hashes: hashes}
		}})
	}
	if topic := r.Header.Get("X-Amz-Sns-Topic-Arn"); topic != "" && !slices.Contains(s.topics, topic) {
		detail := fmt.Sprintf("%q is not among topics", topic[:min(len(topic), 256)])
		other(verify.TopicDiffers, detail, []string{topic}, s.hashes...)
	}
	if !slices.Contains(s.hashes, verify.SHA1) {
		other(verify.VersionDiffers, "1, and 2 is required", s.topics, verify.SHA1)
	}
	return all
}

// Offers implements [verify.Alternator]: certificates are public.
func (s *snsScheme) Offers(context.Context) []verify.Offer { return nil }

// Offline returns the scheme with the certificates that were fetched before.
func (s *snsScheme) Offline() verify.Scheme {
	return &snsScheme{certs: s.certs.offline(), topics: s.topics, hashes: s.hashes}
}

// simulatorID is the webhook id that PayPal's simulator signs.
const simulatorID = "WEBHOOK_ID"

// Alternatives implements [verify.Alternator]: other ids of the webhook. A delivery does not have
// it, so they are guesses: the configured id as it may have been copied, the simulator's, and the
// texts that the operator offers.
func (p *payPalScheme) Alternatives(_ *http.Request, offered []verify.Offer) (all []verify.Alternative) {
	if p.Check() != nil {
		return nil
	}
	tried := map[string]bool{p.webhookID: true, "": true}
	try := func(id, detail string) {
		if !tried[id] {
			tried[id] = true
			other := func() verify.Scheme { return &payPalScheme{webhookID: id, certs: p.certs.offline()} }
			all = append(all, verify.Alternative{Mistake: verify.WebhookDiffers, Detail: detail, Scheme: other})
		}
	}
	bare := strings.Trim(p.webhookID, " \t\r\n\"'")
	try(bare, "the configured one, without white space and quotes")
	try(strings.ToUpper(bare), "the configured one, in capitals")
	try(simulatorID, "that of PayPal's simulator")
	for _, o := range offered {
		try(string(o.Secret), o.Name)
	}
	return all
}

// Offers implements [verify.Alternator]: certificates are public.
func (p *payPalScheme) Offers(context.Context) []verify.Offer { return nil }

// Offline returns the scheme with the certificates that were fetched before.
func (p *payPalScheme) Offline() verify.Scheme {
	return &payPalScheme{webhookID: p.webhookID, certs: p.certs.offline()}
}

var errOffline = errors.New("certificates are not fetched to explain a refusal")

// offline returns a copy of the store that fetches nothing.
func (c *certStore) offline() *certStore {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &certStore{
		Fetch: func(context.Context, string) ([]byte, error) { return nil, errOffline },
		Roots: c.Roots, SkipChain: c.SkipChain, Pinned: c.Pinned, Now: c.Now, cache: maps.Clone(c.cache),
	}
}
