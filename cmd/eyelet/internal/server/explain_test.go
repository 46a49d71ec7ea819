package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestAnExplanationShowsNothingThatIsRedacted explains two deliveries whose bodies got a newline.
// One has a member that is redacted.
func TestAnExplanationShowsNothingThatIsRedacted(t *testing.T) {
	t.Parallel()
	scheme := &verify.HMAC{
		Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets("0123456789abcdef"),
	}
	shop := []producer.Producer{{Name: "shop", Scheme: scheme}}
	o := refused.Options{For: time.Hour}
	check(t, o.Rules.Add("json:card"))
	ring, err := refused.New(o)
	check(t, err)
	c := receiver.Config{Producers: shop, Store: memstore.New(memstore.Options{})}
	g := &generation{explain: explain.New(shop), times: newSignedTimes(c.Store, ring, &c)}
	for number, body := range []string{`{"note":"4111"}`, `{"card":"4111"}`} {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/shop", http.NoBody)
		check(t, scheme.Sign(r, []byte(body), time.Now()))
		ring.Add(t.Context(), receiver.Refused{
			Time: time.Now(), Endpoint: "shop", Request: r, Body: []byte(body + "\n"),
			BodyRead: receiver.BodyWhole, Declared: int64(len(body) + 1), Code: verify.SignatureMismatch,
		})
		report, ok := g.explainRefused(t.Context(), uint64(number+1), "")
		if !ok || len(report.Findings) != 1 || report.Findings[0].Cause != "body_newline" ||
			strings.Contains(report.Findings[0].Came, "4111") != (number == 0) {
			t.Errorf("%s: %v, %+v", body, ok, report)
		}
	}
	if _, ok := g.explainRefused(t.Context(), 3, ""); ok {
		t.Error("a delivery that is not kept is explained")
	}
}

// TestBasesShowNothingThatIsRedacted explains two deliveries with other bases. A covered field of
// one is redacted.
func TestBasesShowNothingThatIsRedacted(t *testing.T) {
	t.Parallel()
	key, err := verify.NewHMACKey("k1", []byte("0123456789abcdef"))
	check(t, err)
	shop := []producer.Producer{producer.Signed("shop", verify.StaticKeys(key))}
	o := refused.Options{For: time.Hour}
	check(t, o.Rules.Add("header:X-Card"))
	ring, err := refused.New(o)
	check(t, err)
	c := receiver.Config{Producers: shop, Store: memstore.New(memstore.Options{})}
	g := &generation{explain: explain.New(shop), times: newSignedTimes(c.Store, ring, &c)}
	for number, field := range []string{"X-Note", "X-Card"} {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/shop", http.NoBody)
		r.Header.Set(field, "4111")
		by := verify.Signer{KeyID: "k1", Secret: []byte("0123456789abcdef"),
			Components: []string{"@method", "@target-uri", "content-digest", strings.ToLower(field)}}
		check(t, by.Sign(r, []byte("{}"), time.Now()))
		r.URL.Scheme = "http"
		ring.Add(t.Context(), receiver.Refused{Time: time.Now(), Endpoint: "shop", Request: r, Body: []byte("{}"),
			BodyRead: receiver.BodyWhole, Declared: 2, Code: verify.SignatureMismatch})
		report, _ := g.explainRefused(t.Context(), uint64(number+1), "")
		if len(report.Findings) != 1 || report.Findings[0].Cause != "url_scheme" ||
			(report.Bases != nil) != (number == 0) {
			t.Errorf("%s: %+v", field, report)
		}
	}
}

// TestTheFirstRefusalIsExplained refuses deliveries whose body got a newline. The first of a minute
// is explained.
func TestTheFirstRefusalIsExplained(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	scheme := &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret)}
	log := &servertest.Buffer{}
	e := newExplainer(receiver.Config{
		Producers: []producer.Producer{{Name: "shop", Scheme: scheme}}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}, func(context.Context, *receiver.Refused) []time.Duration { return nil })
	u, _ := url.Parse("https://hooks.example/webhooks/shop")
	r := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}, Body: http.NoBody}
	now := time.Now()
	check(t, scheme.Sign(r, []byte(`{"a":1}`), now))
	one := receiver.Refused{Time: now, Endpoint: "shop", Request: r, Body: []byte("{\"a\":1}\n"),
		BodyRead: receiver.BodyWhole, Declared: 8, Code: verify.SignatureMismatch}
	for i := range 5 {
		one.Time = now.Add(time.Duration(i) * 10 * time.Second)
		e.add(one)
	}
	later := one
	later.Time = now.Add(time.Minute)
	e.add(later)
	const line = `msg="refused delivery explained" endpoint=shop code=signature_mismatch cause=body_newline proved=true`
	for end := time.Now().Add(20 * time.Second); strings.Count(log.String(), line) < 2; {
		if time.Now().After(end) {
			t.Fatal(log.String())
		}
		time.Sleep(time.Millisecond)
	}
	e.close()
	if n := strings.Count(log.String(), line); n != 2 || strings.Contains(log.String(), secret) {
		t.Errorf("%d lines: %s", n, log)
	}
}

// TestExplanationsAreSharedByNetworks refuses many clients of an endpoint, and then two others.
func TestExplanationsAreSharedByNetworks(t *testing.T) {
	t.Parallel()
	e := &explainer{work: make(chan receiver.Refused, explainQueue), minutes: map[refusal]explained{}}
	now, taken := time.Now(), []string(nil)
	add := func(peer string, known bool) {
		e.add(receiver.Refused{
			Time: now, Endpoint: "shop", Code: verify.SignatureMismatch, Peer: netip.MustParseAddr(peer), Known: known,
		})
		for len(e.work) > 0 {
			taken = append(taken, (<-e.work).Peer.String())
		}
	}
	for i := range 100 {
		add(fmt.Sprintf("198.51.100.%d", i), false)
		add(fmt.Sprintf("2001:db8:1:%x::1", i), false)
	}
	add("203.0.113.9", false)
	for i := range 100 {
		add(fmt.Sprintf("198.51.%d.1", i), false)
	}
	add("192.0.2.1", true)
	add("192.0.2.2", true)
	now = now.Add(explainEvery)
	add("192.0.2.3", true)
	want := []string{"198.51.100.0", "2001:db8:1::1", "203.0.113.9", "198.51.0.1", "192.0.2.1", "192.0.2.3"}
	if !slices.Equal(taken, want) {
		t.Errorf("explained %v, want %v", taken, want)
	}
	for range explainQueue { // the worker is busy
		now = now.Add(explainEvery)
		e.add(receiver.Refused{Time: now, Endpoint: "shop"})
	}
	e.add(receiver.Refused{Time: now, Endpoint: "shop", Known: true})
	if len(e.work) != explainQueue/2+1 {
		t.Errorf("%d of %d wait, want room for known peers", len(e.work), explainQueue)
	}
}
