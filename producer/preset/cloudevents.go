package preset

import (
	"errors"
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// cloudEvents receives CloudEvents 1.0 over HTTP with a bearer token (setting
// secret), in the field Authorization or the query parameter access_token (HTTP webhook
// section 3). Without a token, allowed_ips must list the senders.
//
// Structured and binary mode are always accepted. Batches need an agreement (HTTP protocol binding
// section 3.3): without the setting batch they are refused as an unsupported media type (415). With
// it there are no Answer handlers, because a batch cannot be answered event by event.
//
// The identifier is the Idempotency-Key field, or else source and id together; see
// [producer.SplitCloudEvents]. The token authenticates the field like everything else. PUT
// needs an agreement too (HTTP webhook section 2.1): add it to Methods. With the setting
// origins, requests to subscribe (OPTIONS, HTTP webhook section 4) are answered; rate is the
// granted number of requests per minute. Their callback URL is never called. The window is a
// guess: senders choose how long they retry.
//
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
var cloudEvents = Preset{
	Name: "cloudevents", Docs: "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md",
	Auth: "bearer token", ID: "Idempotency-Key, or source and id", Wants: "2xx; the sender's matter",
	Uses: []string{"secret", "batch", "origins"},
	like: producer.Producer{Fields: []string{"ce-*"}}, build: buildCloudEvents,
}

func buildCloudEvents(p *producer.Producer, s Settings) {
	if len(s.Secrets) > 0 {
		signedBy(p, &verify.Static{In: verify.InBearer, Name: "access_token", Secrets: verify.Secrets(s.Secrets...)})
		p.SecretQuery = []string{"access_token"}
		p.Accepted = dedup.Response{Header: http.Header{"Cache-Control": {"private"}}} // HTTP webhook section 3.2
	} else if len(s.AllowedIPs) == 0 {
		p.Err = errors.Join(p.Err, errors.New("cloudevents: no bearer token; set one, or allowed_ips"))
	}
	p.AllowedIPs = s.AllowedIPs
	p.KeyRequired, p.Fingerprint = !s.Batch, producer.FingerprintCloudEvent
	p.EmptyBody = true // an event in binary mode need not have data
	if s.Batch {
		p.Split = producer.SplitCloudEvents
	} else {
		p.Key = producer.First(producer.IdempotencyKey{},
			singleEvent{producer.CloudEventID(), func(it producer.Item) string { return it.ID }})
		p.Type = singleEvent{producer.CloudEventType(), func(it producer.Item) string { return it.Type }}
		p.Attributes = producer.CloudEventAttributes
	}
	p.Window = 2 * day
	grantsOrigins(p, s, nil)
}

// singleEvent reads a value of the only event of a delivery. It refuses batches, which are not
// agreed on.
type singleEvent struct {
	producer.Extractor
	of func(producer.Item) string
}

func (x singleEvent) Extract(d *producer.Delivery) (string, error) {
	media, _, _ := strings.Cut(d.Request.Header.Get("Content-Type"), ";")
	if strings.EqualFold(verify.TrimOWS(media), producer.MediaCloudEventBatch) {
		return "", &verify.Error{Code: verify.MediaTypeUnsupported, Component: "content-type"}
	}
	items, err := producer.SplitCloudEvents(d)
	if err != nil {
		return "", err
	}
	return x.of(items[0]), nil
}
