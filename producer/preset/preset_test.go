package preset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	testHex    = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"
	testWhsec  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	testSecret = "the-kettle-is-on-17"
	testToken  = "callback-token-17"
	testHook   = "https://hooks.example/webhooks/in"
)

var testNow = time.Unix(1_790_000_000, 0)

// presetSettings open each preset with shared secrets. The last of each list is another secret,
// for rotation.
func presetSettings() map[string]Settings {
	text, err := os.ReadFile("testdata/settings.json")
	var byNames map[string]Settings
	if err := errors.Join(err, json.Unmarshal(text, &byNames)); err != nil {
		panic(err)
	}
	all := map[string]Settings{}
	for names, s := range byNames {
		for name := range strings.FieldsSeq(names) {
			all[name] = s
		}
	}
	return all
}

// eachPreset runs a test for every preset in presetSettings.
func eachPreset(t *testing.T, f func(t *testing.T, p Preset, s Settings)) {
	t.Helper()
	all := presetSettings()
	for name, s := range all {
		p, ok := Find(name)
		if !ok {
			t.Fatalf("no preset %q", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, p, s)
		})
	}
}

// receive processes a delivery like a receiver, up to its items.
func receive(p producer.Producer, r *http.Request, body []byte, now time.Time) ([]producer.Item, verify.Identity,
	error) {
	p = p.WithDefaults()
	var id verify.Identity
	if p.Scheme != nil {
		var err error
		if id, err = p.Scheme.Verify(r, func() ([]byte, error) { return body, nil }); err != nil {
			return nil, id, err
		}
	}
	if err := p.Tolerance.Check(id, now); err != nil {
		return nil, id, err
	}
	items, err := p.Items(&producer.Delivery{Request: r, Body: body, Identity: id})
	return items, id, err
}

func TestEverySampleIsAccepted(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s)
		if errs := made.Check(); len(errs) > 0 {
			t.Fatal(errs)
		}
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil {
			t.Fatal(err)
		}
		items, id, err := receive(made, r, body, testNow.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(items) != 1 || items[0].Type != p.Types()[0] {
			t.Errorf("got items %+v", items)
		}
		numbered := p.Name == "telegram" || p.Name == "hubspot" // whose identifiers are numbers
		named := strings.Contains(items[0].ID, "evt-17") || numbered
		if digest := strings.HasPrefix(items[0].ID, "sha256:"); named == digest {
			t.Errorf("got id %q, want the requested one or a digest", items[0].ID)
		}
		if id.Signed != nil && !id.Covers("@body") {
			t.Errorf("signed content that does not cover the body: %+v", id)
		}
	})
}

func TestASampleSignedWithTheOldSecretIsAccepted(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		if len(s.Secrets) < 2 {
			t.Skip("one credential")
		}
		old := s
		old.Secrets = s.Secrets[1:]
		r, body, err := p.Sample(old, testHook, "", "", testNow)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := receive(p.Open(s), r, body, testNow); err != nil {
			t.Error(err)
		}
		fresh := s
		fresh.Secrets = s.Secrets[:1]
		if _, _, err := receive(p.Open(fresh), r, body, testNow); err == nil {
			t.Error("accepted with a removed secret")
		}
	})
}

func TestEveryPresetIsComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range All() {
		if names[p.Name] {
			t.Errorf("%s is in the table twice", p.Name)
		}
		names[p.Name] = true
		if p.Auth == "" || p.ID == "" || p.Wants == "" {
			t.Errorf("%s: a column is empty", p.Name)
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b Preset) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not sorted by name")
	}
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		s.Name = "mine"
		made := p.Open(s)
		if made.Name != "mine" || made.Preset != p.Name {
			t.Errorf("got name %q and preset %q", made.Name, made.Preset)
		}
		if d := made.WithDefaults(); d.Window < 24*time.Hour && d.Series == nil || d.Contract != producer.Webhook ||
			d.Accepted.Status != 200 || !d.StaleKnown {
			t.Errorf("got window %v, contract %v, status %d, stale known %v", d.Window, d.Contract, d.Accepted.Status,
				d.StaleKnown)
		}
		if !strings.HasPrefix(made.Docs, "https://") {
			t.Errorf("got documentation at %q", made.Docs)
		}
		if w := made.Warnings(); len(w) > 0 && p.Name != "yookassa" {
			t.Error(w)
		}
	})
}

func TestMissingAndEmptySecretsAreRefused(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		if made := p.Open(Settings{}); made.Err == nil || len(made.Check()) == 0 {
			t.Error("opens without a secret")
		}
		empty := s
		empty.Secrets = append(slices.Clone(s.Secrets), "")
		empty.Password = ""
		empty.AllowedIPs = nil
		if len(s.Keys) > 0 {
			empty.Keys = map[string]string{"1": testSecret, "2": ""}
		}
		if len(s.Subscriptions) > 0 {
			empty.Secrets, empty.Subscriptions = nil, []Subscription{{Topic: "https://blog.example/feed",
				Token: testToken}}
		}
		if made := p.Open(empty); made.Err == nil || len(made.Check()) == 0 {
			t.Error("opens with an empty secret")
		}
	})
}

