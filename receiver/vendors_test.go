package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

const ceToken = "cloud-token-0123456789"

// serveCloudEvents serves the preset, with subscriptions from one origin.
func serveCloudEvents(t *testing.T) (*site, chan Event[any]) {
	t.Helper()
	events := make(chan Event[any], 10)
	p := preset.CloudEvents(preset.Settings{Bearer: ceToken, Origins: []string{"sender.example"}, Rate: 100,
		Batch: true})
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

func TestCloudEventsOfEveryModeReachTheirHandler(t *testing.T) {
	t.Parallel()
	s, events := serveCloudEvents(t)
	const attributes = `"specversion":"1.0","source":"/s","type":"t"`
	large := strings.Repeat("x", 64<<10)
	structured := cloudEvent("", "Content-Type", "Application/CloudEvents+JSON; charset=utf-8", "Ce-Id", "",
		"Ce-Source", "", "Ce-Type", "", "Ce-Specversion", "")
	structured.body = `{` + attributes + `,"id":"2","data":{"large":"` + large + `"}}`
	batch := structured
	batch.header = structured.header.Clone()
	batch.header["Content-Type"] = []string{"application/cloudevents-batch+json"}
	batch.body = `[{` + attributes + `,"id":"3","data":3},{` + attributes + `,"id":"4","data":4}]`
	for _, a := range []req{cloudEvent("1"), structured, batch} {
		if g := s.send(a); g.status != 200 || g.replayed() {
			t.Fatalf("%+v", g)
		}
		if g := s.send(a); g.status != 200 || !g.replayed() {
			t.Errorf("again: %+v", g)
		}
	}
	data := map[string]string{}
	for range 4 {
		ev := <-events
		text, err := json.Marshal(ev.Data)
		if err != nil {
			t.Fatal(err)
		}
		data[ev.Attributes["id"]] = string(text)
		if ev.Type != "t" || ev.Attributes["source"] != "/s" {
			t.Errorf("%+v", ev)
		}
	}
	if data["1"] != `{"n":1}` || data["2"] != `{"large":"`+large+`"}` || data["3"] != "3" || data["4"] != "4" {
		t.Errorf("%.200v", data)
	}
}

func TestMalformedCloudEventsAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := serveCloudEvents(t)
	for _, field := range []string{"Ce-Id", "Ce-Source", "Ce-Type", "Ce-Specversion"} {
		wantProblem(t, s.send(cloudEvent("1", field, "")), 400, "event_malformed")
	}
	wantProblem(t, s.send(cloudEvent("1", "Ce-Datacontenttype", "text/plain")), 400, "event_malformed")
	wantProblem(t, s.send(cloudEvent("1", "Ce-Subject", "%C0%A0")), 400, "event_malformed")
	for _, kind := range []string{"application/cloudevents+avro", "application/cloudevents-batch+protobuf"} {
		wantProblem(t, s.send(cloudEvent("1", "Content-Type", kind)), 415, "media_type_unsupported")
	}
	half := cloudEvent("1", "Content-Type", "application/cloudevents-batch+json")
	half.body = `[{"specversion":"1.0","id":"1","source":"/s","type":"t"},{}]`
	wantProblem(t, s.send(half), 400, "event_malformed")
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
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
	off := serve(t, preset.CloudEvents(preset.Settings{Bearer: ceToken}), nil)
	g = off.send(req{method: "OPTIONS", header: http.Header{"Webhook-Request-Origin": {"sender.example"}}})
	if wantProblem(t, g, 405, "method_not_allowed"); g.header.Get("WebHook-Allowed-Origin") != "" {
		t.Errorf("granted without configuration: %+v", g)
	}
}

