package explain_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	public = "https://hooks.example"
	doc    = `{"id":"evt_1","type":"invoice.paid","note":"caf\u00e9 / <b>","amount":12.50,"data":{"z":2,"a":[1,{}]}}`
)

var signedAt = time.Unix(1795319382, 0)

// signer signs a request as a sender does.
type signer interface {
	Sign(r *http.Request, body []byte, now time.Time) error
}

// plant is a delivery with a mistake, or two.
type plant struct {
	name   string
	scheme string          // of the endpoint, for the table
	want   []explain.Cause // the planted mistakes
	// certain means that the causes must be proved, if the body was read.
	certain bool
	config  []producer.Producer // the first has the endpoint
	// The sender: its scheme (by default that of the endpoint), the URL and body that it signs, and
	// the body that arrives. Fields are set before signing.
	by           any
	url          string
	signed, sent string
	fields       map[string]string
	after        func(*http.Request)             // what happens on the way
	front        func(http.Handler) http.Handler // middleware before the receiver
	late         time.Duration                   // between signing and arrival
	secrets      []verify.Offer
}

func (p *plant) endpoint() producer.Producer { return p.config[0] }

// request returns the signed request, and its body as it arrives.
func (p *plant) request(t *testing.T) (*http.Request, []byte) {
	t.Helper()
	signed := p.signed
	if signed == "" {
		signed = doc
	}
	at := p.url
	if at == "" {
		at = public + "/webhooks/" + p.endpoint().Name
	}
	r, err := http.NewRequest(http.MethodPost, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range p.fields {
		r.Header.Set(name, value)
	}
	body := []byte(signed)
	switch by := p.by.(type) {
	case nil:
		err = p.endpoint().Scheme.(signer).Sign(r, body, signedAt)
	case signer:
		err = by.Sign(r, body, signedAt)
	case func(*http.Request, []byte) []byte:
		body = by(r, body)
	}
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	if p.sent != "" {
		body = []byte(p.sent)
	}
	if p.after != nil {
		p.after(r)
	}
	return r, body
}

// refuse sends the request to a receiver and returns what it refused.
func (p *plant) refuse(t *testing.T) receiver.Refused {
	t.Helper()
	r, body := p.request(t)
	kept := make(chan receiver.Refused, 1)
	store := memstore.New(memstore.Options{})
	rx, err := receiver.Open(receiver.Config{
		Store: store, Producers: p.config, URL: public, Logger: slog.New(slog.DiscardHandler),
		Clock:   func() time.Time { return signedAt.Add(p.late) },
		Refused: func(_ context.Context, f receiver.Refused) { kept <- f },
	})
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	defer store.Close()
	defer rx.Close()
	h := rx.Handler()
	if p.front != nil {
		h = p.front(h)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	status := deliver(t, server.URL, p.endpoint().Name, r, body)
	select {
	case f := <-kept:
		return f
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: status %d, and nothing was refused", p.name, status)
	}
	return receiver.Refused{}
}

// deliver sends a request to the server, at the path of the endpoint.
func deliver(t *testing.T, base, endpoint string, r *http.Request, body []byte) int {
	t.Helper()
	out, err := http.NewRequest(r.Method, base+"/webhooks/"+endpoint, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out.URL.RawQuery = r.URL.RawQuery
	out.Header, out.Host = r.Header.Clone(), "hooks.example"
	if r.Host != r.URL.Host && r.Host != "" {
		out.Host = r.Host
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(out)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// delivery is what explain gets of a refused request.
func delivery(f *receiver.Refused, now time.Time) explain.Delivery {
	return explain.Delivery{
		Endpoint: f.Endpoint, Request: f.Request, Body: f.Body, Unread: f.BodyRead == receiver.BodyUnread,
		Declared: f.Declared, Code: f.Code, Now: now,
	}
}

// score counts what the plants found.
type score struct {
	all, named, first, pairs int
	schemes                  map[string]bool
	trials                   []int
}

func (s *score) add(t *testing.T, name, scheme string, want []explain.Cause, report explain.Report) {
	t.Helper()
	var got, shown []string
	for _, f := range report.Findings {
		mark := "?"
		if f.Proved {
			mark = "!"
		}
		got = append(got, string(f.Cause))
		shown = append(shown, string(f.Cause)+mark+" "+f.Detail)
	}
	named, first := true, len(got) > 0 && slices.Contains(want, explain.Cause(got[0]))
	for _, c := range want {
		named = named && slices.Contains(got, string(c))
	}
	s.all++
	s.schemes[scheme] = true
	s.trials = append(s.trials, report.Trials)
	if len(want) > 1 {
		s.pairs++
	}
	mark := "MISS "
	if named {
		s.named++
		mark = "late "
	}
	if named && first {
		s.first++
		mark = "first"
	}
	t.Logf("%s %-16s %-50s %-24s %4d trials  %s", mark, scheme, name, report.Code, report.Trials,
		strings.Join(shown, "; "))
	if !named {
		t.Errorf("%s: found %q, planted %s", name, shown, planted(want))
	}
}

func (s *score) check(t *testing.T) {
	t.Helper()
	slices.Sort(s.trials)
	t.Logf("%d planted over %d schemes, %d pairs: %d named, %d first; trials: median %d, 95 of 100 below %d, most %d",
		s.all, len(s.schemes), s.pairs, s.named, s.first, s.trials[s.all/2], s.trials[s.all*95/100], s.trials[s.all-1])
	if s.first*100 < s.all*95 {
		t.Errorf("%d of %d are named first, want 95 of 100", s.first, s.all)
	}
}

// TestPlanted has all plants in one configuration with ten producers.
func TestPlanted(t *testing.T) {
	s, beside := &score{schemes: map[string]bool{}}, besides(t)
	plants := slices.Concat(hmacPlants(t), secretPlants(t), urlPlants(t), bodyPlants(t), rfcPlants(t),
		credentialPlants(t), tokenPlants(t), vendorPlants(t), timePlants(t), variantPlants(t), pairPlants(t),
		recomputedPlants(t), nearPlants(t))
	for i := range plants {
		p := &plants[i]
		f := p.refuse(t)
		config := slices.Concat(beside[:5], p.config, beside[5:])
		e := explain.New(config)
		d := delivery(&f, signedAt.Add(p.late))
		d.Secrets = p.secrets
		var report explain.Report
		synctest.Test(t, func(t *testing.T) { report = e.Explain(t.Context(), d) }) // without a limit of time
		s.add(t, p.name, p.scheme, p.want, report)
		checkMinimal(t, p, report, p.certain && f.BodyRead != receiver.BodyUnread)
		checkReport(t, config, report)
	}
	s.check(t)
	if s.all < 80 || len(s.schemes) < 12 || s.pairs < 15 {
		t.Errorf("%d plants, %d schemes, %d pairs; want 80, 12, 15", s.all, len(s.schemes), s.pairs)
	}
}

// checkMinimal checks that a proof has as many changes as were planted, and that there is one if
// it is certain.
func checkMinimal(t *testing.T, p *plant, report explain.Report, certain bool) {
	t.Helper()
	proved := 0
	for _, f := range report.Findings {
		if f.Proved {
			proved++
		}
	}
	if proved > len(p.want) || certain && proved < len(p.want) {
		t.Errorf("%s %s: %d changes for %d mistakes: %+v", p.scheme, p.name, proved, len(p.want), report.Findings)
	}
}

func at(path string) string { return public + path }

// moved returns a change of the way: the field under another name.
func moved(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		lines := r.Header[http.CanonicalHeaderKey(from)]
		r.Header.Del(from)
		r.Header[to] = lines
	}
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func changed(name string, f func(string) string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, f(r.Header.Get(name))) }
}

func called(target string) func(*http.Request) {
	return func(r *http.Request) {
		u, err := url.Parse(target)
		if err != nil {
			panic(err)
		}
		r.URL = u
	}
}

func planted(want []explain.Cause) string {
	var names []string
	for _, c := range want {
		names = append(names, string(c))
	}
	return strings.Join(names, " and ")
}