func TestSecretsOfAnotherVendorAreRefused(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"shopify": testWhsec, "slack": testWhsec, "github": testWhsec, "stripe": "sk_live_17", "adyen": testSecret,
		"datatrans":         testWhsec,
		"standard-webhooks": "no base64!", "svix": "whsk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
		"razorpay": " " + testSecret,
	} {
		p, _ := Find(name)
		err := p.Open(Settings{Secrets: []string{secret}}).Err
		if err == nil {
			t.Errorf("%s: accepts the secret %q", name, secret)
		} else if strings.Contains(err.Error(), strings.TrimSpace(secret)) {
			t.Errorf("%s: the error reveals the secret: %v", name, err)
		}
	}
}

// A key that cannot be read is not a missing one, and one of few bytes is a warning.
func TestSecretsThatAreNotOnesAreNamed(t *testing.T) {
	t.Parallel()
	settings := sampleSettings(t)
	for _, one := range All() {
		for _, text := range []string{"not a key!", "whpk_!", "whsec_YWJj", "YWJj", "00aa"} {
			s := settings[one.Name]
			if len(s.Secrets) == 0 {
				continue
			}
			s.Secrets = []string{text}
			p := one.Open(s)
			found, warned := errors.Join(p.Check()...), strings.Join(p.Warnings(), " ")
			if found != nil && strings.Contains(found.Error(), "is set") {
				t.Errorf("%s, %q: %v", one.Name, text, found)
			}
			decodes := slices.Contains([]string{"adyen", "adyen-platform", "datatrans", "standard-webhooks", "svix",
				"gitlab-signed", "clerk", "resend", "openai"}, one.Name)
			if short := strings.Contains(warned, "bytes, decoded"); found == nil && short != decodes {
				t.Errorf("%s, %q: warnings %q", one.Name, text, warned)
			}
		}
	}
	mcp := Open("mcp-events", Settings{Keys: map[string]string{"sub_17": "whsec_YWJj"}})
	want := `producer "mcp-events": secret 1 of 1 of subscription "sub_17" has only 3 bytes, decoded from whsec: ` +
		"anyone can guess it; copy the whole secret"
	if warned := mcp.Warnings(); !slices.Equal(warned, []string{want}) {
		t.Errorf("%q", warned)
	}
}

func TestUnusedSettingsAreRefused(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		s.Encoding, s.RevokedURL = "hex", "https://keys.example/"
		if err := p.Open(s).Err; err == nil || !strings.Contains(err.Error(), "has no setting") {
			t.Errorf("got %v", err)
		}
	})
}

// Errors of recorded deliveries are searched by package producer.
func TestFormattingAPresetRevealsNoSecret(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s)
		text := fmt.Sprintf("%v %+v %#v %v", made, made.Scheme, made.Scheme,
			p.Open(Settings{Secrets: []string{testSecret + "\n"}}).Err)
		for _, secret := range append(slices.Clone(s.Secrets), s.Password, testSecret, testHex,
			s.Token) {
			if secret != "" && strings.Contains(text, secret) {
				t.Errorf("%q reveals %q", text, secret)
			}
		}
	})
}

func TestOldAndEarlySignaturesAreRefused(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s).WithDefaults()
		r, body, err := p.Sample(s, testHook, "", "evt-17", testNow)
		if err != nil {
			t.Fatal(err)
		}
		_, id, err := receive(made, r, body, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if id.SignedAt.IsZero() {
			t.Skip("no signed time")
		}
		past, future := 5*time.Minute, 5*time.Minute
		switch p.Name {
		case "stripe":
			future = time.Minute
		case "twitch":
			past = 10 * time.Minute
		case "mailgun":
			past = 9 * time.Hour
		case "elevenlabs":
			past = 30 * time.Minute
		case "lark":
			past = 8 * time.Hour
		}
		for at, want := range map[time.Duration]verify.Code{
			past: "", past + time.Second: verify.TimestampTooOld, -future: "",
			-future - time.Second: verify.TimestampTooNew,
		} {
			if _, _, err := receive(made, r, body, testNow.Add(at)); verify.CodeOf(err) != want {
				t.Errorf("%v after the signature: got %v, want %q", at, err, want)
			}
		}
	})
}

func TestPayloadsAreComparedUnlessTheIdentifierIsSigned(t *testing.T) {
	t.Parallel()
	eachPreset(t, func(t *testing.T, p Preset, s Settings) {
		made := p.Open(s).WithDefaults()
		d := &producer.Delivery{Request: fields(t, http.MethodPost, testHook), Body: []byte("{}")}
		compared := made.Fingerprint(d, producer.Item{Body: d.Body}) != [32]byte{}
		if compared == (p.Class() == producer.ClassIDSigned && p.Name != "xsolla") { // its media type is pinned
			t.Errorf("payloads are compared: %v", compared)
		}
	})
}
