package receiver

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

//go:embed policy.html
var policyHTML string

// policy is the page of what this receiver expects and answers. Both drafts require it
// (draft-ietf-httpapi-idempotency-key-header section 2.5.2,
// draft-mayankpanke-event-delivery-semantics section 9.2), and RFC 9421 section 1.4 requires the
// profile of its signatures. It is rendered once.
type policy struct {
	html, json []byte
}

// policyDoc is the content of the page, as ?format=json returns it.
type policyDoc struct {
	Service   policyService    `json:"service"`
	Accepted  []policyRule     `json:"accepted"`
	Endpoints []policyEndpoint `json:"endpoints"`
	Problems  []policyProblem  `json:"problems"`
}

// policyService is the description of the service that the delivery draft (section 9.7) requires
// of an intermediary which accepts events before its targets do: durability and retries.
type policyService struct {
	Kept     string `json:"kept"`
	Attempts int    `json:"attempts"`
	Backoff  string `json:"backoff"`
}

func servicePolicy(c *Config) policyService {
	kept := map[dedup.Durability]string{
		dedup.DurableNone:       "in memory, and lost when the process ends",
		dedup.DurableProcess:    "so that it survives the end of the process",
		dedup.DurableMachine:    "on disk, so that it survives a power cut",
		dedup.DurableReplicated: "on several machines, so that it survives the loss of one",
	}
	return policyService{
		Kept: kept[c.Store.Guarantees().Durability], Attempts: c.Attempts,
		Backoff: fmt.Sprintf("full jitter: uniform between none and %s, which doubles with every failure up to %s",
			duration.Rough(c.BackoffBase), duration.Rough(c.BackoffCap)),
	}
}

// policyRule is a situation that is not a failure, and its response.
type policyRule struct {
	Situation string `json:"situation"`
	API       string `json:"api"`
	Webhook   string `json:"webhook"`
}

// policyEndpoint is what one endpoint expects.
type policyEndpoint struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	Contract string   `json:"contract"`
	Methods  []string `json:"methods"`
	Types    []string `json:"media_types,omitempty"`
	Key      string   `json:"key"`
	// Format is the form of identifiers; empty is any. Strict refuses keys without quotes.
	Format     string   `json:"key_format,omitempty"`
	Strict     bool     `json:"key_strict"`
	Algorithms []string `json:"algorithms,omitempty"`
	Required   bool     `json:"key_required"`
	Scope      string   `json:"scope"`
	Window     string   `json:"window"`
	// Identity is what identifies an event.
	Identity  string `json:"identity"`
	Compared  string `json:"fingerprint"`
	MaxBody   int64  `json:"max_body"`
	Codings   string `json:"content_codings"`
	Empty     bool   `json:"empty_body,omitempty"`
	Rate      string `json:"rate,omitempty"`
	AtOnce    int    `json:"concurrency,omitempty"`
	Signature string `json:"signature,omitempty"`
	Coverage  string `json:"accept_signature,omitempty"`
	Audience  string `json:"audience,omitempty"`
	Fresh     string `json:"freshness"`
	Nonce     string `json:"nonce"`
	Success   int    `json:"success_status"`
	InFlight  int    `json:"in_flight_status"`
	Early     string `json:"early_data"`
	Retire    string `json:"retire,omitempty"`
	Deprecate string `json:"deprecated,omitempty"`
	Monitor   string `json:"monitor_until,omitempty"`
	Docs      string `json:"docs,omitempty"`
}

type policyProblem struct {
	Code      verify.Code `json:"code"`
	Type      string      `json:"type"`
	Status    int         `json:"status"`
	Title     string      `json:"title"`
	Detail    string      `json:"detail"`
	Retryable bool        `json:"retryable"`
}

func newPolicy(rx *Receiver) (*policy, error) {
	doc := policyDoc{Service: servicePolicy(&rx.cfg), Accepted: acceptedRules}
	for _, p := range rx.cfg.Producers {
		doc.Endpoints = append(doc.Endpoints, endpointPolicy(rx, p))
	}
	for _, row := range problems {
		doc.Problems = append(doc.Problems, policyProblem{
			Code: row.Code, Type: rx.typeOf(row), Status: row.Status, Title: row.Title, Detail: row.Detail,
			Retryable: row.Retryable || transient(row.Status) || row.Status == http.StatusMisdirectedRequest,
		})
	}
	asJSON, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var html bytes.Buffer
	if err := template.Must(template.New("policy").Parse(policyHTML)).Execute(&html, doc); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return &policy{html: html.Bytes(), json: append(asJSON, '\n')}, nil
}

// rule is a situation with its responses: one for both contracts, or one each for api and webhook.
func rule(situation string, responses ...string) policyRule {
	return policyRule{Situation: situation, API: responses[0], Webhook: responses[len(responses)-1]}
}

