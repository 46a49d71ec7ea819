package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// identityVector is a sequence of deliveries and their outcomes.
type identityVector struct {
	Name, Producer    string
	Handlers          []string
	Answer            bool // use Answer handlers
	Steps             []identityStep
	Runs, Quarantined int
	Reasons           map[string]int
	IDs               []string // patterns of the identifiers of the runs
}

// identityStep is a delivery, or several that differ in {n}.
type identityStep struct {
	ID, Sending, Type, Body string
	Header                  map[string]string
	Times, Secret           int
	After, Signed           string // how far the clock advances before it, and the age of its signature
	Outcome                 string // new, known, quarantined or refused
	Answer                  *string
}

// identityProducer returns the producer of a vector and the fields of its identifier, its type
// and its sending.
func identityProducer(t *testing.T, name string, secrets ...string) (p producer.Producer, id, typ, sending string) {
	t.Helper()
	own := func(content string, contract producer.Contract) producer.Producer {
		scheme := &verify.HMAC{Headers: []string{"X-Signature"}, Encoding: verify.Hex, Content: content,
			Secrets: verify.Secrets(secrets...)}
		if strings.Contains(content, "timestamp") {
			scheme.TimestampHeaders = []string{"X-Time"}
		}
		return producer.Producer{
			Name: name, Scheme: scheme, Contract: contract, Key: producer.Header("X-Id"),
			Type: producer.Header("X-Type"), KeyRequired: true,
		}
	}
	switch id, typ = "X-Id", "X-Type"; name {
	case "github":
		return preset.GitHub(secrets...), "X-GitHub-Delivery", "X-GitHub-Event", ""
	case "shopify":
		return preset.With("shopify", secrets...), "X-Shopify-Event-Id", "X-Shopify-Topic", "X-Shopify-Webhook-Id"
	case "razorpay":
		return preset.With("razorpay", secrets...), "X-Razorpay-Event-Id", "", ""
	case "twilio":
		return preset.With("twilio", secrets...), "I-Twilio-Idempotency-Token", "", ""
	case "timed":
		p = own("{timestamp}.{body}", producer.Webhook)
	case "api":
		p = own("{body}", producer.API)
	default:
		p = own("{body}", producer.Webhook)
	}
	switch name {
	case "run":
		p.SameSigned, p.SameSignedMax = producer.SameSignedRun, 3
	case "off":
		p.SameSigned = producer.SameSignedOff
	case "members":
		p.Fingerprint = producer.FingerprintFields(producer.JSON("n"))
	}
	return p, id, typ, ""
}

func identityVectors(t *testing.T) []identityVector {
	t.Helper()
	raw, err := os.ReadFile("../testdata/vectors/identity/identity.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []identityVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

// TestIdentityVectors delivers each vector to a receiver.
func TestIdentityVectors(t *testing.T) {
	t.Parallel()
	for _, v := range identityVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := deduptest.NewClock()
				r := newIdentityRun(t, v, clock, memstore.New(memstore.Options{Clock: clock}))
				r.wait = synctest.Wait
				r.run()
			})
		})
	}
}

// identityRun is a receiver to which a vector is delivered.
type identityRun struct {
	t     *testing.T
	v     identityVector
	clock *deduptest.Clock
	store dedup.Store
	p     producer.Producer
	h     http.Handler
	wait  func() // until every event has its outcome

	id, typ, sending string

	mu   sync.Mutex
	runs []string // the identifiers that handlers got
}

var identitySecrets = []string{"the-kettle-is-on-17", "the-kettle-was-on-16"}

func newIdentityRun(t *testing.T, v identityVector, clock *deduptest.Clock, store dedup.Store) *identityRun {
	t.Helper()
	r := &identityRun{t: t, v: v, clock: clock, store: store}
	r.p, r.id, r.typ, r.sending = identityProducer(t, v.Producer, identitySecrets...)
	var handlers []receiver.Handler
	for _, pattern := range v.Handlers {
		if v.Answer {
			handlers = append(handlers,
				receiver.Answer(v.Producer, pattern,
					func(_ context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
						return receiver.Response{Body: fmt.Appendf(nil, "run %d", r.ran(ev))}, nil
					}))
			continue
		}
		handlers = append(handlers,
			receiver.On(v.Producer, pattern, func(_ context.Context, ev receiver.Event[[]byte]) error {
				r.ran(ev)
				return nil
			}))
	}
	r.p.Accepted = dedup.Response{} // its body tells what became of a delivery
	rx := opened(t, receiver.Config{
		Store: store, Producers: []producer.Producer{r.p}, Handlers: handlers, Clock: clock.Now,
	})
	r.h = rx.Handler()
	return r
}

