package receiver

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

const ceToken = "cloud-token-0123456789"

// serveCloudEvents serves the preset, with subscriptions from one origin.
func serveCloudEvents(t *testing.T) (*site, chan Event[any]) {
	t.Helper()
	events := make(chan Event[any], 10)
	p := preset.Open("cloudevents", preset.Settings{Secrets: []string{ceToken}, Origins: []string{"sender.example"},
		Rate: producer.Rate{Events: 100, Per: time.Minute}, Batch: true})
	return serve(t, p, nil, On("cloudevents", "*", func(_ context.Context, ev Event[any]) error {
		events <- ev
		return nil
	})), events
}

// cloudEvent is a delivery in binary mode; pairs set fields or, with "", remove them.
func cloudEvent(id string, pairs ...string) req {
	h := http.Header{
		"Authorization": {"Bearer " + ceToken}, "Ce-Specversion": {"1.0"}, "Ce-Id": {id}, "Ce-Source": {"/s"},
		"Ce-Type": {"t"},
	}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = []string{pairs[i+1]}
		if pairs[i+1] == "" {
			h[pairs[i]] = nil
		}
	}
	return req{body: `{"n":1}`, header: h}
}

func TestTokensInTheFieldOrTheQuery(t *testing.T) {
	t.Parallel()
	s, events := serveCloudEvents(t)
	inQuery := cloudEvent("1", "Authorization", "")
	inQuery.path = "/webhooks/cloudevents?access_token=" + ceToken
	for _, a := range []req{inQuery, inQuery, cloudEvent("2")} {
		if g := s.send(a); g.status != 200 || g.header.Get("Cache-Control") != "private" {
			t.Errorf("%+v", g)
		}
	}
	<-events
	<-events
	wrongQuery := inQuery
	wrongQuery.path += "x"
	bare := cloudEvent("1", "Authorization", "")
	for _, a := range []req{wrongQuery, bare, cloudEvent("1", "Authorization", "Bearer wrong")} {
		if g := s.send(a); g.status != 401 || !strings.HasPrefix(g.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%+v", g)
		}
	}
}

func TestSubscriptionsOfCloudEventsAreGrantedOrRefused(t *testing.T) {
	t.Parallel()
	s, _ := serveCloudEvents(t)
	var called atomic.Bool
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Store(true) }))
	defer callback.Close()
	request := func(origin string) got {
		return s.send(req{method: "OPTIONS", header: http.Header{
			"Webhook-Request-Origin": {origin}, "Webhook-Request-Rate": {"120"},
			"Webhook-Request-Callback": {callback.URL + "/grant"},
		}})
	}
	g := request("sender.example")
	if g.status != 200 || g.header.Get("WebHook-Allowed-Origin") != "sender.example" ||
		g.header.Get("WebHook-Allowed-Rate") != "100" ||
		!strings.Contains(g.header.Get("Allow"), "POST") {
		t.Errorf("%+v", g)
	}
	for _, origin := range []string{"evil.example", ""} {
		g := request(origin)
		if wantProblem(t, g, 405, "challenge_unexpected"); g.header.Get("WebHook-Allowed-Origin") != "" ||
			g.header.Get("WebHook-Allowed-Rate") != "" ||
			g.header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("%+v", g.header)
		}
	}
	if g := s.send(req{method: "GET"}); g.status != 405 {
		t.Errorf("%+v", g)
	}
	if called.Load() {
		t.Error("the callback address was called")
	}
	off := serve(t, preset.Open("cloudevents", preset.Settings{Secrets: []string{ceToken}}), nil)
	g = off.send(req{method: "OPTIONS", header: http.Header{"Webhook-Request-Origin": {"sender.example"}}})
	if wantProblem(t, g, 405, "method_not_allowed"); g.header.Get("WebHook-Allowed-Origin") != "" {
		t.Errorf("granted without configuration: %+v", g)
	}
}

// TestInteractionsOfDiscordAreDeferred, each as Discord reads it, and events get no body. A
// duplicate gets the same.
func TestInteractionsOfDiscordAreDeferred(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, preset.With("discord", hex.EncodeToString(public)), nil)
	for body, want := range map[string]string{
		`{"id":"1","type":1}`: `200 {"type":1}`,
		`{"id":"2","type":2}`: `200 {"type":5}`,
		`{"id":"3","type":3}`: `200 {"type":6}`,
		`{"id":"4","type":4}`: `200 {"type":8,"data":{"choices":[]}}`,
		`{"id":"5","type":5}`: `200 {"type":5}`,
		`{"type":0}`:          "204 ",
		`{"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}`: "204 ",
		`{"type":1,"event":{"type":"2.5"}}`:                "204 ",
	} {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		a := req{body: body, header: http.Header{"X-Signature-Timestamp": {at},
			"X-Signature-Ed25519": {hex.EncodeToString(ed25519.Sign(private, []byte(at+body)))}}}
		for range 2 {
			g := s.send(a)
			if got := fmt.Sprint(g.status, " ", g.body); got != want ||
				g.body != "" && g.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %v, want %s", body, got, g.header, want)
			}
		}
	}
}

// It sends right and wrong credentials in the query, with the log at level DEBUG.
func TestCredentialsOfTheQueryAreStoredNowhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-0123456789abcdef"
	for name, settings := range map[string]preset.Settings{
		"azure-event-grid": {Query: "code", Secrets: []string{secret}},
		"webengage":        {Account: []string{"~17"}, Secrets: []string{secret}},
		"chargebee":        {Query: "key", Secrets: []string{secret}}, "cloudevents": {Secrets: []string{secret}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vendor, ok := preset.Find(name)
			if !ok {
				t.Fatal("unknown preset")
			}
			s := serve(t, vendor.Open(settings), nil,
				On(name, "*", func(context.Context, Event[[]byte]) error { return Reject(nil) }))
			r, body, err := vendor.Sample(settings, "https://hooks.example/webhooks/"+name, "", "e1", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if token := r.Header.Get("Authorization"); token != "" {
				r.Header.Del("Authorization")
				r.URL.RawQuery = "access_token=" + secret
			}
			hidden := credentials(r.URL)
			if len(hidden) == 0 {
				t.Fatal("no credential in the query of the sample")
			}
			for _, query := range []string{r.URL.RawQuery, r.URL.RawQuery + "x", r.URL.RawQuery + "&a=%zz",
				"a=1&" + r.URL.RawQuery} {
				s.send(req{body: string(body), header: r.Header, path: "/webhooks/" + name + "?" + query})
				s.send(req{method: "GET", path: "/webhooks/" + name + "?" + query})
				s.send(req{path: "/webhooks/none?" + query})
			}
			recs := s.records()
			if len(recs) == 0 {
				t.Fatal("nothing was accepted")
			}
			kept, err := json.Marshal(recs)
			if err != nil {
				t.Fatal(err)
			}
			s.seen.mu.Lock()
			defer s.seen.mu.Unlock()
			for where, text := range map[string]string{"log": s.log.String(), "store": string(kept),
				"observations": fmt.Sprintf("%+v", s.seen.all)} {
				for _, v := range hidden {
					if strings.Contains(text, v) {
						t.Errorf("%[2]q is in the %[1]s", where, v)
					}
				}
			}
		})
	}
}

// credentials are the long values of a query.
func credentials(u *url.URL) []string {
	var found []string
	for _, values := range u.Query() {
		for _, v := range values {
			if len(v) > 12 && !strings.Contains(v, "_") { // not a type
				found = append(found, v)
			}
		}
	}
	return found
}
