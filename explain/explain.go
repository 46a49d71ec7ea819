// Package explain finds out why a delivery was refused.
//
// It has no cryptography of its own. A hypothesis changes one thing of the configuration or of the
// delivery (a secret, a form of the signature, a field, the URL, the body) and asks the scheme to
// verify it. Where it verifies, the cause is proved, because a signature does not match by chance.
// Causes that cannot be tried are likely, and never reported before a proof.
//
//	e := explain.New(producers)
//	report := e.Explain(ctx, explain.Delivery{Endpoint: "shop", Request: r, Body: body, Now: now})
//
// The result is for the operator of the receiver, never for the sender of the delivery. It holds no
// secret and no part of one: secrets are named by their position.
package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The bounds of one run. An unauthenticated client chooses the delivery.
const (
	MaxTrials = 6000        // hypotheses that are tried
	MaxHashed = 128 << 20   // bytes that are hashed, and of forms of the body that are made
	MaxTime   = time.Second // that a run takes
	maxText   = 300         // bytes of a text of a finding
)

// Delivery is a refused delivery.
type Delivery struct {
	// Endpoint is the name of the producer whose endpoint received it.
	Endpoint string
	// Request is the request with an absolute URL, as the receiver located it, without its body.
	Request *http.Request
	// Body is what arrived of the body. Unread means that it was not read at all: the delivery was
	// refused before.
	Body   []byte
	Unread bool
	// Code is why the receiver refused it; empty if that is not known.
	Code verify.Code
	// Declared is the length of the body that the request declares; 0 or less if it declares none.
	Declared int64
	// Now is when the delivery arrived. Defaults to the present.
	Now time.Time
	// Secrets are secrets that the operator suspects, beside those of the configuration.
	Secrets []verify.Offer
	// Offsets are how long before their arrival the last deliveries of this producer were signed.
	Offsets []time.Duration
}

// Finding is one cause.
type Finding struct {
	Cause Cause `json:"cause"`
	// Proved means that the delivery verifies once this is undone, together with the other proved
	// findings, or that the request itself shows it. Otherwise it is likely.
	Proved bool `json:"proved"`
	// Detail says which secret, field or form it is. It is safe on a terminal and in HTML, as are
	// Signed and Came.
	Detail string `json:"detail,omitempty"`
	// Signed and Came are what was signed and what arrived, around the first byte in which they
	// differ; At is its offset. They are empty if there is nothing to compare.
	Signed string `json:"signed,omitempty"`
	Came   string `json:"came,omitempty"`
	At     int    `json:"at,omitempty"`
}

// MarshalJSON adds the sentence and the remedy of the cause.
func (f Finding) MarshalJSON() ([]byte, error) {
	type plain Finding
	return json.Marshal(struct {
		plain
		Sentence string `json:"sentence"`
		Remedy   string `json:"remedy"`
	}{plain(f), f.Cause.Sentence(), f.Cause.Remedy()})
}

// Report is the result of a run.
type Report struct {
	// Code is why the scheme refuses the delivery now; empty if it does not. If no producer has the
	// endpoint it is the code of the delivery.
	Code verify.Code `json:"code"`
	// Findings are the causes: the smallest set of changes that makes the delivery verify, or else
	// those that are likely. Empty if none was found.
	Findings []Finding `json:"findings"`
	// Bases are the signature bases (RFC 9421) with the proved changes and without, if they differ.
	Bases    *Bases `json:"bases,omitempty"`
	Trials   int    `json:"trials"`   // hypotheses that were tried
	Complete bool   `json:"complete"` // false if a bound or the context ended the search
}

// Bases are two signature bases (RFC 9421 section 2.5), line by line. They are as safe to show as
// the texts of a [Finding]: ends of lines are written "\n", and queries and credentials are masked.
type Bases struct {
	Signed []string `json:"signed"` // with which the signature verifies
	Ours   []string `json:"ours"`   // of the received request
}

// Explainer explains deliveries of the producers of one configuration. It is safe for concurrent
// use and runs one explanation at a time.
type Explainer struct {
	// Within is how long a run may take; zero is [MaxTime]. A person who asks may wait longer.
	Within    time.Duration
	producers []producer.Producer
	running   chan struct{}
}

// New returns an explainer for the producers of a configuration.
func New(producers []producer.Producer) *Explainer {
	e := &Explainer{running: make(chan struct{}, 1)}
	for _, p := range producers {
		if !p.Tenants.On() { // its secrets are not in the configuration
			e.producers = append(e.producers, p.WithDefaults())
		}
	}
	return e
}

// offline returns the scheme without its network, if it has one.
func offline(s verify.Scheme) verify.Scheme {
	return verify.MapParts(s, func(one verify.Scheme) verify.Scheme {
		if fetching, ok := one.(interface{ Offline() verify.Scheme }); ok {
			return fetching.Offline()
		}
		return one
	})
}

// Explain looks for the cause. It waits for a run that has not ended, and ends with its context, or
// after [MaxTrials], [MaxHashed] or Within. It makes no network request for a certificate.
func (e *Explainer) Explain(ctx context.Context, d Delivery) Report {
	select {
	case e.running <- struct{}{}:
		defer func() { <-e.running }()
	case <-ctx.Done():
		return Report{}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Within, MaxTime))
	defer cancel()
	if d.Now.IsZero() {
		d.Now = time.Now()
	}
	s := newSearch(ctx, e.producers, d)
	if s == nil {
		return Report{Code: d.Code, Complete: true} // no endpoint, or one that is gone
	}
	return s.run()
}