// acceptedRules are the responses that are not failures.
var acceptedRules = []policyRule{
	rule("a new event, stored before the response", "the endpoint's success status"),
	rule("a known event with an outcome", "the stored response, with Idempotency-Replayed: true"),
	rule("a known event that waits for its handler", "the same success status, with Idempotency-Replayed: true"),
	rule("a known event whose first delivery is still in progress",
		"a short wait for its response, then the in-flight status and Retry-After; send it again, also after a 409",
		"a short wait for its response, then the in-flight status and Retry-After"),
	rule("a known key with another payload", "422; the accepted payload does not change",
		"the success status; the delivery is quarantined for inspection and not processed"),
	rule("a batch with an item whose key is known with another payload",
		"the item is quarantined, the others are stored, one success status"),
	rule("an event without a signed time, whose response is no longer stored, or older than what is remembered",
		"401", "the success status; the delivery is quarantined for inspection and not processed"),
	rule("the same signed bytes under another identifier", "401, unless the endpoint allows it",
		"the success status; the delivery is quarantined, at most 16 times, and not processed"),
	rule("a payload that does not decode", "the success status where processing comes later, else 422"),
}

func endpointPolicy(rx *Receiver, p producer.Producer) policyEndpoint {
	e := policyEndpoint{
		Name: p.Name, URL: cmp.Or(p.URL, rx.cfg.URL+webhooksPath+p.Name), Contract: "api",
		Methods: p.Methods, Types: p.MediaTypes, Key: keyPolicy(&p), Strict: strictKey(p.Key), Required: p.KeyRequired,
		Algorithms: verify.PublishedAlgorithms(p.Scheme), Scope: "the authenticated principal and this endpoint",
		Window: duration.Rough(p.Window), Identity: p.Class().UniqueBy(),
		Compared: "the payload as received, with the CloudEvents attributes in the header",
		MaxBody:  p.MaxBody, Codings: codings, Empty: p.EmptyBody, AtOnce: p.Concurrency,
		Fresh: fmt.Sprintf("a signed time is accepted up to %s back and %s ahead",
			duration.Rough(p.Tolerance.Past), duration.Rough(p.Tolerance.Future)),
		Nonce: "ignored", Success: p.Accepted.Status, InFlight: p.InFlight, Early: "refused (425)", Docs: p.Docs,
	}
	if p.Tenants.On() {
		e.URL += "/TENANT"
	}
	if p.Contract == producer.Webhook {
		e.Contract = "webhook"
		e.Compared = "the parts that the vendor does not change between attempts"
	}
	if p.Rate.Limits() {
		e.Rate = fmt.Sprintf("%d events in %s, %d at once; duplicates do not count",
			p.Rate.Events, duration.Rough(p.Rate.Per), p.Rate.Burst)
	}
	if p.KeyFormat != nil {
		e.Format = p.KeyFormat.String()
	}
	if p.QueryScope {
		e.Scope += ", with the signed path and query"
		if len(p.ScopeIgnores) > 0 {
			e.Scope += " less the parameters " + strings.Join(p.ScopeIgnores, ", ")
		}
	}
	if s, ok := p.Scheme.(interface{ AcceptSignature() string }); ok {
		e.Coverage = s.AcceptSignature()
	}
	if s, ok := p.Scheme.(fmt.Stringer); ok {
		e.Signature = s.String()
	}
	if a := p.Audience; a != nil {
		e.Audience = fmt.Sprintf("%s is %q", a.From, a.Is)
	}
	switch p.Nonce {
	case producer.NonceRequired:
		e.Nonce = "required"
	case producer.NonceUnique:
		e.Nonce = "required, and refused for another event"
	}
	e.Retire, e.Deprecate = timeText(p.Retire), timeText(p.Deprecated)
	if rx.cfg.Clock().Before(p.MonitorUntil) {
		e.Monitor = timeText(p.MonitorUntil)
	}
	if p.EarlyData {
		e.Early = "accepted with a signed, fresh time"
	}
	return e
}

// timeText is a time in RFC 3339, or empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func keyPolicy(p *producer.Producer) string {
	if p.Split != nil {
		return "each item of a batch has its own"
	}
	words := p.Key.String() + ", 1 to 1,024 characters"
	if strings.HasPrefix(p.Key.String(), "idempotency-key") {
		unquoted := "bare values are the same key"
		if strictKey(p.Key) {
			unquoted = "values without quotes are refused"
		}
		words += ", a structured-field String (RFC 9651); " + unquoted
	}
	if p.KeyFormat != nil {
		words += ", " + p.KeyFormat.String()
	}
	if !p.KeyRequired {
		words += "; without one, a digest of the body"
	}
	return words
}

func strictKey(key producer.Extractor) bool {
	k, ok := key.(producer.IdempotencyKey)
	return ok && k.Strict
}

// ServeHTTP serves the page, or its content with ?format=json or an Accept field that prefers
// JSON to HTML.
func (p *policy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp := &reply{Response: dedup.Response{Status: http.StatusOK, Body: p.html, Header: http.Header{
		"Content-Type": {"text/html; charset=utf-8"}, "Cache-Control": {"no-cache"}, "Vary": {"Accept"},
		"Content-Security-Policy": {"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"},
	}}}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		resp.Status, resp.Body = http.StatusMethodNotAllowed, []byte("GET or HEAD\n")
		resp.Header.Set("Allow", "GET, HEAD")
		resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
	case wantsJSON(r):
		resp.Body = p.json
		resp.Header.Set("Content-Type", jsonType)
	}
	resp.send(w)
}

func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := r.Header.Get("Accept")
	at, html := strings.Index(accept, jsonType), strings.Index(accept, "text/html")
	return at >= 0 && (html < 0 || at < html)
}
