package interop_test

import (
	"fmt"
	"net/http"
)

// sender is a library that makes or verifies deliveries: a row of the page.
type sender struct {
	name     string // of the endpoint and the subtest
	library  string // module path, or name of the npm package
	verifies bool   // the library only verifies; the test signs by the documented formula
	settings string // of the producer, in YAML; %s is the secret or public key
	key      keyKind
	text     bool // handlers get the body as text, not as JSON
	noClock  bool // nothing is signed that has a time, or the library takes it from its clock

	sign func(d delivery) (*http.Request, error) // of a Go library
	node string                                  // of a Node library: the name in senders.mjs

	want results // where they differ from those of usual
	note string
}

// results are the responses to the seven deliveries of a sender.
type results struct{ fresh, duplicate, resigned, tampered, wrongSecret, stale, future string }

func (r *results) columns() []*string {
	return []*string{&r.fresh, &r.duplicate, &r.resigned, &r.tampered, &r.wrongSecret, &r.stale, &r.future}
}

// usual returns what most senders get. The response does not say whether the secret or the body
// is wrong.
func (s sender) usual() results {
	r := results{
		"200", "200 replayed", "200 replayed", "401 signature_invalid", "401 signature_invalid",
		"401 timestamp_too_old", "401 timestamp_too_new",
	}
	if s.noClock {
		r.stale, r.future = "-", "-"
	}
	given := s.want.columns()
	for i, c := range r.columns() {
		if *given[i] != "" {
			*c = *given[i]
		}
	}
	return r
}

// events returns how many events the store must hold afterwards.
func (s sender) events() int {
	n := 0
	r := s.usual()
	for _, c := range r.columns() {
		if len(*c) == 3 && (*c)[0] == '2' { // accepted, and not replayed
			n++
		}
	}
	return n
}

// own are the results of producers of one's own, with RFC 9421.
var own = results{
	fresh: "202", duplicate: "202 replayed", resigned: "202 replayed", tampered: "401 digest_mismatch",
}

// refused are the results of a signature that does not follow RFC 9421.
func refused(code string) results {
	r := results{}
	for _, c := range r.columns()[:5] {
		*c = code
	}
	return r
}

const (
	presetSettings = "{preset: %s, secrets: [%%s]}"
	ed25519Key     = "{scheme: rfc9421, keys: [{id: k1, alg: ed25519, public_key: %s}]}"
	p256Key        = "{scheme: rfc9421, keys: [{id: k1, alg: ecdsa-p256-sha256, public_key: %s}]}"
	hmacKey        = "{scheme: rfc9421, keys: [{id: k1, alg: hmac-sha256, secret: %s}]}"
)

func preset(name string) string { return fmt.Sprintf(presetSettings, name) }

// Modules of Go libraries that several rows use.
const (
	cloudeventsGo = "github.com/cloudevents/sdk-go/v2"
	remitlyGo     = "github.com/remitly-oss/httpsig-go"
	commonfateGo  = "github.com/common-fate/httpsig"
)

// bearer are the results of senders that sign nothing.
var bearer = results{tampered: "200", wrongSecret: "401 credentials_mismatch"}

