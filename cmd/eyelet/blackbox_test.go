package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests in this file drive `eyelet serve` from outside. Their signer and client use the
// standard library only, so that an error in package verify cannot hide behind its own
// counterpart.

// shopper signs deliveries by RFC 9421 with its own code.
type shopper struct {
	t       *testing.T
	base    string
	private ed25519.PrivateKey
	secret  []byte
	dir     string
	mu      sync.Mutex
	n       int
}

// serveForShop starts the binary in this process with the producers shop (two keys) and gh.
func serveForShop(t *testing.T, handlers string) *shopper {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	check(t, err)
	s := &shopper{t: t, private: private, secret: []byte(rand.Text()), dir: t.TempDir()}
	files := map[string]string{
		"shop.pub.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"eyelet.yaml": "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nurl: https://hooks.example\n" +
			"log: {level: error}\n" +
			"limits: {in_flight_wait: 50ms, body_timeout: 5s, max_body: 64KiB}\nproducers:\n" +
			"  shop:\n    scheme: rfc9421\n    label: sig1\n    keys:\n" +
			"      - {id: k1, alg: ed25519, public_key_file: shop.pub.pem}\n      - {id: k2, alg: hmac-sha256, " +
			"secret: \"" + string(s.secret) + "\"}\n" +
			"  gh: {preset: github, secrets: [\"" + string(s.secret) + "\"]}\nhandlers:\n" + handlers,
	}
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	s.base, _ = s.start()
	return s
}

// start runs serve until the test ends.
func (s *shopper) start() (deliveries, operations string) {
	s.t.Helper()
	type pair struct{ deliveries, operations string }
	up := make(chan pair, 1)
	var errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Serving: func(l, o string) {
		up <- pair{"http://" + l, "http://" + o}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- p.Run(ctx, "serve", "--config", filepath.Join(s.dir, "eyelet.yaml")) }()
	select {
	case at := <-up:
		s.t.Cleanup(func() {
			cancel()
			if code := <-ended; code != 0 {
				s.t.Errorf("serve ended with %d: %s", code, errs.String())
			}
		})
		return at.deliveries, at.operations
	case code := <-ended:
		cancel()
		s.t.Fatalf("serve ended with %d: %s", code, errs.String())
		return "", ""
	}
}

// delivery is what the shopper sends; zero fields are those of a valid delivery.
type blackDelivery struct {
	method, path, body, key string
	keyLines                []string // instead of key
	keyID                   string
	created, expires        int64
	leaveOut                string // a component that is not covered
	unsigned                bool
	tamper                  func(*http.Request)
	chunked                 bool
	header                  http.Header
}

