package main

import (
	"cmp"
	"context"
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
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// atVendors are the presets whose certificates or keys are only at the vendors' hosts.
var atVendors = []string{"aws-sns", "paypal", "ucp"}

// TestASampleOfEveryPresetSentTwiceIsTwoEvents runs the same `eyelet send PRESET TYPE` twice for
// every preset but atVendors, into one `eyelet serve`; with EYELET_LONG for every type. What only
// the vendor can sign is refused without --key.
func TestASampleOfEveryPresetSentTwiceIsTwoEvents(t *testing.T) {
	t.Parallel()
	dir := settingsFolder(t)
	settings, keys := keySettings(t, dir)
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nurl: https://hooks.example\nstore: \"memory:\"\n" +
		"log: {level: error}\nproducers:\n"
	all, own := text, map[string]string{} // a sender has one producer
	for _, vendor := range preset.All() {
		if !slices.Contains(atVendors, vendor.Name) {
			line := fmt.Sprintf("  %s: {preset: %s, %s}\n", vendor.Name, vendor.Name,
				cmp.Or(settings[vendor.Name], "secret_file: plain.txt"))
			all += line
			own[vendor.Name] = filepath.Join(dir, vendor.Name+".yaml")
			check(t, os.WriteFile(own[vendor.Name], []byte(text+line), 0o600))
		}
	}
	file := filepath.Join(dir, "eyelet.yaml")
	check(t, os.WriteFile(file, []byte(all), 0o600))
	at := launch(t, "serve", "--config", file)
	sent := map[string]int{}
	for _, vendor := range preset.All() {
		if slices.Contains(atVendors, vendor.Name) {
			continue
		}
		kinds := vendor.Types()
		if os.Getenv("EYELET_LONG") == "" {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			args := []string{vendor.Name, kind, "--config", own[vendor.Name], "--producer", vendor.Name, "--url",
				at.deliveries}
			if key := keys[vendor.Name]; key != "" {
				if code, _, errs := run(t, append([]string{"send"}, args...)...); code != exitUsage ||
					!strings.Contains(errs, "only the vendor can sign") {
					t.Errorf("%s without a key: exit %d: %s", vendor.Name, code, errs)
				}
				args = append(args, "--key", key, "--keyid", "k1")
			}
			sendTwice(t, args...)
			sent[vendor.Name+" "+kind] = 2
		}
	}
	for _, e := range listed(t, file) {
		sent[e.Producer+" "+e.Type]--
	}
	for what, left := range sent {
		if left != 0 {
			t.Errorf("%s: %d events, want 2", what, 2-left)
		}
	}
}

// sendTwice runs `eyelet send` twice, wants two accepted events, and returns the standard error.
func sendTwice(t *testing.T, args ...string) (printed string) {
	t.Helper()
	for range 2 {
		code, out, errs := run(t, append([]string{"send", "-o", "json"}, args...)...)
		if code != exitOK || !strings.Contains(out, `"verdict":"accepted"`) {
			t.Errorf("send %q: exit %d: %s%s", args, code, out, errs)
		}
		printed += errs
	}
	return printed
}

// TestSamplesOfVendorsWithCertificatesSentTwiceAreTwoEvents: a receiver of the library has our
// key in place of the certificates, which `eyelet serve` reads only from the vendors' hosts.
func TestSamplesOfVendorsWithCertificatesSentTwiceAreTwoEvents(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	check(t, os.WriteFile(file, block, 0o600))
	pinned := map[string]crypto.PublicKey{
		"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-sample.pem": key.Public(),
		"https://api.paypal.com/v1/notifications/certs/CERT-sample":                key.Public(),
	}
	public, err := verify.NewPublicKey("k1", "", key.Public())
	check(t, err)
	topic := "arn:aws:sns:us-east-1:123456789012:tea"
	settings := map[string]preset.Settings{
		"aws-sns": {Topics: []string{topic}, PinnedKeys: pinned},
		"paypal":  {Account: []string{"17"}, PinnedKeys: pinned},
		"ucp":     {MessageKeys: verify.StaticKeys(public)},
	}
	set := map[string]string{"aws-sns": "topic=[" + topic + "]", "paypal": "account=17",
		"ucp": "allow=[https://shop.example/.well-known/ucp]"}
	for _, name := range atVendors {
		vendor, _ := preset.Find(name)
		srv := httptest.NewUnstartedServer(nil)
		rx, err := receiver.Open(receiver.Config{
			URL:       "http://" + srv.Listener.Addr().String(),
			Store:     memstore.New(memstore.Options{}),
			Producers: []producer.Producer{vendor.Open(settings[name])},
			Handlers: []receiver.Handler{receiver.On(name, "*",
				func(context.Context, receiver.Event[[]byte]) error { return nil })},
		})
		check(t, err)
		t.Cleanup(func() { _ = rx.Close() })
		srv.Config.Handler = rx.HTTP(name)
		srv.Start()
		t.Cleanup(srv.Close)
		for _, kind := range vendor.Types() {
			printed := sendTwice(t, name, kind, "--key", file, "--keyid", "k1", "--set", set[name], "--url",
				srv.URL+"/webhooks/"+name)
			if name != "ucp" && !strings.Contains(printed, "a receiver refuses this sample unless it trusts your key") {
				t.Errorf("send %s %s does not say that receivers refuse it: %q", name, kind, printed)
			}
		}
	}
}

// keySettings are presetSettings, where vendors that sign with a private key have one of the test's
// in a file: their public keys are published on loopback.
func keySettings(t *testing.T, dir string) (settings, keys map[string]string) {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	public, edKey, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	files := map[string]string{}
	for name, key := range map[string]any{"rsa": rsaKey, "ec": ecKey, "ed": edKey} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		check(t, err)
		files[name] = filepath.Join(dir, name+".pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		check(t, os.WriteFile(files[name], block, 0o600))
	}
	b64 := base64.RawURLEncoding.EncodeToString
	point, err := ecKey.PublicKey.Bytes()
	check(t, err)
	rsaJWK := map[string]string{"kty": "RSA", "kid": "k1", "n": b64(rsaKey.N.Bytes()), "e": "AQAB"}
	ecJWK := map[string]string{"kty": "EC", "kid": "k1", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])}
	edJWK := map[string]any{"kty": "OKP", "kid": "k1", "crv": "Ed25519", "x": b64(public), "use": "sig",
		"key_ops": []string{"verify"}, "adcp_use": "request-signing"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jwk := map[string]any{"/rsa": rsaJWK, "/ec": ecJWK, "/ed": edJWK}[r.URL.Path]
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{jwk}}) // the client reports an error
	}))
	t.Cleanup(srv.Close)
	settings = presetSettings()
	settings["azure-event-grid"] = "query: code, secret_file: plain.txt"
	settings["yookassa"] = "allowed_ips: [127.0.0.1/32]"
	settings["square"] = "secret_file: plain.txt"
	settings["discord"] = "secret: " + hex.EncodeToString(public)
	spki, err := x509.MarshalPKIXPublicKey(ecKey.Public())
	check(t, err)
	settings["sendgrid"] = "secret: " + base64.StdEncoding.EncodeToString(spki)
	google := "audience: https://hooks.example, email: a@b.example, jwks_url: " + srv.URL + "/rsa"
	settings["google-eventarc"], settings["google-pubsub"] = google, google
	settings["openbanking-uk"] = "audience: [a], issuers: [https://bank.example], jwks_url: " + srv.URL + "/rsa"
	settings["adcp"] = "jwks_url: " + srv.URL + "/ed"
	for name, jwk := range map[string]any{"accessowl": edJWK, "activitypub": rsaJWK, "pawapay": ecJWK} {
		text, err := json.Marshal(jwk)
		check(t, err)
		settings[name] = "keys: {k1: '" + string(text) + "'}"
	}
	settings["ocm"] = "allow: [" + srv.URL + "/ed]"
	settings["openpayments"] = "jwks_url: " + srv.URL + "/ed"
	settings["yandex-pay"] = "account: m-17, jwks_url: " + srv.URL + "/ec"
	return settings, map[string]string{"accessowl": files["ed"],
		"activitypub": files["rsa"], "ocm": files["ed"], "openpayments": files["ed"],
		"adcp": files["ed"], "pawapay": files["ec"], "discord": files["ed"], "google-eventarc": files["rsa"],
		"google-pubsub": files["rsa"], "openbanking-uk": files["rsa"], "sendgrid": files["ec"],
		"yandex-pay": files["ec"]}
}