func (r *identityRun) ran(ev receiver.Event[[]byte]) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, ev.ID)
	return len(r.runs)
}

func (r *identityRun) run() {
	for i, step := range r.v.Steps {
		for n := range max(1, step.Times) {
			one := step
			for _, text := range []*string{&one.ID, &one.Sending, &one.Type} {
				*text = strings.ReplaceAll(*text, "{n}", fmt.Sprint(n+1))
			}
			outcome, body := r.deliver(one)
			if outcome != step.Outcome || step.Answer != nil && body != *step.Answer {
				r.t.Fatalf("step %d.%d: %s, %q, want %s", i+1, n+1, outcome, body, step.Outcome)
			}
		}
	}
	r.wait()
	r.check()
}

// deliver sends a step and returns its outcome.
func (r *identityRun) deliver(step identityStep) (outcome, body string) {
	r.t.Helper()
	if step.After != "" {
		r.wait() // no lease may run out under a handler
		r.clock.Advance(duration(r.t, step.After))
	}
	kind := "application/json"
	if r.v.Producer == "twilio" {
		kind = "application/x-www-form-urlencoded"
	}
	req := post(r.v.Producer, step.Body, "Content-Type", kind)
	for name, value := range map[string]string{r.id: step.ID, r.typ: step.Type, r.sending: step.Sending} {
		if name != "" && value != "" {
			req.Header.Set(name, value)
		}
	}
	for name, value := range step.Header {
		req.Header.Set(name, value)
	}
	by := r.p
	if step.Secret > 0 {
		by, _, _, _ = identityProducer(r.t, r.v.Producer, identitySecrets[step.Secret])
	}
	at := r.clock.Now()
	if step.Signed != "" {
		at = at.Add(-duration(r.t, step.Signed))
	}
	if err := by.Scheme.(signer).Sign(req, []byte(step.Body), at); err != nil {
		r.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.h.ServeHTTP(w, req.WithContext(r.t.Context()))
	body = w.Body.String()
	quarantined := strings.Contains(body, "quarantined") || r.v.Answer && body == ""
	switch {
	case w.Code == http.StatusUnauthorized:
		return "refused", body
	case w.Code/100 != 2:
		return fmt.Sprint(w.Code), body
	case w.Header().Get("Idempotency-Replayed") != "":
		return "known", body
	case quarantined:
		return "quarantined", body
	}
	return "new", body
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// check compares the runs and the records with the vector.
func (r *identityRun) check() {
	r.t.Helper()
	records := recordsOf(r.t, r.store)
	r.mu.Lock()
	defer r.mu.Unlock()
	quarantined, reasons := 0, map[string]int{}
	for _, rec := range records {
		if rec.QuarantineReason == "" {
			continue
		}
		quarantined++
		reasons[rec.QuarantineReason]++
		forgotten := rec.QuarantineReason == "seen_before" // with its original
		if rec.Original == "" && !forgotten || len(rec.Payload.Body) == 0 {
			r.t.Errorf("quarantined %+v", rec)
		}
	}
	if len(r.runs) != r.v.Runs || quarantined != r.v.Quarantined {
		r.t.Errorf("%d runs, want %d; %d quarantined, want %d", len(r.runs), r.v.Runs, quarantined, r.v.Quarantined)
	}
	if r.v.Reasons != nil && !maps.Equal(reasons, r.v.Reasons) {
		r.t.Errorf("quarantined for %v, want %v", reasons, r.v.Reasons)
	}
	seen := slices.Clone(r.runs)
	if slices.Sort(seen); len(slices.Compact(seen)) != len(r.runs) && reasons["seen_before"] == 0 {
		r.t.Errorf("two events share an identifier: %v", r.runs)
	}
	left := slices.Clone(r.runs)
	for _, pattern := range r.v.IDs {
		i := slices.IndexFunc(left, func(id string) bool {
			ok, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(id, "/", "|"))
			return err == nil && ok && strings.Count(pattern, ";") == strings.Count(id, ";")
		})
		if i < 0 {
			r.t.Fatalf("no run of %q among %v", pattern, r.runs)
		}
		left = slices.Delete(left, i, i+1)
	}
}