func (s *shopper) request(d blackDelivery) *http.Request {
	s.t.Helper()
	if d.method == "" {
		d.method = http.MethodPost
	}
	if d.path == "" {
		d.path = "/webhooks/shop"
	}
	var body io.Reader = strings.NewReader(d.body)
	if d.chunked {
		body = io.MultiReader(body) // net/http does not know the length
	}
	r, err := http.NewRequest(d.method, s.base+d.path, body)
	check(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	for name, values := range d.header {
		r.Header[name] = values
	}
	switch {
	case d.keyLines != nil:
		r.Header["Idempotency-Key"] = d.keyLines
	case d.key != "":
		r.Header.Set("Idempotency-Key", d.key)
	}
	if !d.unsigned {
		s.sign(r, d)
	}
	if d.tamper != nil {
		d.tamper(r)
	}
	return r
}

func (s *shopper) sign(r *http.Request, d blackDelivery) {
	sum := sha256.Sum256([]byte(d.body))
	r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	values := [][2]string{{"@method", r.Method}, {"@target-uri", "https://hooks.example" + d.path}}
	for _, name := range []string{"Content-Digest", "Content-Type", "Idempotency-Key"} {
		if lines := r.Header[name]; lines != nil {
			values = append(values, [2]string{strings.ToLower(name), strings.Join(lines, ", ")})
		}
	}
	var names []string
	var base strings.Builder
	for _, v := range values {
		if v[0] != d.leaveOut {
			names = append(names, `"`+v[0]+`"`)
			fmt.Fprintf(&base, "\"%s\": %s\n", v[0], v[1])
		}
	}
	if d.created == 0 {
		d.created = time.Now().Unix()
	}
	if d.keyID == "" {
		d.keyID = "k1"
	}
	params := fmt.Sprintf("(%s);created=%d;keyid=%q", strings.Join(names, " "), d.created, d.keyID)
	if d.expires != 0 {
		params += fmt.Sprintf(";expires=%d", d.expires)
	}
	base.WriteString(`"@signature-params": ` + params)
	signature := ed25519.Sign(s.private, []byte(base.String()))
	if d.keyID == "k2" {
		mac := hmac.New(sha256.New, s.secret)
		mac.Write([]byte(base.String()))
		signature = mac.Sum(nil)
	}
	r.Header.Set("Signature-Input", "sig1="+params)
	r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(signature)+":")
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *shopper) do(r *http.Request) answer {
	s.t.Helper()
	client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	res, err := client.Do(r)
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return answer{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Error(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

func (s *shopper) send(d blackDelivery) answer { s.t.Helper(); return s.do(s.request(d)) }

// fresh returns an order that was not sent before.
func (s *shopper) fresh() blackDelivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return blackDelivery{path: "/webhooks/shop", body: fmt.Sprintf(`{"type":"order.paid","n":%d}`, s.n),
		key: fmt.Sprintf(`"order-%d"`, s.n)}
}

// events returns what `eyelet events list` prints, by identifier.
func (s *shopper) events() map[string]map[string]any {
	s.t.Helper()
	var out, errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	if code := p.Run(context.Background(), "events", "list", "--all", "-o", "json", "--config",
		filepath.Join(s.dir, "eyelet.yaml")); code != 0 {
		s.t.Fatalf("events list ends with %d: %s", code, errs.String())
	}
	all := map[string]map[string]any{}
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		check(s.t, json.Unmarshal([]byte(line), &e))
		id := fmt.Sprint(e["id"])
		if vendor := e["vendor_id"]; vendor != nil {
			id = fmt.Sprint(vendor)
		}
		if _, twice := all[id]; twice && e["aside"] == nil {
			s.t.Errorf("%q is in the store twice", id)
		}
		all[id] = e
	}
	return all
}

func TestADeliveryIsAcceptedOnceAndItsAnswerRepeated(t *testing.T) {
	t.Parallel()
	s := serveForShop(t, "  - {producer: shop, type: \"*\", stdout: true}\n")
	d := s.fresh()
	first := s.send(d)
	if first.status != 202 || first.header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("first answer: %+v", first)
	}
	same := s.request(d)
	bare, later, other := d, d, d
	bare.key, later.created, other.keyID = strings.Trim(d.key, `"`), time.Now().Unix()-30, "k2"
	for name, r := range map[string]*http.Request{
		"the same bytes": same, "signed afresh": s.request(later), "the other key": s.request(other),
		"a bare key": s.request(bare),
	} {
		again := s.do(r)
		if again.status != 202 || again.body != first.body || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: answer %+v, first %+v", name, again, first)
		}
	}
	conflict := d
	conflict.body = `{"type":"order.paid","n":"other"}`
	if got := s.send(conflict); got.status != 422 {
		t.Errorf("another payload: %+v", got)
	}
	if got := s.send(d); got.status != 202 || got.body != first.body {
		t.Errorf("after another payload: %+v", got)
	}
	if all := s.events(); len(all) != 1 || all["order-1"]["event"] == nil {
		t.Errorf("the store holds %v", all)
	}
}

