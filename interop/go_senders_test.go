package interop_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/common-fate/httpsig/alg_ecdsa"
	commonfate "github.com/common-fate/httpsig/signer"
	"github.com/google/go-github/v74/github"
	remitly "github.com/remitly-oss/httpsig-go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	webhook82 "github.com/stripe/stripe-go/v82/webhook"
	"github.com/stripe/stripe-go/v85/webhook"
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
	return stripeRequest(d, signed.Header)
}

func signStripe82(d delivery) (*http.Request, error) {
	signed := webhook82.GenerateTestSignedPayload(&webhook82.UnsignedPayload{
		Payload: order(d), Secret: d.Secret, Timestamp: time.Unix(d.At, 0),
	})
	return stripeRequest(d, signed.Header)
}

func stripeRequest(d delivery, signature string) (*http.Request, error) {
	r, err := post(d, order(d))
	if err == nil {
		r.Header.Set("Stripe-Signature", signature)
	}
	return r, err
}

// signGitHub signs by the documented formula, for a library that verifies.
func signGitHub(coded bool) func(delivery) (*http.Request, error) {
	return func(d delivery) (*http.Request, error) {
		body := order(d)
		if coded {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(body) // a buffer takes all
			_ = w.Close()
			body = b.Bytes()
		}
		mac := hmac.New(sha256.New, []byte(d.Secret))
		mac.Write(body)
		signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if err := github.ValidateSignature(signature, body, []byte(d.Secret)); err != nil {
			return nil, err
		}
		r, err := post(d, body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-Hub-Signature-256", signature)
		r.Header.Set("X-Github-Event", "push")
		r.Header.Set("X-Github-Delivery", d.ID)
		if coded {
			r.Header.Set("Content-Encoding", "gzip")
		}
		return r, nil
	}
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

// dataOf returns the data of a CloudEvent and its media type.
type dataOf func(d delivery) (media string, data any)

func orderData(d delivery) (string, any) {
	return cloudevents.ApplicationJSON, json.RawMessage(order(d))
}

func xmlData(d delivery) (string, any) {
	return cloudevents.ApplicationXML, fmt.Appendf(nil, "<order><id>%s</id><city>Berlin</city></order>", d.ID)
}

func binaryData(d delivery) (string, any) {
	return "application/octet-stream", []byte("\xff " + d.ID + " Berlin")
}

// cloudEventIn returns a signer of CloudEvents in structured or binary mode.
func cloudEventIn(structured bool, data dataOf) func(delivery) (*http.Request, error) {
	return func(d delivery) (*http.Request, error) {
		event, err := cloudEvent(d, data)
		if err != nil {
			return nil, err
		}
		ctx := binding.WithForceBinary(context.Background())
		if structured {
			ctx = binding.WithForceStructured(context.Background())
		}
		r, err := cloudevents.NewHTTPRequestFromEvent(ctx, d.URL, event)
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+d.Secret)
		}
		return r, err
	}
}

// cloudEventInOtherMode sends the repetition of an event in structured mode.
func cloudEventInOtherMode() func(delivery) (*http.Request, error) {
	repeated := false
	return func(d delivery) (*http.Request, error) {
		structured := repeated && d.ID == "event-1"
		repeated = true
		return cloudEventIn(structured, orderData)(d)
	}
}

// cloudEventBatch sends two events.
func cloudEventBatch(d delivery) (*http.Request, error) {
	first, err := cloudEvent(d, orderData)
	if err != nil {
		return nil, err
	}
	second := first.Clone()
	second.SetID(d.ID + "-second")
	r, err := cloudevents.NewHTTPRequestFromEvents(context.Background(), d.URL, []cloudevents.Event{first, second})
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+d.Secret)
	}
	return r, err
}

func cloudEvent(d delivery, data dataOf) (cloudevents.Event, error) {
	event := cloudevents.NewEvent()
	event.SetID(d.ID)
	event.SetSource("/tea")
	event.SetSubject("Berlin")
	event.SetType("com.example.order")
	if data == nil {
		return event, nil
	}
	media, value := data(d)
	return event, event.SetData(media, value)
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
	signer, err := yaronfSigner(d.Secret)
	if err != nil {
		return nil, err
	}
	input, signature, err := httpsign.SignRequest("sig1", *signer, r)
	r.Header.Set("Signature-Input", input)
	r.Header.Set("Signature", signature)
	return r, err
}

func yaronfSigner(secret string) (*httpsign.Signer, error) {
	key, err := privateKey[crypto.Signer](secret)
	if err != nil {
		return nil, err
	}
	fields := httpsign.Headers("@method", "@target-uri", "content-type", "content-digest", "idempotency-key")
	c := httpsign.NewSignConfig().SetKeyID("k1")
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return httpsign.NewEd25519Signer(key, c, fields)
	case *ecdsa.PrivateKey:
		return httpsign.NewP256Signer(*key, c, fields)
	case *rsa.PrivateKey:
		return httpsign.NewRSAPSSSigner(*key, c, fields)
	}
	return nil, fmt.Errorf("the key is %T", key)
}

func signRemitly(alg string, components ...string) func(delivery) (*http.Request, error) {
	return func(d delivery) (*http.Request, error) {
		r, err := ownRequest(d)
		if err != nil {
			return nil, err
		}
		key := remitly.SigningKey{Secret: []byte(d.Secret), MetaKeyID: "k1"}
		if alg != algHMAC {
			key.Secret = nil
			if key.Key, err = privateKey[crypto.Signer](d.Secret); err != nil {
				return nil, err
			}
		}
		profile := remitly.SigningProfile{
			Algorithm: remitly.Algorithm(alg),
			Fields:    remitly.Fields(append(components, "content-type", "content-digest", "idempotency-key")...),
			Metadata:  []remitly.Metadata{remitly.MetaCreated, remitly.MetaKeyID, remitly.MetaAlgorithm},
		}
		return r, remitly.Sign(r, profile, key)
	}
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
