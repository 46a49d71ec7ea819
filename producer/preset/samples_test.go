package preset

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// snsSampleCert is the address in the sample of SNS.
const snsSampleCert = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-sample.pem"

// sampleSettings are presetSettings, and settings with keys for the vendors that sign with one.
func sampleSettings(t testing.TB) map[string]Settings {
	t.Helper()
	all := presetSettings()
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pinned := map[string]crypto.PublicKey{snsSampleCert: rsaKey().Public(), payPalSampleCert: rsaKey().Public()}
	google := Settings{Audience: []string{"https://hooks.example"}, Email: "a@b.example", SigningKey: rsaKey(),
		SigningKeyID: "k1", TokenKeys: tokenKeySet(t, "RS256", rsaKey().Public())}
	bank := google
	bank.Email, bank.Issuers = "", []string{"https://bank.example"}
	bank.TokenKeys = tokenKeySet(t, "PS256", rsaKey().Public())
	edPublic, err := verify.NewPublicKey("k1", verify.Ed25519, public)
	if err != nil {
		t.Fatal(err)
	}
	all["accessowl"], all["openpayments"] = Settings{SigningKey: edKey}, Settings{SigningKey: edKey}
	all["activitypub"] = Settings{SigningKey: rsaKey(), SigningKeyID: "https://social.example/users/mallow#main-key"}
	ofServer := edPublic
	ofServer.Principal = "https://cloud.example/.well-known/jwks.json"
	all["ocm"] = Settings{SigningKey: edKey, MessageKeys: verify.StaticKeys(ofServer)}
	all["pawapay"] = Settings{SigningKey: ecKey}
	all["ucp"] = Settings{SigningKey: edKey, MessageKeys: verify.StaticKeys(edPublic)}
	all["adcp"] = Settings{SigningKey: edKey, MessageKeys: verify.StaticKeys(edPublic)}
	all["discord"] = Settings{Secrets: []string{hex.EncodeToString(public)}, SigningKey: edKey}
	der, err := x509.MarshalPKIXPublicKey(ecKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	all["sendgrid"] = Settings{Secrets: []string{base64.StdEncoding.EncodeToString(der)}, SigningKey: ecKey}
	all["google-eventarc"], all["google-pubsub"], all["openbanking-uk"] = google, google, bank
	all["yandex-pay"] = Settings{Account: []string{"m-17"}, SigningKey: ecKey, SigningKeyID: "k1",
		TokenKeys: tokenKeySet(t, "ES256", ecKey.Public())}
	all["aws-sns"] = Settings{Topics: []string{"arn:aws:sns:us-east-1:123456789012:tea"}, SigningKey: rsaKey(),
		PinnedKeys: pinned}
	all["paypal"] = Settings{Account: []string{"17"}, SigningKey: rsaKey(), PinnedKeys: pinned}
	return all
}

// tokenKeySet is the key as an issuer publishes it (RFC 7517).
func tokenKeySet(t testing.TB, alg string, key crypto.PublicKey) verify.TokenKeySet {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	jwk := map[string]string{"kid": "k1", "alg": alg, "use": "sig"}
	switch public := key.(type) {
	case *rsa.PublicKey:
		jwk["kty"], jwk["n"], jwk["e"] = "RSA", b64(public.N.Bytes()), "AQAB"
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		jwk["kty"], jwk["crv"], jwk["x"], jwk["y"] = "EC", "P-256", b64(point[1:33]), b64(point[33:])
	}
	text, err := json.Marshal(map[string]any{"keys": []any{jwk}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := verify.ParseTokenKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

var placeholder = regexp.MustCompile(`\{[A-Za-z]+\}`)

// TestEveryDocumentedTypeIsAcceptedAsThatType: every preset has samples of all its types, and a
// second sample is another event, by its signed bytes where bytes are signed.
func TestEveryDocumentedTypeIsAcceptedAsThatType(t *testing.T) {
	t.Parallel()
	all := sampleSettings(t)
	for _, p := range All() {
		s, ok := all[p.Name]
		if !ok {
			t.Errorf("%s: no settings", p.Name)
			continue
		}
		if !strings.HasPrefix(p.TypesDocs(), "https://") || p.TypeFrom() == "<nil>" {
			t.Errorf("%s: types documented at %q, read from %q", p.Name, p.TypesDocs(), p.TypeFrom())
		}
		for _, kind := range append(p.Types(), "another") {
			if kind == "another" && strings.Contains("aws-sns openpayments ucp websub xsolla", p.Name) {
				continue // unsigned, of one type, and a topic without a subscription
			}
			var ids []string
			var signed []string
			for range 2 {
				r, body, err := p.Sample(s, testHook, kind, "", testNow)
				if err != nil {
					t.Errorf("%s %s: %v", p.Name, kind, err)
					break
				}
				items, id, err := receive(p.Open(s), r, body, testNow.Add(time.Second))
				if err != nil || len(items) != 1 || items[0].Type != kind {
					t.Errorf("%s %s: %v %+v\n%s", p.Name, kind, err, items, body)
					break
				}
				if id.Signed != nil && id.Covers("@body") == (p.Name == "paypal") { // which covers its CRC-32
					t.Errorf("%s %s: signed content that covers %v", p.Name, kind, id.Covered)
				}
				if media := r.Header.Get("Content-Type"); strings.HasSuffix(media, "json") && !json.Valid(body) {
					t.Errorf("%s %s: not JSON: %s", p.Name, kind, body)
				}
				if left := placeholder.FindString(r.URL.RawQuery + fmt.Sprint(r.Header) + string(body)); left != "" {
					t.Errorf("%s %s: %s is left: %s", p.Name, kind, left, body)
				}
				ids, signed = append(ids, items[0].ID), append(signed, string(id.Signed))
			}
			if len(ids) == 2 && (ids[0] == ids[1] || signed[0] == signed[1] && signed[0] != "") {
				t.Errorf("%s %s: two samples are one event: %q", p.Name, kind, ids)
			}
		}
	}
}

// TestSamplesOfMessagesAreSignedAsDocumented: label, components and parameters.
func TestSamplesOfMessagesAreSignedAsDocumented(t *testing.T) {
	t.Parallel()
	all := sampleSettings(t)
	values := regexp.MustCompile(`(created|expires)=\d+|(nonce)="[^"]*"`)
	for name, want := range map[string]string{
		"accessowl": `sig=("@target-uri" "content-digest" "content-type" "idempotency-key");created;keyid="k1"`,
		"adcp": `sig1=("@method" "@target-uri" "@authority" "content-type" "content-digest");created;expires;` +
			`keyid="k1";alg="ed25519";nonce;tag="adcp/webhook-signing/v1"`,
		"activitypub": `sig1=("@method" "@target-uri" "content-digest");created;` +
			`keyid="https://social.example/users/mallow#main-key"`,
		"ocm": `sig1=("@method" "@target-uri" "content-digest" "content-length" "content-type");created;keyid="k1";` +
			`alg="ed25519";tag="ocm"`,
		"openpayments": `sig1=("content-type" "content-digest" "content-length" "authorization" "@method" ` +
			`"@target-uri");created;keyid="k1";alg="ed25519"`,
		"pawapay": `sig-pp=("@method" "@authority" "@path" "signature-date" "content-digest" "content-type");created;` +
			`expires;keyid="k1";alg="ecdsa-p256-sha256"`,
		"ucp": `sig1=("@method" "@authority" "@path" "content-digest" "content-type" "ucp-agent");keyid="k1"`,
		"xsolla": `sig1=("@method" "@target-uri" "content-digest" "request-id");created;expires;keyid="acc_123";` +
			`alg="hmac-sha256"`,
	} {
		vendor, _ := Find(name)
		r, _, err := vendor.Sample(all[name], testHook, "", "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		if got := values.ReplaceAllString(r.Header.Get("Signature-Input"), "$1$2"); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}

// Forms of identifiers that vendors document.
const (
	uuidForm = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
	ulidForm = `[0-7][0-9A-HJKMNP-TV-Z]{25}`
)

// TestIdentifiersOfSamplesHaveTheirVendorsForm. Only senders of the last group choose their own.
func TestIdentifiersOfSamplesHaveTheirVendorsForm(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"adyen": `"pspReference":"[A-Z0-9]{16}"`, "chargebee": `"id":"ev_[A-Z0-9]{16}"`,
		"datatrans": `"transactionId":"\d{18}"`, "google-eventarc": `\b\d{18}\b`,
		"google-pubsub": `"messageId":"\d{18}"`,
		"hubspot":       `"eventId":\d+,`, "intercom": `"id":"notif_` + uuidForm,
		"line":    `"webhookEventId":"` + ulidForm,
		"mailgun": `"id":"[\w-]{22}"`, "paddle": `"event_id":"evt_` + ulidForm,
		"paypal":   `"id":"WH-[A-Z0-9]{17}-[A-Z0-9]{17}"`,
		"razorpay": `X-Razorpay-Event-Id:\[[A-Z0-9]{14}\]`, "sendgrid": `"sg_event_id":"[\w-]{22}"`,
		"slack": `"event_id":"Ev[A-Z0-9]{10}"`, "standard-webhooks": `Webhook-Id:\[msg_`, "svix": `Svix-Id:\[msg_`,
		"stripe": `"id":"evt_[A-Z0-9]{24}".*"id":"pi_\d+"`, "telegram": `"update_id":\d+,`,
		"twilio-event-streams": `"id":"EZ[0-9a-f]{32}"`, "typeform": `"event_id":"` + ulidForm,
		"workos": `"id":"event_` + ulidForm, "zendesk": `X-Zendesk-Webhook-Invocation-Id:\[` + ulidForm,
		"clerk": `Svix-Id:\[msg_`, "resend": `Svix-Id:\[msg_`, "openai": `Webhook-Id:\[wh_[0-9a-f]{32}`,
		"woocommerce": `X-Wc-Webhook-Delivery-Id:\[[0-9a-f]{32}`,
		"trello":      `"id":"[0-9a-f]{32}"`, "deepgram": "", "lark": "", "mandrill": "", "postmark": "", "strava": "",
		"elevenlabs": "", "vercel": "", "webflow": "",
		"adyen-platform": "", "discord": "", "mcp-events": "", "meta": "", "ucp": `"event_id":"evt_[0-9a-f]{32}"`,
		"webengage": "", "websub": "", "zoom": "",
	}
	all := sampleSettings(t)
	for _, p := range All() {
		form, ok := forms[p.Name]
		if !ok {
			form = uuidForm
		}
		for range 20 {
			r, body, err := p.Sample(all[p.Name], testHook, "", "", testNow)
			if text := fmt.Sprint(r.Header, string(body)); err != nil || !regexp.MustCompile(form).MatchString(text) {
				if strings.Count(string(body), ".") == 2 && !strings.Contains(string(body), " ") {
					break // a token
				}
				t.Fatalf("%s: no %s, %v: %s", p.Name, form, err, text)
			}
		}
	}
}

// TestSectionsOfSamplesArePresets finds a misspelt name.
func TestSectionsOfSamplesArePresets(t *testing.T) {
	t.Parallel()
	for name := range allSamples() {
		if _, ok := Find(name); !ok {
			t.Errorf("samples.txt: no preset %q", name)
		}
	}
}

func TestASampleWithAnIdentifierIsReproducible(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		_, a, err := p.Draft(s, testHook, "", "17", testNow)
		if err != nil {
			t.Fatal(err)
		}
		_, b, err := p.Draft(s, testHook, "", "17", testNow)
		if err != nil || string(a) != string(b) {
			t.Errorf("%v: %s and %s", err, a, b)
		}
	})
}

// TestASlackCommandIsAForm: any name with a slash is one. Commands have no event type.
func TestASlackCommandIsAForm(t *testing.T) {
	t.Parallel()
	s := presetSettings()["slack"]
	slack, _ := Find("slack")
	ids := map[string]bool{}
	for range 2 {
		r, body, err := slack.Sample(s, testHook, "/brew", "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("command") != "/brew" || r.Header.Get("Content-Type") != formMedia {
			t.Errorf("%v: %s as %q", err, body, r.Header.Get("Content-Type"))
		}
		items, _, err := receive(slack.Open(s), r, body, testNow.Add(time.Second))
		if err != nil || len(items) != 1 || items[0].Type != "" {
			t.Fatalf("%v: %+v", err, items)
		}
		ids[items[0].ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("two commands are one event: %v", ids)
	}
}

// TestJSONInAForm: the JSON of a request with the media type of forms is put in the vendor's member
// before it is signed.
func TestJSONInAForm(t *testing.T) {
	t.Parallel()
	for vendor, kind := range map[string]string{"github": "push", "slack": "block_actions"} {
		p, _ := Find(vendor)
		s := presetSettings()[vendor]
		r, body, err := p.Draft(s, testHook, kind, "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", formMedia)
		signed, err := p.Sign(s, r, body, testNow)
		if err != nil {
			t.Fatal(err)
		}
		form, err := url.ParseQuery(string(signed))
		if err != nil || form.Get("payload") != string(body) {
			t.Errorf("%s: %v: %s", vendor, err, signed)
		}
		items, _, err := receive(p.Open(s), r, signed, testNow.Add(time.Second))
		if err != nil || len(items) != 1 || items[0].Type != kind || string(items[0].Body) != string(body) {
			t.Errorf("%s: %v: %+v", vendor, err, items)
		}
	}
}

// An unusual identifier has placeholders, too.
func TestEveryIdentifierMakesPlaceholders(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "0", "007", "x", "1234567890123456"} {
		if made := madeFrom(id); len(made[1]) != 12 {
			t.Errorf("%q: {n} is %q", id, made[1])
		}
	}
	if made := madeFrom("17"); made[1] != "17" {
		t.Errorf("{n} is %q", made[1])
	}
	unknown := Preset{Name: "none"}
	if _, body, err := unknown.Draft(Settings{}, testHook, "", "", testNow); err == nil {
		t.Errorf("a preset without a section has the sample %s", body)
	}
}