func TestInvalidDeliveriesAreRefusedAndNotKept(t *testing.T) {
	t.Parallel()
	s := serveForShop(t, "  - {producer: shop, type: \"*\", stdout: true}\n")
	now := time.Now().Unix()
	change := func(f func(*blackDelivery)) *http.Request {
		d := s.fresh()
		f(&d)
		return s.request(d)
	}
	tests := map[string]struct {
		r      *http.Request
		status int
	}{
		"no key":        {change(func(d *blackDelivery) { d.key = "" }), 400},
		"two key lines": {change(func(d *blackDelivery) { d.keyLines = []string{`"a"`, `"b"`} }), 400},
		"empty key":     {change(func(d *blackDelivery) { d.key = `""` }), 400},
		"tampered": {change(func(d *blackDelivery) {
			d.tamper = func(r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader(strings.Replace(d.body, "paid", "paId", 1)))
			}
		}), 401},
		"another key": {change(func(d *blackDelivery) {
			d.tamper = func(r *http.Request) { r.Header.Set("Idempotency-Key", `"swapped"`) }
		}), 401},
		"another endpoint": {change(func(d *blackDelivery) {
			d.tamper = func(r *http.Request) { r.URL.RawQuery = "x=1" }
		}), 401},
		"stale":            {change(func(d *blackDelivery) { d.created = now - 400 }), 401},
		"from the future":  {change(func(d *blackDelivery) { d.created = now + 200 }), 401},
		"expired":          {change(func(d *blackDelivery) { d.created, d.expires = now-60, now-10 }), 401},
		"unknown key":      {change(func(d *blackDelivery) { d.keyID = "k3" }), 401},
		"uncovered key":    {change(func(d *blackDelivery) { d.leaveOut = "idempotency-key" }), 401},
		"uncovered digest": {change(func(d *blackDelivery) { d.leaveOut = "content-digest" }), 401},
		"uncovered target": {change(func(d *blackDelivery) { d.leaveOut = "@target-uri" }), 401},
		"unsigned":         {change(func(d *blackDelivery) { d.unsigned = true }), 401},
		"declared length":  {change(func(d *blackDelivery) { d.body = strings.Repeat("x", 70<<10) }), 413},
		"chunked length": {change(func(d *blackDelivery) {
			d.body, d.chunked = strings.Repeat("x", 70<<10), true
		}), 413},
		"GET":            {change(func(d *blackDelivery) { d.method = http.MethodGet }), 405},
		"PUT":            {change(func(d *blackDelivery) { d.method = http.MethodPut }), 405},
		"early data":     {change(func(d *blackDelivery) { d.header = http.Header{"Early-Data": {"1"}} }), 425},
		"no endpoint":    {change(func(d *blackDelivery) { d.path = "/webhooks/nobody" }), 404},
		"another syntax": {change(func(d *blackDelivery) { d.path = "/webhooks/shop/" }), 404},
		"double slash":   {change(func(d *blackDelivery) { d.path = "//webhooks/shop" }), 404},
		"root":           {change(func(d *blackDelivery) { d.path = "/" }), 404},
		"many components": {change(func(d *blackDelivery) {
			d.tamper = func(r *http.Request) {
				r.Header.Set("Signature-Input", "sig1=("+strings.Repeat(`"x" `, 1500)+`);created=1;keyid="k1"`)
			}
		}), 400},
		"malformed signature": {change(func(d *blackDelivery) {
			d.tamper = func(r *http.Request) { r.Header.Set("Signature", "sig1=nonsense") }
		}), 400},
	}
	for name, tt := range tests {
		got := s.do(tt.r)
		if got.status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, tt.status, got.body)
		}
		if got.status == 401 && (got.header.Get("WWW-Authenticate") == "" || got.header.Get("Accept-Signature") == "") {
			t.Errorf("%s: 401 without its fields: %v", name, got.header)
		}
		if got.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: 405 without Allow", name)
		}
		if kind := got.header.Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%s: the answer is %s", name, kind)
		}
	}
	if all := s.events(); len(all) != 0 {
		t.Errorf("the store holds %v", all)
	}
}
