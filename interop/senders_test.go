package interop_test

import (
	"cmp"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// sender is a library that makes or verifies deliveries: a row of the page.
type sender struct {
	name     string // of the endpoint and the subtest
	library  string // module path, or name of the npm package
	verifies bool   // the library only verifies; the test signs by the documented formula
	settings string // of the producer, in YAML; %s is the secret or public key
	key      keyKind
	text     bool // handlers get the body as text, not as JSON
	noCity   bool // handlers get a body without the city
	noClock  bool // nothing is signed that has a time, or the library takes it from its clock
	chunked  bool // sent without a length
	batch    int  // the events of a delivery, if more than one

	sign func(d delivery) (*http.Request, error) // of a Go library
	node string                                  // of a Node library: the name in senders.mjs

	documented string // what a sender of this name signs by its documents, for the third table

	want        results  // where they differ from those of usual
	quarantined []string // states of quarantined deliveries
	note        string
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
			n += max(1, s.batch)
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

func preset(name string) string { return fmt.Sprintf("{preset: %s, secret: [%%s]}", name) }

// Algorithms of RFC 9421 section 6.2.2.
const (
	algEd25519 = "ed25519"
	algP256    = "ecdsa-p256-sha256"
	algRSAPSS  = "rsa-pss-sha512"
	algHMAC    = "hmac-sha256"
)

// keyKinds are the keys of the algorithms.
var keyKinds = map[string]keyKind{algEd25519: ed25519Pair, algP256: p256Pair, algRSAPSS: rsaPair, algHMAC: text}

// algNames are the names of the algorithms on the page.
var algNames = map[string]string{algEd25519: "Ed25519", algP256: "P-256", algRSAPSS: "RSA-PSS", algHMAC: "HMAC"}

// rfc9421 returns the row of a library that signs with an algorithm of RFC 9421.
func rfc9421(library, alg string, notes ...string) sender {
	key := "public_key"
	if alg == algHMAC {
		key = "secret"
	}
	return sender{name: path.Base(library) + "-" + alg, library: library, key: keyKinds[alg], want: own,
		note:     strings.Join(append([]string{algNames[alg]}, notes...), "; "),
		settings: fmt.Sprintf("{scheme: rfc9421, keys: [{id: k1, alg: %s, %s: %%s}]}", alg, key)}
}

// byClock returns the row of a Go library that signs the present time only.
func byClock(s sender, sign func(delivery) (*http.Request, error)) sender {
	s.noClock, s.sign = true, sign
	return s
}

// Modules of Go libraries that several rows use.
const (
	cloudeventsGo = "github.com/cloudevents/sdk-go/v2"
	githubGo      = "github.com/google/go-github/v74"
	httpsignGo    = "github.com/yaronf/httpsign"
	remitlyGo     = "github.com/remitly-oss/httpsig-go"
	commonfateGo  = "github.com/common-fate/httpsig"
)

// contentful describes the scheme of Contentful: method, path, signed fields and body, a line each.
const contentful = `{scheme: hmac, header: X-Contentful-Signature, timestamp_header: X-Contentful-Timestamp,
    timestamp_unit: ms, tolerance: {past: 5m, future: 5m}, type: "header:X-Contentful-Topic", secret: [%s],
    template: "POST\n/webhooks/contentful\ncontent-type:{header:Content-Type};x-contentful-signed-headers:` +
	`{header:X-Contentful-Signed-Headers};x-contentful-timestamp:{timestamp};x-contentful-topic:` +
	`{header:X-Contentful-Topic}\n{body}"}`

// bearer are the results of senders that sign nothing.
var bearer = results{tampered: "200", wrongSecret: "401 credentials_mismatch"}

var senders = slices.Concat(goSenders(), nodeSenders, nodeRFC9421(), documentedSenders())

func goSenders() []sender {
	all := []sender{
		{name: "stripe-go-82", library: "github.com/stripe/stripe-go/v82", settings: preset("stripe"),
			sign: signStripe82},
		{name: "stripe-go", library: "github.com/stripe/stripe-go/v85", settings: preset("stripe"), sign: signStripe},
		{name: "svix-go", library: "github.com/svix/svix-webhooks", settings: preset("svix"), key: whsec,
			sign: signSvix},
		{name: "standard-webhooks-go", library: "github.com/standard-webhooks/standard-webhooks/libraries",
			settings: preset("standard-webhooks"), key: whsec, sign: signStandardWebhooks},
		{name: "go-github-gzip", library: githubGo, verifies: true, settings: preset("github"), noClock: true,
			sign: signGitHub(true), note: "gzip; the coded bytes are signed"},
		{name: "go-github-chunked", library: githubGo, verifies: true, settings: preset("github"), noClock: true,
			sign: signGitHub(false), chunked: true, note: "chunked, without a length"},
	}
	for _, one := range []sender{
		{name: "binary", sign: cloudEventIn(false, orderData), note: "binary mode"},
		{name: "structured", sign: cloudEventIn(true, orderData), note: "structured mode"},
		{name: "modes", sign: cloudEventInOtherMode(), note: "the same event in another mode has other bytes"},
		{name: "batch", sign: cloudEventBatch, batch: 2, note: "a batch of two",
			settings: "{preset: cloudevents, batch: true, secret: [%s]}"},
		{name: "xml", sign: cloudEventIn(false, xmlData), note: "XML in binary mode", text: true},
		{name: "base64", sign: cloudEventIn(true, binaryData), note: "`data_base64` in structured mode"},
		{name: "no-data", sign: cloudEventIn(false, nil), note: "no data, in binary mode", text: true, noCity: true},
	} {
		one.name, one.library, one.noClock, one.want = "cloudevents-go-"+one.name, cloudeventsGo, true, bearer
		if one.name == "cloudevents-go-modes" {
			one.want.resigned, one.quarantined = "200 quarantined", []string{"quarantined: conflict"}
		}
		one.settings = cmp.Or(one.settings, preset("cloudevents"))
		all = append(all, one)
	}
	for _, alg := range []string{algEd25519, algP256, algRSAPSS} {
		all = append(all, byClock(rfc9421(httpsignGo, alg), signYaronf))
	}
	for _, alg := range []string{algEd25519, algP256, algRSAPSS, algHMAC} {
		signer := signRemitly(alg, "@method", "@authority", "@path", "@query")
		all = append(all, byClock(rfc9421(remitlyGo, alg), signer))
	}
	targetURI := byClock(rfc9421(remitlyGo, algHMAC,
		"with `@target-uri`, which the library derives otherwise than RFC 9421 section 2.2.2"),
		signRemitly(algHMAC, "@method", "@target-uri"))
	digest := byClock(rfc9421(commonfateGo, algP256, "`Content-Digest` set by the caller"), signCommonfate)
	noDigest := byClock(rfc9421(commonfateGo, algP256,
		"the library covers `Content-Digest` and does not send it (RFC 9421 section 2.1)"), signCommonfateWithoutDigest)
	targetURI.name, noDigest.name = "remitly-target-uri", "common-fate-no-digest"
	targetURI.want, noDigest.want = refused("401 signature_invalid"), refused("401 signature_invalid")
	return append(all, targetURI, digest, noDigest)
}

var nodeSenders = []sender{
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
	{name: "slack", library: "@slack/bolt", verifies: true, settings: preset("slack"), node: "slack", note: "an event"},
	{name: "slack-command", library: "@slack/bolt", verifies: true, settings: preset("slack"), text: true,
		node: "slack-command", note: "a slash command"},
	{name: "slack-interaction", library: "@slack/bolt", verifies: true, settings: preset("slack"),
		node: "slack-interaction", note: "an interaction: JSON in a form"},
	{name: "twilio", library: "twilio", settings: preset("twilio"), text: true, noClock: true, node: "twilio",
		note: "form, with a query"},
	{name: "twilio-repeated", library: "twilio", settings: preset("twilio"), text: true, noClock: true,
		node: "twilio-repeated", note: "form with a repeated field"},
	{name: "twilio-port", library: "twilio", settings: preset("twilio"), text: true, noClock: true, node: "twilio-port",
		note: "signed with `:443` in the URL"},
	{name: "twilio-get", library: "twilio", settings: preset("twilio"), text: true, noCity: true, noClock: true,
		node: "twilio-get", note: "GET"},
	{name: "twilio-no-token", library: "twilio", settings: preset("twilio"), text: true, noClock: true,
		node: "twilio-no-token", note: "without an idempotency token"},
	{name: "twilio-unsigned", library: "twilio", settings: preset("twilio"), text: true, noClock: true,
		node: "twilio-unsigned", want: refused("401 signature_missing"), note: "its signature was removed"},
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
		node: "cloudevents-binary", want: bearer, note: "binary mode"},
	{name: "cloudevents-structured", library: "cloudevents", settings: preset("cloudevents"), noClock: true,
		node: "cloudevents-structured", want: bearer, note: "structured mode"},
	{name: "line", library: "@line/bot-sdk", verifies: true, settings: preset("line"), noClock: true, node: "line"},
	{name: "paddle", library: "@paddle/paddle-node-sdk", verifies: true, settings: preset("paddle"), node: "paddle"},
	{name: "workos", library: "@workos-inc/node", settings: preset("workos"), node: "workos"},
	{name: "contentful", library: "@contentful/node-apps-toolkit", settings: contentful, key: hexKey,
		node: "contentful"},
	{name: "linear", library: "@linear/sdk", verifies: true, settings: preset("linear"), node: "linear"},
	{name: "hubspot", library: "@hubspot/api-client", settings: preset("hubspot"), node: "hubspot",
		note: "version 3 of its signatures"},
	{name: "sendgrid", library: "@sendgrid/eventwebhook", verifies: true, settings: preset("sendgrid"),
		key: sendGridPair, node: "sendgrid"},
	{name: "discord", library: "discord-interactions", verifies: true, settings: preset("discord"), key: discordPair,
		node: "discord", want: results{fresh: "204", duplicate: "204 replayed", resigned: "204 replayed"}},
}

// nodeRFC9421 are the rows of http-message-signatures.
func nodeRFC9421() (all []sender) {
	for _, alg := range []string{algEd25519, algP256, algRSAPSS, algHMAC} {
		one := rfc9421("http-message-signatures", alg)
		one.node = one.name
		all = append(all, one)
	}
	expired := rfc9421("http-message-signatures", algEd25519, "`expires` has passed")
	expired.name, expired.noClock, expired.want = "expired", true, refused("401 token_expired")
	expired.node = "http-message-signatures-expired"
	return append(all, expired)
}

// documentedSenders sign what their own documents say. The receiver has keys of the test.
func documentedSenders() (all []sender) {
	const actorKey = "'https://social.example/users/mallow#main-key'"
	for _, one := range []sender{
		{name: "UCP", key: p256Pair, want: own, noClock: true,
			documented: "`@method @authority @path content-digest content-type ucp-agent`, no time",
			settings: `{scheme: rfc9421, covers: [ucp-agent], timestamp: none, key_required: false, ` +
				`keys: [{id: k1, alg: ecdsa-p256-sha256, public_key: %s}]}`},
		{name: "pawaPay", key: p256Pair, settings: `{preset: pawapay, keys: {k1: %s}}`,
			documented: "`@method @authority @path signature-date content-digest content-type`, DER"},
		{name: "AccessOwl", key: ed25519Pair, settings: `{preset: accessowl, keys: {k1: %s}}`,
			documented: "`@target-uri content-digest content-type idempotency-key`"},
		{name: "Xsolla", want: results{stale: "401 token_expired"}, settings: `{preset: xsolla, keys: {k1: %s}}`,
			documented: "`@method @target-uri content-digest request-id`, HMAC"},
		{name: "OpenPayments", key: ed25519Pair, settings: `{preset: openpayments, keys: {k1: %s}}`,
			want:       results{resigned: "200"},
			documented: "`content-type content-digest content-length authorization @method @target-uri`"},
		{name: "OCM", key: ed25519Pair, want: own,
			settings: `{scheme: rfc9421, tag: ocm, covers: [content-length], key_required: false, ` +
				`keys: [{id: k1, alg: ed25519, public_key: %s}]}`,
			documented: "`@method @target-uri content-digest content-length content-type date`, tag `ocm`"},
		{name: "Mastodon", key: rsaPair, settings: `{preset: activitypub, keys: {` + actorKey + `: %s}}`, noClock: true,
			documented: "`@method @target-uri content-digest`"},
		{name: "Fedify", key: rsaPair, settings: `{preset: activitypub, keys: {` + actorKey + `: %s}}`, noClock: true,
			documented: "`@method @target-uri @authority host date content-digest`"},
	} {
		one.library = one.name
		one.want.tampered = "401 digest_mismatch"
		one.name = strings.ToLower(one.name)
		one.node = "documented-" + one.name
		all = append(all, one)
	}
	return all
}
