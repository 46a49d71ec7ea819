package interop_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v74/github"
	mailgun "github.com/mailgun/mailgun-go/v4"
	remitly "github.com/remitly-oss/httpsig-go"
	"github.com/remitly-oss/httpsig-go/keyman"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v85/webhook"
	svix "github.com/svix/svix-webhooks/go"
	"github.com/yaronf/httpsign"
)

func verifyStripe(d signed) error {
	ev, err := webhook.ConstructEvent([]byte(d.Body), d.Header["stripe-signature"], d.Secret)
	if err == nil && !strings.HasPrefix(ev.ID, "evt_") {
		return fmt.Errorf("the event is %q", ev.ID)
	}
	return err
}

func verifySvix(d signed) error {
	w, err := svix.NewWebhook(d.Secret)
	if err != nil {
		return err
	}
	return verifyStandard(d, w)
}

func verifyStandardWebhooks(d signed) error {
	w, err := standardwebhooks.NewWebhook(d.Secret)
	if err != nil {
		return err
	}
	return verifyStandard(d, w)
}

func verifyStandard(d signed, w interface {
	Verify(body []byte, header http.Header) error
}) error {
	r, err := d.request()
	if err != nil {
		return err
	}
	return w.Verify([]byte(d.Body), r.Header)
}

func verifyGitHub(d signed) error {
	payload, err := github.ValidatePayloadFromBody(d.Header["content-type"], strings.NewReader(d.Body),
		d.Header["x-hub-signature-256"], []byte(d.Secret))
	if err == nil {
		_, err = github.ParseWebHook(d.Header["x-github-event"], payload)
	}
	return err
}

func verifyMailgun(d signed) error {
	var body struct{ Signature mailgun.Signature }
	if err := json.Unmarshal([]byte(d.Body), &body); err != nil {
		return err
	}
	client := mailgun.NewMailgun("hooks.example", "key")
	client.SetWebhookSigningKey(d.Secret)
	if ok, err := client.VerifyWebhookSignature(body.Signature); err != nil || !ok {
		return errors.Join(err, errNotValid)
	}
	return nil
}

func verifyYaronf(alg string, d signed) error {
	r, err := d.request()
	if err != nil {
		return err
	}
	v, err := yaronfVerifier(alg, d.Secret)
	if err != nil {
		return err
	}
	if err := httpsign.VerifyRequest("sig1", *v, r); err != nil {
		return err
	}
	return httpsign.ValidateContentDigestHeader(r.Header["Content-Digest"], &r.Body, []string{httpsign.DigestSha256})
}

func yaronfVerifier(alg, secret string) (*httpsign.Verifier, error) {
	fields := httpsign.Headers("@method", "@target-uri", "content-type", "content-digest", "idempotency-key")
	c := httpsign.NewVerifyConfig().SetKeyID("k1")
	if alg == algHMAC {
		return httpsign.NewHMACSHA256Verifier([]byte(secret), c, fields)
	}
	key, err := publicKey(secret)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case ed25519.PublicKey:
		return httpsign.NewEd25519Verifier(key, c, fields)
	case *ecdsa.PublicKey:
		return httpsign.NewP256Verifier(*key, c, fields)
	case *rsa.PublicKey:
		return httpsign.NewRSAPSSVerifier(*key, c, fields)
	}
	return nil, fmt.Errorf("the key is %T", key)
}

func verifyRemitly(d signed) error {
	r, err := d.request()
	if err != nil {
		return err
	}
	keys := keyman.NewKeyFetchInMemory(map[string]remitly.KeySpec{
		"k1": {KeyID: "k1", Algo: remitly.Algo_HMAC_SHA256, Secret: []byte(d.Secret)}})
	_, err = remitly.Verify(r, keys, remitly.VerifyProfile{
		SignatureLabel: "sig1", AllowedAlgorithms: []remitly.Algorithm{remitly.Algo_HMAC_SHA256}})
	return err
}

// publicKey reads the PEM of publicPEM.
func publicKey(text string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}
