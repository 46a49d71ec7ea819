package preset

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// CloudEvents receives CloudEvents 1.0 over HTTP from a sender that carries a bearer token (settings bearer or
// secrets), in the Authorization field or as the query parameter access_token (HTTP webhook section 3). Without
// a token, allowed_ips must say who may send.
//
// Structured and binary mode are always taken. Batches are sent only by agreement (HTTP protocol binding
// section 3.3), so they are refused as an unsupported media type (415) unless batch is set; since a batch
// cannot be answered event by event, there are no Answer handlers then.
//
// An Idempotency-Key that is sent is the identifier, else source and id together are; [SplitCloudEvents] says the rest. The
// token authenticates the key as it does everything else. PUT is not taken unless it is agreed (HTTP webhook section 2.1): add
// it to Methods. Requests to subscribe (OPTIONS,
// HTTP webhook section 4) are answered when origins lists who may send; rate is how many requests a minute
// are granted. The callback address of such a request is never called. Windows are a guess, since how long a
// sender tries again is its own matter.
//
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
func CloudEvents(s Settings) producer.Producer {
	p := webhook("cloudevents", "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md")
	tokens := s.Secrets
	if s.Bearer != "" {
		tokens = append(slices.Clone(tokens), s.Bearer)
	}
	if len(tokens) > 0 {
		p = signedBy(p, &verify.Static{In: verify.InBearer, Name: "access_token", Secrets: verify.Secrets(tokens...)})
		p.SecretQuery = []string{"access_token"}
		// HTTP webhook section 3.2: an answer to a token in the query is nobody else's.
		p.Accepted = dedup.Response{Header: http.Header{"Cache-Control": {"private"}}}
	} else if len(s.AllowedIPs) == 0 {
		p.Err = errors.Join(p.Err, errors.New("cloudevents: no bearer token; set one, or allowed_ips"))
	}
	p.AllowedIPs = s.AllowedIPs
	p.KeyRequired, p.Fingerprint = true, producer.FingerprintCloudEvent
	if s.Batch {
		p.Split = producer.SplitCloudEvents
	} else {
		p.Key = producer.First(producer.IdempotencyKey{}, singleEvent{producer.CloudEventID(), func(it producer.Item) string { return it.ID }})
		p.Type = singleEvent{producer.CloudEventType(), func(it producer.Item) string { return it.Type }}
		p.Attributes = producer.CloudEventAttributes
	}
	p.Window = 48 * time.Hour
	p = grants(p, s, nil)
	return p
}

// grants answers requests to subscribe for the origins of the settings; none leaves them unanswered. A scheme
// given here must accept the request first, for keys that stand in the URL.
func grants(p producer.Producer, s Settings, scheme verify.Scheme) producer.Producer {
	if len(s.Origins) == 0 {
		return p
	}
	rate := s.Rate
	p.ChallengeMethods = []string{http.MethodOptions}
	p.Challenge = func(r *http.Request) (*dedup.Response, error) {
		if r.Method != http.MethodOptions {
			return nil, nil
		}
		if scheme != nil {
			if _, err := scheme.Verify(r, func() ([]byte, error) { return nil, nil }); err != nil {
				return nil, err
			}
		}
		return grant(r, s.Origins, rate)
	}
	return p
}

// grant answers a request to subscribe (HTTP webhook section 4.2). Only an origin that the operator listed is
// written back, so nothing of a stranger's is reflected.
func grant(r *http.Request, origins []string, rate int) (*dedup.Response, error) {
	asked := r.Header.Values("WebHook-Request-Origin")
	if len(asked) != 1 || !slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, asked[0]) }) {
		return &dedup.Response{Status: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {http.MethodPost}}},
			&verify.Error{Code: verify.ChallengeUnexpected, Component: "webhook-request-origin"}
	}
	header := http.Header{"Allow": {http.MethodPost}}
	header.Set("WebHook-Allowed-Origin", asked[0])
	if allowed := grantedRate(r.Header.Get("WebHook-Request-Rate"), rate); allowed != "" {
		header.Set("WebHook-Allowed-Rate", allowed)
	}
	return &dedup.Response{Status: http.StatusOK, Header: header}, nil
}

// grantedRate is the rate that is asked for, at most limit requests a minute; a limit of zero is none.
func grantedRate(asked string, limit int) string {
	n, err := strconv.Atoi(asked)
	switch {
	case err != nil || n <= 0:
		if limit > 0 {
			return strconv.Itoa(limit)
		}
		return "*"
	case limit > 0 && limit < n:
		return strconv.Itoa(limit)
	}
	return strconv.Itoa(n)
}

// singleEvent reads one value of a delivery that must be a single CloudEvent.
type singleEvent struct {
	producer.Extractor
	of func(producer.Item) string
}

func (x singleEvent) Extract(d *producer.Delivery) (string, error) {
	it, err := splitOne(d)
	return x.of(it), err
}

// splitOne is SplitCloudEvents for senders that were not asked for batches.
func splitOne(d *producer.Delivery) (producer.Item, error) {
	if media, _, _ := strings.Cut(d.Request.Header.Get("Content-Type"), ";"); strings.EqualFold(verify.TrimOWS(media), producer.MediaCloudEventBatch) {
		return producer.Item{}, &verify.Error{Code: verify.MediaTypeUnsupported, Component: "content-type"}
	}
	items, err := producer.SplitCloudEvents(d)
	if err != nil {
		return producer.Item{}, err
	}
	return items[0], nil // anything but a batch is one event
}
