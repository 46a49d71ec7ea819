package interop_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/common-fate/httpsig/alg_ecdsa"
	commonfate "github.com/common-fate/httpsig/signer"
	remitly "github.com/remitly-oss/httpsig-go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v83/webhook"
	svix "github.com/svix/svix-webhooks/go"
	"github.com/yaronf/httpsign"
)

// order returns a body with the identifier of a delivery. Every body names a city, which
// tampering replaces.
func order(d delivery) []byte {
	return fmt.Appendf(nil, `{"type": "order.created", "id": %q, "city": "Berlin"}`, d.ID)
}

// post returns an unsigned request with a JSON body.
func post(d delivery, body []byte) (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, d.URL, bytes.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

func signStripe(d delivery) (*http.Request, error) {
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
		Payload: order(d), Secret: d.Secret, Timestamp: time.Unix(d.At, 0),
	})
	r, err := post(d, signed.Payload)
	if err == nil {
		r.Header.Set("Stripe-Signature", signed.Header)
	}
	return r, err
}

// webhookSigner is what the libraries of Svix and Standard Webhooks have in common.
type webhookSigner interface {
	Sign(id string, at time.Time, payload []byte) (string, error)
}

func signSvix(d delivery) (*http.Request, error) {
	w, err := svix.NewWebhook(d.Secret)
	if err != nil {
		return nil, err
	}
	return signStandard(d, w, "svix")
}

func signStandardWebhooks(d delivery) (*http.Request, error) {
	w, err := standardwebhooks.NewWebhook(d.Secret)
	if err != nil {
		return nil, err
	}
	return signStandard(d, w, "webhook")
}

func signStandard(d delivery, w webhookSigner, prefix string) (*http.Request, error) {
	body := order(d)
	signature, err := w.Sign(d.ID, time.Unix(d.At, 0), body)
	if err != nil {
		return nil, err
	}
	r, err := post(d, body)
	if err == nil {
		r.Header.Set(prefix+"-id", d.ID)
		r.Header.Set(prefix+"-timestamp", fmt.Sprint(d.At))
		r.Header.Set(prefix+"-signature", signature)
	}
	return r, err
}

func cloudEventBinary(d delivery) (*http.Request, error) {
	return cloudEvent(binding.WithForceBinary(context.Background()), d)
}

func cloudEventStructured(d delivery) (*http.Request, error) {
	return cloudEvent(binding.WithForceStructured(context.Background()), d)
}

func cloudEvent(ctx context.Context, d delivery) (*http.Request, error) {
	event := cloudevents.NewEvent()
	event.SetID(d.ID)
	event.SetSource("/tea")
	event.SetType("com.example.order")
	if err := event.SetData(cloudevents.ApplicationJSON, json.RawMessage(order(d))); err != nil {
		return nil, err
	}
	r, err := cloudevents.NewHTTPRequestFromEvent(ctx, d.URL, event)
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+d.Secret)
	}
	return r, err
}

// ownRequest returns the request of a producer that signs with RFC 9421, except the signature.
func ownRequest(d delivery) (*http.Request, error) {
	r, err := post(d, order(d))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Idempotency-Key", `"`+d.ID+`"`)
	digest, err := httpsign.GenerateContentDigestHeader(&r.Body, []string{httpsign.DigestSha256})
	r.Header.Set("Content-Digest", digest)
	return r, err
}

func signYaronf(d delivery) (*http.Request, error) {
	r, err := ownRequest(d)
	if err != nil {
		return nil, err
	}
	key, err := privateKey[ed25519.PrivateKey](d.Secret)
	if err != nil {
		return nil, err
	}
	fields := httpsign.Headers("@method", "@target-uri", "content-type", "content-digest", "idempotency-key")
	signer, err := httpsign.NewEd25519Signer(key, httpsign.NewSignConfig().SetKeyID("k1"), fields)
	if err != nil {
		return nil, err
	}
	input, signature, err := httpsign.SignRequest("sig1", *signer, r)
	r.Header.Set("Signature-Input", input)
	r.Header.Set("Signature", signature)
	return r, err
}

func signRemitly(d delivery) (*http.Request, error) {
	return remitlyRequest(d, "@method", "@authority", "@path", "@query")
}

func signRemitlyTargetURI(d delivery) (*http.Request, error) {
	return remitlyRequest(d, "@method", "@target-uri")
}

func remitlyRequest(d delivery, components ...string) (*http.Request, error) {
	r, err := ownRequest(d)
	if err != nil {
		return nil, err
	}
	profile := remitly.SigningProfile{
		Algorithm: remitly.Algo_HMAC_SHA256,
		Fields:    remitly.Fields(append(components, "content-type", "content-digest", "idempotency-key")...),
		Metadata:  []remitly.Metadata{remitly.MetaCreated, remitly.MetaKeyID, remitly.MetaAlgorithm},
	}
	return r, remitly.Sign(r, profile, remitly.SigningKey{Secret: []byte(d.Secret), MetaKeyID: "k1"})
}

func signCommonfate(d delivery) (*http.Request, error) {
	r, err := ownRequest(d)
	if err != nil {
		return nil, err
	}
	return commonfateRequest(d, r)
}

func signCommonfateWithoutDigest(d delivery) (*http.Request, error) {
	r, err := ownRequest(d)
	if err != nil {
		return nil, err
	}
	r.Header.Del("Content-Digest")
	return commonfateRequest(d, r)
}

// commonfateRequest signs in its transport, which hands the signed request to the next one.
func commonfateRequest(d delivery, r *http.Request) (*http.Request, error) {
	key, err := privateKey[*ecdsa.PrivateKey](d.Secret)
	if err != nil {
		return nil, err
	}
	var signed *http.Request
	transport := &commonfate.Transport{
		KeyID: "k1", Alg: alg_ecdsa.NewP256Signer(key),
		CoveredComponents: []string{"@method", "@target-uri", "content-type", "content-digest", "idempotency-key"},
		BaseTransport: roundTrip(func(r *http.Request) (*http.Response, error) {
			signed = r
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}),
	}
	_, err = transport.RoundTrip(r)
	return signed, err
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
