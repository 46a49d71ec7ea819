package receiver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// testScheme reads the result of verification from the request: "Sig: good", or the code of a
// refusal. It covers the body and the fields in covered.
type testScheme struct {
	covered  []string
	bodyLast bool // never reads the body, as bearer tokens do
}

func (s testScheme) Verify(r *http.Request, body func() ([]byte, error)) (verify.Identity, error) {
	sig := r.Header.Get("Sig")
	if sig == "panic" {
		panic("secret-payload in a panic")
	}
	if sig != "good" {
		if sig == "" {
			sig = string(verify.SignatureMissing)
		}
		return verify.Identity{}, &verify.Error{Code: verify.Code(sig), KeyID: "k",
			Component: r.Header.Get("Component"), Err: errors.New("private-cause")}
	}
	id := verify.Identity{KeyID: "k1", Principal: r.Header.Get("Principal"), Nonce: r.Header.Get("Nonce")}
	if at, err := strconv.ParseInt(r.Header.Get("Signed-At"), 10, 64); err == nil {
		id.SignedAt = time.Unix(at, 0)
	}
	if s.bodyLast {
		return id, nil
	}
	b, err := body()
	if err != nil {
		return verify.Identity{}, err
	}
	sum := sha256.Sum256(b)
	id.Signed, id.Covered = sum[:], append([]string{"@body"}, s.covered...)
	return id, nil
}

func (testScheme) AcceptSignature() string { return `sig=("@method" "content-digest");created;keyid` }

// apiProducer follows the API contract, webhookProducer the webhook contract of a vendor that
// always sends its identifier.
func apiProducer() producer.Producer {
	return producer.Producer{
		Name: "shop", Scheme: testScheme{covered: []string{"idempotency-key", "@target-uri"}},
		Key:         producer.IdempotencyKey{},
		KeyRequired: true, Type: producer.Header("Type"), QueryScope: true, SignsURL: true,
	}
}

func webhookProducer() producer.Producer {
	return producer.Producer{
		Name: "shop", Scheme: testScheme{}, Key: producer.Header("Delivery-Id"), Type: producer.Header("Type"),
		KeyRequired: true, Contract: producer.Webhook, StaleKnown: true,
	}
}

// contracts runs a test under both contracts.
func contracts(t *testing.T, f func(t *testing.T, p producer.Producer)) {
	t.Helper()
	for name, p := range map[string]producer.Producer{"api": apiProducer(), "webhook": webhookProducer()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

// bubbled has the tests that run in a bubble of testing/synctest, where time passes at once when
// all goroutines wait.
var bubbled sync.Map

// bubble runs a test in a bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bubbled.Store(t, true)
		defer bubbled.Delete(t)
		f(t)
	})
}

// inBubbles runs a test under both contracts, in bubbles.
func inBubbles(t *testing.T, f func(t *testing.T, p producer.Producer)) {
	t.Helper()
	contracts(t, func(t *testing.T, p producer.Producer) {
		bubble(t, func(t *testing.T) { f(t, p) })
	})
}

// direct is a client that calls the handler of a site: a bubble cannot wait for a network.
type direct struct{ s *site }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	h := d.s.router
	if h == nil {
		h = d.s.rx.Handler()
	}
	server := &http.Server{Handler: h} //nolint:gosec // is not started
	in := r.Clone(context.WithValue(r.Context(), http.ServerContextKey, server))
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1234"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	return w.Result(), nil
}

// site is a receiver over HTTP, or in a bubble.
type site struct {
	t      *testing.T
	rx     *Receiver
	srv    *httptest.Server // nil in a bubble
	router http.Handler     // in a bubble, if not the receiver's own
	store  *memstore.Store
	log    *syncBuffer
	seen   *observations
	p      producer.Producer
}

type observations struct {
	mu  sync.Mutex
	all []Observation
}

func (o *observations) add(_ context.Context, ob Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, ob)
}

func (o *observations) codes(kind Kind) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var codes []string
	for _, ob := range o.all {
		if ob.Kind == kind {
			codes = append(codes, string(ob.Code))
		}
	}
	return codes
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// serve opens a receiver with one producer; change may adjust its configuration.
func serve(t *testing.T, p producer.Producer, change func(*Config), handlers ...Handler) *site {
	t.Helper()
	s := &site{t: t, store: memstore.New(memstore.Options{}), log: &syncBuffer{}, seen: &observations{}, p: p}
	c := Config{
		Store: s.store, Producers: []producer.Producer{p}, Handlers: handlers, URL: "https://hooks.example",
		Logger:  slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Observe: s.seen.add, InFlightWait: time.Minute, Workers: 2,
	}
	if change != nil {
		change(&c)
	}
	rx, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	s.rx = rx
	if _, ok := bubbled.Load(t); !ok {
		s.srv = httptest.NewServer(rx.Handler())
	}
	t.Cleanup(func() {
		if s.srv != nil {
			s.srv.Close()
		}
		if err := rx.Close(); err != nil {
			t.Error("close:", err)
		}
		if err := errors.Join(c.Store.Close(), s.store.Close()); err != nil && !errors.Is(err, dedup.ErrClosed) {
			t.Error("store:", err)
		}
	})
	return s
}

