package main

import (
	"cmp"
	"encoding/pem"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// Public keys as senders publish them.
const (
	edJWK  = `{"kty":"OKP","crv":"Ed25519","x":"fhlxm1r5-RppONn5lebZJ9TjJBLXj-lLV7NVkaPxESs"}`
	rsaJWK = `{"kty":"RSA","e":"AQAB","n":"` +
		"qmBKMREELleYSJnOpNobrrayRLGHfCRucCzHmlB-4eq4Cq4KjkYa_ugCSbC1_tYSzOxM_5R1JnZS88OLkWn0O7" +
		"sMnO_TqQrZjUYfeDeGMMNVDb76LPZdhvTdUBlTqup8SgyVZ-Vyvfnf2mTHSpnHkOJIExHWchm26eVy_2qec3vC" +
		"FOYrN2HkQcZQTuKH_J3LbxvRodtI8iLjScNCGrXtNQFYK5RM1hBCuIgV44QULrdXad9q72N5NwhcZ-3Bx3g5cj" +
		"ODDcK-QIAOR9dpjzt3Rs6mETpCqVLwYi1NpcQKouOPDVBK6f-vOCedUToL7YHoSbJYrcW2O6Z84DIhyryWKQ" + `"}`
	ecJWK = `{"kty":"EC","crv":"P-256","x":"8zfmJ3iJHs1lQBppyCfXR9zBimol9cVgzJXywDsDehs",` +
		`"y":"kDKlUB_x7bvqPHdm3JN4x8fTrog5yjjhVbjGKlAimj8"}`
)

// presetSettings has the settings of presets as users write them. Presets that are not listed need
// only a secret.
func presetSettings() map[string]string {
	const google = "audience: https://hooks.example, email: a@b.example, issuers: [https://accounts.google.com], " +
		"jwks_url: https://keys.example/jwks"
	const standard = "secret: whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	const topic = "arn:aws:sns:us-east-1:123456789012:MyTopic"
	return map[string]string{
		"adcp":            "jwks_url: https://keys.example/jwks, revoked_url: https://keys.example/revoked",
		"adyen":           "secret_file: [hex.txt, hex.txt], username: kettle, password_file: plain.txt",
		"adyen-platform":  "secret_file: hex.txt",
		"aws-eventbridge": "header: X-Api-Key, secret_file: plain.txt",
		"aws-sns":         "topic: [" + topic + "], alg: sha256, roots_file: roots.pem",
		"azure-event-grid": "audience: api://a, issuers: [https://sts.example/], account: [app-17], topic: [/t], " +
			"origins: [eventgrid.azure.net], rate: 5/m, jwks_url: https://keys.example/",
		"chargebee":   "query: key, secret_file: plain.txt",
		"cloudevents": "secret_file: plain.txt, batch: true, origins: [o.example], rate: 100/m",
		"datatrans":   "secret_file: hex.txt",
		"discord":     "secret: " + strings.Repeat("0b", 32),
		"dwolla":      "secret_file: plain.txt",
		"deepgram":    "username: kettle, password_file: plain.txt",
		"postmark":    "header: X-Kettle, secret_file: plain.txt",
		"strava":      "query: key, secret_file: plain.txt, token_file: plain.txt",
		"lark":        "secret_file: plain.txt, token_file: plain.txt",
		"mandrill":    "secret_file: plain.txt, signed_url: https://hooks.example/webhooks/mandrill",
		"sendgrid": "secret: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcw" +
			"HBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==",
		"swt":             "secret_file: plain.txt, issuers: [https://shop.example]",
		"mcp-events":      "keys: {sub_17: whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD}",
		"github":          "secret_file: plain.txt, alg: [sha256, sha1]",
		"gitlab":          "secret_file: plain.txt",
		"gitlab-signed":   standard,
		"google-eventarc": google,
		"google-pubsub":   google,
		"meta":            "secret_file: plain.txt, token_file: plain.txt",
		"openbanking-uk": "audience: [https://a.example], issuers: [https://bank.example], jwks_url: " +
			"https://bank.example/jwks",
		"paypal":            "account: 1JE4291016473214C, roots_file: roots.pem",
		"square":            "secret_file: plain.txt, signed_url: https://hooks.example/webhooks/square",
		"standard-webhooks": standard, "svix": standard, "clerk": standard, "openai": standard, "resend": standard,
		"webengage": `account: "~17", secret_file: plain.txt`,
		"websub": "subscriptions: [{topic: https://blog.example/feed, mode: subscribe, secret_file: " +
			"plain.txt, token: callback-token-17}], alg: [sha256]",
		"worldpay":     "keys: {k1_file: plain.txt}, encoding: base64",
		"xsolla":       "keys: {acc_123_file: plain.txt}",
		"activitypub":  "keys: {'https://social.example/a#main-key': '" + rsaJWK + "'}",
		"ocm":          "allow: [https://cloud.example/.well-known/jwks.json]",
		"openpayments": "jwks_url: https://wallet.example/alice/jwks.json",
		"accessowl":    "keys: {whsec_1: '" + edJWK + "'}",
		"pawapay":      "keys: {'HTTP_EC_P256_KEY:1': '" + ecJWK + "'}, signature_encoding: raw",
		"ucp":          "allow: [https://shop.example/.well-known/ucp]",
		"yandex-pay":   "account: m-17, jwks_url: https://keys.example/jwks",
		"yookassa":     "allowed_ips: [192.0.2.0/24]",
	}
}

// settingsFolder holds the files that the settings name.
func settingsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	srv := httptest.NewTLSServer(nil) // for its certificate
	defer srv.Close()
	for name, text := range map[string]string{
		"plain.txt": "the-kettle-is-on-17\n", "hex.txt": strings.Repeat("0b", 32) + "\n", "empty.txt": "\n",
		"roots.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})),
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// planOf builds one producer, named p.
func planOf(t *testing.T, dir, settings string) (*config.Plan, preset.Settings, error) {
	t.Helper()
	s, err := config.Source{}.Parse(filepath.Join(dir, "eyelet.yaml"),
		[]byte("url: https://hooks.example\nproducers:\n  p: {"+settings+"}\n"))
	if err != nil {
		return nil, preset.Settings{}, err
	}
	p, err := s.Build(t.Context(), config.BuildOptions{})
	if err != nil {
		return nil, preset.Settings{}, err
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, s.Producers[0].PresetSettings, nil
}

// TestEveryPresetOpensFromYAML writes each preset with all its settings, and checks that every
// setting of package preset can be written.
func TestEveryPresetOpensFromYAML(t *testing.T) {
	t.Parallel()
	dir, written := settingsFolder(t), map[string]bool{"name": true}
	all := presetSettings()
	more := map[string]string{ // the other ways to authenticate
		"aws-eventbridge":  "username: kettle, password: the-kettle-is-on-17",
		"chargebee":        "secret: the-kettle-is-on-17",
		"azure-event-grid": "query: code, secret: the-kettle-is-on-17",
		"gitlab":           "header: X-Token, secret: the-kettle-is-on-17",
		"okta":             "secret_file: plain.txt, header: X-Hook-Secret",
	}
	for _, vendor := range preset.All() {
		for _, settings := range []string{cmp.Or(all[vendor.Name], "secret_file: plain.txt"), more[vendor.Name]} {
			if settings == "" {
				continue
			}
			p, got, err := planOf(t, dir, "preset: "+vendor.Name+", "+settings)
			if err != nil {
				t.Errorf("%s: %v", vendor.Name, err)
				continue
			}
			if made := p.Producers[0]; made.Name != "p" || made.Preset != vendor.Name {
				t.Errorf("%s: %+v", vendor.Name, made)
			}
			v := reflect.ValueOf(got)
			for i := range v.NumField() {
				if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("conf"), ","); name != "" &&
					!v.Field(i).IsZero() {
					written[name] = true
				}
			}
		}
	}
	typ := reflect.TypeFor[preset.Settings]()
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("conf"), ","); name != "" && !written[name] {
			t.Errorf("no preset has the setting %q", name)
		}
	}
}