// It sends right and wrong credentials in the query, with the log at level DEBUG.
func TestCredentialsOfTheQueryAreStoredNowhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-0123456789abcdef"
	for name, settings := range map[string]preset.Settings{
		"azure-event-grid": {Query: "code", Value: secret}, "webengage": {LicenseCode: "~17", SecretKey: secret},
		"chargebee": {Query: "key", Value: secret}, "cloudevents": {Bearer: secret},
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

func TestStandardWebhooksNeedEveryField(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s := serve(t, preset.StandardWebhooks(secret), nil,
		On("standard-webhooks", "*", func(context.Context, Event[[]byte]) error { return nil }))
	const body = `{"type":"t"}`
	signed := func(at time.Time) http.Header {
		r := s.request(req{body: body})
		r.Header.Set("webhook-id", "e1")
		if err := s.p.Scheme.(*verify.HMAC).Sign(r, []byte(body), at); err != nil {
			t.Fatal(err)
		}
		return r.Header
	}
	for _, row := range []struct {
		name, field, value string
		status             int
		code               string
	}{
		{"no signature", "Webhook-Signature", "", 401, "signature_missing"},
		{"no time", "Webhook-Timestamp", "", 401, "timestamp_missing"},
		{"no id", "Webhook-Id", "", 400, "idempotency_key_missing"},
		{"an id with a full stop", "Webhook-Id", "a.b", 400, "component_unsupported"},
		{"another id", "Webhook-Id", "e2", 401, "signature_invalid"},
		{"a time that is no number", "Webhook-Timestamp", "1e9", 400, "timestamp_malformed"},
		{"another time", "Webhook-Timestamp", fmt.Sprint(time.Now().Unix() - 7), 401, "signature_invalid"},
		{"unknown versions only", "Webhook-Signature", "v9,AAAA", 400, "signature_malformed"},
	} {
		h := signed(time.Now())
		if h.Set(row.field, row.value); row.value == "" {
			h[row.field] = nil
		}
		t.Log(row.name)
		wantProblem(t, s.send(req{body: body, header: h}), row.status, row.code)
	}
	wantProblem(t, s.send(req{body: `{ "type":"t"}`, header: signed(time.Now())}), 401, "signature_invalid")
	wantProblem(t, s.send(req{body: body, header: signed(time.Now().Add(-302 * time.Second))}), 401,
		"timestamp_too_old")
	wantProblem(t, s.send(req{body: body, header: signed(time.Now().Add(302 * time.Second))}), 401, "timestamp_too_new")
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
	h := signed(time.Now())
	h.Set("Webhook-Signature", "v9,xxx v1,AAAA "+h.Get("Webhook-Signature"))
	if g := s.send(req{body: body, header: h}); g.status != 200 {
		t.Errorf("one good signature among others: %+v", g)
	}
}

// A client without the token can encode the query of a captured delivery in other ways, under which
// the signature is valid.
func TestTwilioEventsAreKnownUnderEveryEncodingOfTheQuery(t *testing.T) {
	t.Parallel()
	const body = `[{"specversion":"1.0","id":"e1","type":"t","source":"/s"},` +
		`{"specversion":"1.0","id":"e2","type":"t","source":"/s"}]`
	s := serve(t, preset.TwilioEventStreams("twilio-token"), nil,
		On("twilio-event-streams", "*", func(context.Context, Event[[]byte]) error { return nil }))
	signed := func(query string) req {
		const path = "/webhooks/twilio-event-streams?"
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example"+path+query, nil)
		r.Header.Set("Content-Type", "application/json")
		scheme := s.p.Scheme.(interface {
			Sign(r *http.Request, body []byte, now time.Time) error
		})
		if err := scheme.Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		return req{path: r.URL.RequestURI(), body: body, header: r.Header}
	}
	events := 0
	for query, others := range map[string][]string{
		"name=it%27s": {"name=it's"},
		"name=Its":    {"%6eame=Its", "&name=%49ts"},
	} {
		first := signed(query)
		events += 2
		if g := s.send(first); g.status != 200 || len(s.records()) != events {
			t.Fatalf("%s: got %+v, %d events", query, g, len(s.records()))
		}
		for _, other := range others {
			again := first
			again.path = strings.Replace(first.path, query, other, 1)
			if g := s.send(again); g.status != 200 || len(s.records()) != events {
				t.Errorf("%s as %s: got %+v, %d events, want %d", query, other, g, len(s.records()), events)
			}
		}
	}
}