// req is a delivery for a site. Zero fields have defaults.
type req struct {
	method, path, id, typ, body string
	header                      http.Header
	host                        string
	chunked                     bool
}

func (s *site) request(a req) *http.Request {
	s.t.Helper()
	if a.method == "" {
		a.method = http.MethodPost
	}
	if a.path == "" {
		a.path = "/webhooks/" + s.p.Name
	}
	var body io.Reader = strings.NewReader(a.body)
	if a.chunked {
		body = struct{ io.Reader }{body}
	}
	base := "http://hooks.example"
	if s.srv != nil {
		base = s.srv.URL
	}
	r, err := http.NewRequestWithContext(s.t.Context(), a.method, base+a.path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.host != "" {
		r.Host = a.host
	}
	r.Header.Set("Sig", "good")
	r.Header.Set("Signed-At", strconv.FormatInt(time.Now().Unix(), 10))
	r.Header.Set("Content-Type", "application/json")
	if a.typ != "" {
		r.Header.Set("Type", a.typ)
	}
	if a.id != "" {
		r.Header.Set("Idempotency-Key", a.id)
		r.Header.Set("Delivery-Id", a.id)
	}
	for name, values := range a.header {
		if values == nil {
			r.Header.Del(name)
			continue
		}
		r.Header[name] = values
	}
	return r
}

// got is the response.
type got struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (g got) replayed() bool { return g.header.Get("Idempotency-Replayed") == "true" }

var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s *site) send(a req) got {
	s.t.Helper()
	g, err := s.try(a)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

func (s *site) try(a req) (got, error) {
	if s.srv == nil {
		return s.tryWith(&http.Client{Transport: direct{s}}, a)
	}
	return s.tryWith(client, a)
}

func (s *site) tryWith(c *http.Client, a req) (got, error) { return exchange(c, s.request(a)) }

// sendRequest sends a request that is signed for the public host of the receiver.
func (s *site) sendRequest(r *http.Request) got {
	s.t.Helper()
	r.URL.Scheme, r.URL.Host = "http", s.srv.Listener.Addr().String()
	g, err := exchange(client, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// exchange makes a request and reads the whole response.
func exchange(c *http.Client, r *http.Request) (got, error) {
	resp, err := c.Do(r)
	if err != nil {
		return got{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return got{}, err
	}
	return got{resp.StatusCode, resp.Header, string(body), resp.Close}, nil
}

// records lists the records of the store, newest first.
func (s *site) records() []dedup.Record {
	s.t.Helper()
	var out []dedup.Record
	for rec, err := range s.store.List(s.t.Context(), dedup.Filter{Body: true}) {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

// wantProblem checks what all problems have in common.
func wantProblem[C ~string](t *testing.T, g got, status int, code C) {
	t.Helper()
	var p struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	if g.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(g.body), &p) != nil {
		t.Fatalf("not a problem: %d %v %q", g.status, g.header, g.body)
	}
	if g.status != status || p.Code != string(code) || p.Status != g.status {
		t.Fatalf("got %d %q (status in the body %d), want %d %q", g.status, p.Code, p.Status, status, code)
	}
	want := "https://hooks.example/policy#" + string(code)
	if registered := problemFor(verify.Code(code)).Type; registered != "" {
		want = registered
	}
	if p.Type != want || p.Title == "" || p.Detail == "" {
		t.Errorf("type %q, title %q, detail %q", p.Type, p.Title, p.Detail)
	}
	if link := g.header.Get("Link"); link != `<https://hooks.example/policy>; rel="describedby"` {
		t.Errorf("link %q", link)
	}
	if g.header.Get("Cache-Control") != "no-store" {
		t.Errorf("cache control %q", g.header.Get("Cache-Control"))
	}
	if g.replayed() {
		t.Error("an unstored problem is marked as replayed")
	}
	if strings.Contains(g.body, "private-cause") {
		t.Error("the private cause is in the response")
	}
	after := g.header.Get("Retry-After")
	if n, err := strconv.Atoi(after); (status == 503 || status == 409 || status == 429) && (err != nil || n < 1) {
		t.Errorf("retry-after %q", after)
	}
}

// counter counts the runs of a handler.
type counter struct {
	mu sync.Mutex
	n  int
	ch chan struct{}
}

func newCounter() *counter { return &counter{ch: make(chan struct{}, 1000)} }

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.ch <- struct{}{}
	return c.n
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// await waits for one more run of the handler.
func (c *counter) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.ch:
	case <-time.After(2 * time.Minute):
		t.Fatal("the handler did not run")
	}
}

const testSecret = "0123456789abcdef0123"

func gitHubRequest(secret, body string) *http.Request {
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/webhooks/github"}, RequestURI: "/webhooks/github",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "hooks.example.com", RemoteAddr: "192.0.2.1:40000",
		Header: http.Header{
			"User-Agent": {"GitHub-Hookshot/f2a3b4c"}, "Accept": {"*/*"}, "Content-Type": {"application/json"},
			"X-Github-Event": {"push"}, "X-Github-Delivery": {"72d3162e-cc78-11e3-81ab-4c9367dc0958"},
			"X-Hub-Signature-256": {sign(secret, body)},
		},
	}
}