// TestPresetsRefuseInvalidSettings: each error has its line, and never a secret.
func TestPresetsRefuseInvalidSettings(t *testing.T) {
	t.Parallel()
	dir := settingsFolder(t)
	for settings, want := range map[string]string{
		"preset: stripe":                                       "secret",
		"preset: stripe, secret: []":                           "secret",
		`preset: stripe, secret: ""`:                           "producers.p.secret is empty",
		"preset: stripe, secret_file: empty.txt":               "secret file empty.txt is empty",
		"preset: stripe, secret_file: none.txt":                "secret file none.txt: no such file",
		"preset: stripe, secret: a, secret_file: plain.txt":    "both set",
		`preset: stripe, secret: "${UNSET_17}"`:                "UNSET_17",
		"preset: stripe, secret_file: plain.txt, topic: [a]":   `has no setting "topic"`,
		"preset: stripe, secret_file: plain.txt, topicz: [a]":  `unknown setting "topicz"`,
		"preset: strip, secret_file: plain.txt":                `unknown preset "strip"`,
		"preset: worldpay, keys: {k1_file: empty.txt}":         "secret file empty.txt is empty",
		`preset: worldpay, keys: {k1: ""}`:                     "keys.k1 is empty",
		"preset: worldpay, keys: {k1: a, k1_file: plain.txt}":  "both set",
		"preset: aws-sns":                                      "topic",
		"preset: paypal, account: a, roots_file: plain.txt":    "roots: no certificate in PEM",
		"preset: google-pubsub, audience: a":                   "set audience and email",
		"preset: yookassa":                                     "allowed",
		"preset: yookassa, allowed_ips: [nowhere]":             "want an address or a network",
		"preset: cloudevents":                                  "no bearer token",
		"preset: websub, subscriptions: [{topic: https://a/}]": "secret",
		"preset: websub, subscriptions: " +
			"[{topic: https://a/, secret: the-kettle-is-on-17, token: short}]": "token of at least 16",
		"preset: shopify, secret: whsec_the-kettle-is-on-17":        "Stripe or Standard Webhooks",
		"preset: github, secret: the-kettle-is-on-17, window: 60 s": "window",
	} {
		_, _, err := planOf(t, dir, settings)
		if err == nil {
			t.Errorf("%s: taken", settings)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "the-kettle-is-on") {
			t.Errorf("%s: got %v, want %q", settings, err, want)
		}
		if _, ok := usage.Find(err); !ok {
			t.Errorf("%s: %T cannot be written in the file", settings, err)
		}
	}
}

// TestSamplesAreSignedForTheURLOfTheVendor, which a proxy may have changed.
func TestSamplesAreSignedForTheURLOfTheVendor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ to, signed, own, want string }{
		{"http://127.0.0.1:1/webhooks/p?a=1", "", "", "http://127.0.0.1:1/webhooks/p?a=1"},
		{"http://127.0.0.1:1/webhooks/p?a=1", "https://hooks.example", "", "https://hooks.example/webhooks/p?a=1"},
		{"http://127.0.0.1:1/webhooks/p", "https://hooks.example/pre/", "", "https://hooks.example/pre/webhooks/p"},
		{"http://127.0.0.1:1/in/a%2Fb", "https://hooks.example/c%2Fd", "", "https://hooks.example/c%2Fd/in/a%2Fb"},
		{"http://127.0.0.1:1/webhooks/p", "https://hooks.example", "https://own.example/x", "https://own.example/x"},
	} {
		to, err := url.Parse(tt.to)
		check(t, err)
		as := &sender{signedURL: tt.signed, producer: &producer.Producer{URL: tt.own}}
		if got := vendorURL(to, as); got != tt.want {
			t.Errorf("%+v: signed for %s", tt, got)
		}
	}
}
