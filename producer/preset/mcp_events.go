package preset

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// mcpEvents receives the webhooks of MCP Events, a draft of the Model Context Protocol: Standard
// Webhooks with the secret ("whsec_" and base64) that the client gave when it subscribed. keys
// are secrets by subscription id: a delivery must then name a listed one in
// X-MCP-Subscription-Id, which chooses its secret. It is not signed, so it is the principal only if
// no other subscription has the secret. For one secret of all subscriptions, use secrets.
//
// The signed verification envelope with which a server checks a callback is answered with its
// challenge. The event type is the name of the event, or the type of a control envelope: "gap"
// or "terminated". webhook-id identifies the message, also across attempts.
//
// Sources, read in November 2026: the design sketch of 2026-02-19 in
// modelcontextprotocol/experimental-ext-triggers-events, at commit 082166f0bae5. It may change.
//
// https://github.com/modelcontextprotocol/experimental-ext-triggers-events
var mcpEvents = Preset{
	Name: "mcp-events", Docs: "https://github.com/modelcontextprotocol/experimental-ext-triggers-events",
	Auth: "HMAC-SHA256 of id, time and body", ID: "webhook-id", Wants: "2xx; the server's matter",
	Uses: []string{"secret", "keys"}, like: producer.Producer{
		Summary: []string{"{json:data.title}", "{json:error.message}"},
		Fields:  []string{"Webhook-*", mcpSubscription}, KeyRequired: true, Fingerprint: producer.FingerprintNone,
		Tolerance: fiveMinutes, Window: 100 * time.Hour,
	},
	build: buildMCPEvents,
}

const mcpSubscription = "X-MCP-Subscription-Id"

func buildMCPEvents(p *producer.Producer, s Settings) {
	buildStandard(p, s, "webhook") // also without secrets, for the table of presets
	if len(s.Keys) > 0 {
		p.Err = nil
		if len(s.Secrets) > 0 {
			p.Err = errors.New("set secrets or keys by subscription, not both")
		}
		chosen := bySubscription{schemes: map[string]*verify.HMAC{}, owners: owners{}}
		for id, key := range s.Keys {
			one := &producer.Producer{}
			buildStandard(one, Settings{Secrets: []string{key}}, "webhook")
			p.Err = errors.Join(p.Err, one.Err)
			chosen.schemes[id] = one.Scheme.(*verify.HMAC) //nolint:forcetypeassert // buildStandard sets it
			if secret, err := verify.Secret(key).Decode(verify.Whsec); err == nil {
				chosen.owners.add(id, secret)
			}
		}
		p.Scheme = chosen
	}
	for _, secret := range append(slices.Collect(maps.Values(s.Keys)), s.Secrets...) {
		if !strings.HasPrefix(secret, "whsec_") {
			p.Err = errors.Join(p.Err, errors.New("a secret does not begin with whsec_"))
		}
	}
	p.Type = producer.First(producer.JSON("type"), producer.JSON("name"))
	p.Handshake = echoesChallenge(producer.JSON("type"), "verification", echoJSON)
}

// bySubscription verifies a delivery with the secret of the subscription that it names, so the
// server of one cannot send for another.
type bySubscription struct {
	schemes map[string]*verify.HMAC
	owners  owners
}

// of returns the scheme of the subscription that the request names.
func (b bySubscription) of(r *http.Request) (*verify.HMAC, string, error) {
	id, err := producer.Header(mcpSubscription).Extract(&producer.Delivery{Request: r})
	if err == nil && b.schemes[id] == nil {
		err = &verify.Error{Code: verify.KeyUnknown, Component: mcpSubscription}
	}
	return b.schemes[id], id, err
}

// Verify implements [verify.Scheme]. The principal is the subscription.
func (b bySubscription) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	scheme, id, err := b.of(r)
	if verify.CodeOf(err) == verify.KeyUnknown && r.Header["Webhook-Signature"] == nil {
		err = &verify.Error{Code: verify.SignatureMissing, Component: "Webhook-Signature"}
	}
	if err != nil {
		return verify.Identity{}, err
	}
	identity, err := scheme.Verify(r, body)
	identity.Principal = b.owners.proved(id)
	return identity, err
}

// Sign signs with the secret of the subscription that the request names.
func (b bySubscription) Sign(r *http.Request, body []byte, now time.Time) error {
	scheme, _, err := b.of(r)
	if err != nil {
		return err
	}
	return scheme.Sign(r, body, now)
}

// Binds implements [verify.Binder].
func (b bySubscription) Binds() verify.Binding {
	for _, one := range b.schemes {
		return one.Binds()
	}
	return verify.Binding{}
}

// ShortSecrets describes secrets that can be guessed, for a warning.
func (b bySubscription) ShortSecrets() []string {
	return verify.ShortSecrets(b.Offers(context.Background()), verify.Whsec)
}

// String describes the scheme for the policy.
func (b bySubscription) String() string {
	return "Standard Webhooks (v1) with the secret of the subscription that " + mcpSubscription + " names"
}