var senders = []sender{
	{name: "stripe-go", library: "github.com/stripe/stripe-go/v83", settings: preset("stripe"), sign: signStripe},
	{name: "svix-go", library: "github.com/svix/svix-webhooks", settings: preset("svix"), key: whsec, sign: signSvix},
	{name: "standard-webhooks-go", library: "github.com/standard-webhooks/standard-webhooks/libraries",
		settings: preset("standard-webhooks"), key: whsec, sign: signStandardWebhooks},
	{name: "cloudevents-go-binary", library: cloudeventsGo, settings: preset("cloudevents"), noClock: true,
		sign: cloudEventBinary, want: bearer, note: "binary mode; a bearer token, nothing is signed"},
	{name: "cloudevents-go-structured", library: cloudeventsGo, settings: preset("cloudevents"), noClock: true,
		sign: cloudEventStructured, want: bearer, note: "structured mode; a bearer token, nothing is signed"},
	{name: "httpsign", library: "github.com/yaronf/httpsign", settings: ed25519Key, key: ed25519Pair, noClock: true,
		sign: signYaronf, want: own, note: "Ed25519; signs the present time only"},
	{name: "remitly", library: remitlyGo, settings: hmacKey, noClock: true, sign: signRemitly, want: own,
		note: "HMAC; `@method`, `@authority`, `@path` and `@query`; signs the present time only"},
	{name: "remitly-target-uri", library: remitlyGo, settings: hmacKey, noClock: true, sign: signRemitlyTargetURI,
		want: refused("401 signature_invalid"),
		note: "the library derives another `@target-uri` than RFC 9421 section 2.2.2"},
	{name: "common-fate", library: commonfateGo, settings: p256Key, key: p256Pair, noClock: true, sign: signCommonfate,
		want: own, note: "P-256; `Content-Digest` set by the caller; signs the present time only"},
	{name: "common-fate-no-digest", library: commonfateGo, settings: p256Key, key: p256Pair, noClock: true,
		sign: signCommonfateWithoutDigest, want: refused("401 signature_invalid"),
		note: "the library covers `Content-Digest` and does not send it (RFC 9421 section 2.1)"},

	{name: "stripe", library: "stripe", settings: preset("stripe"), node: "stripe"},
	{name: "svix", library: "svix", settings: preset("svix"), key: whsec, node: "svix"},
	{name: "standardwebhooks", library: "standardwebhooks", settings: preset("standard-webhooks"), key: whsec,
		node: "standardwebhooks"},
	{name: "standardwebhooks-svix", library: "standardwebhooks", settings: preset("svix"), key: whsec,
		node: "standardwebhooks", note: "the `webhook-*` fields"},
	{name: "standardwebhooks-gitlab", library: "standardwebhooks", settings: preset("gitlab-signed"), key: whsec,
		node: "gitlab", note: "GitLab's signing token"},
	{name: "openai", library: "openai", verifies: true, settings: preset("standard-webhooks"), key: whsec,
		node: "openai", note: "signed by standardwebhooks"},
	{name: "octokit", library: "@octokit/webhooks-methods", settings: preset("github"), noClock: true, node: "octokit",
		note: "JSON"},
	{name: "octokit-form", library: "@octokit/webhooks-methods", settings: preset("github"), noClock: true,
		node: "octokit-form", note: "form, the default of GitHub"},
	{name: "slack", library: "@slack/bolt", verifies: true, settings: preset("slack"), node: "slack"},
	{name: "twilio", library: "twilio", settings: preset("twilio"), text: true, noClock: true, node: "twilio",
		note: "form, with a query"},
	{name: "twilio-json", library: "twilio", settings: preset("twilio"), noClock: true, node: "twilio-json",
		want: results{tampered: "401 body_hash_mismatch"}, note: "JSON, with `bodySHA256`"},
	{name: "shopify", library: "@shopify/shopify-api", verifies: true, settings: preset("shopify"), noClock: true,
		node: "shopify"},
	{name: "razorpay", library: "razorpay", verifies: true, settings: preset("razorpay"), noClock: true,
		node: "razorpay"},
	{name: "square", library: "square", verifies: true, settings: preset("square"), noClock: true, node: "square"},
	{name: "adyen", library: "@adyen/api-library", settings: preset("adyen"), key: hexKey, noClock: true, node: "adyen",
		note: "`:` and `\\` in the merchant reference"},
	{name: "adyen-platform", library: "@adyen/api-library", settings: preset("adyen-platform"), key: hexKey,
		noClock: true, node: "adyen-platform"},
	{name: "cloudevents-binary", library: "cloudevents", settings: preset("cloudevents"), noClock: true,
		node: "cloudevents-binary", want: bearer, note: "binary mode; a bearer token, nothing is signed"},
	{name: "cloudevents-structured", library: "cloudevents", settings: preset("cloudevents"), noClock: true,
		node: "cloudevents-structured", want: bearer, note: "structured mode; a bearer token, nothing is signed"},
	{name: "http-message-signatures", library: "http-message-signatures", settings: ed25519Key, key: ed25519Pair,
		node: "http-message-signatures", want: own, note: "Ed25519"},
	{name: "line", library: "@line/bot-sdk", verifies: true, settings: preset("line"), noClock: true, node: "line"},
	{name: "paddle", library: "@paddle/paddle-node-sdk", verifies: true, settings: preset("paddle"), node: "paddle"},
	{name: "workos", library: "@workos-inc/node", settings: preset("workos"), node: "workos"},
	{name: "linear", library: "@linear/sdk", verifies: true, settings: preset("linear"), node: "linear"},
	{name: "hubspot", library: "@hubspot/api-client", settings: preset("hubspot"), node: "hubspot",
		note: "version 3 of its signatures"},
	{name: "sendgrid", library: "@sendgrid/eventwebhook", verifies: true, settings: preset("sendgrid"),
		key: sendGridPair, node: "sendgrid"},
	{name: "discord", library: "discord-interactions", verifies: true, settings: preset("discord"), key: discordPair,
		node: "discord"},
}
