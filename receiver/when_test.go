package receiver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

func when(text string) producer.Condition {
	c, err := producer.ParseCondition(text)
	if err != nil {
		panic(err)
	}
	return c
}

// handlings notes which handler handled which event.
type handlings struct {
	mu  sync.Mutex
	all []string // "handler id"
}

func (h *handlings) on(from, pattern, name string) Handler {
	return On(from, pattern, func(_ context.Context, ev Event[[]byte]) error {
		h.add(name + " " + ev.ID)
		return nil
	}).Named(name)
}

func (h *handlings) answer(from, pattern, name string) Handler {
	return Answer(from, pattern, func(_ context.Context, ev Event[[]byte]) (Response, error) {
		h.add(name + " " + ev.ID)
		return Response{Status: 200, Body: []byte(name)}, nil
	}).Named(name)
}

func (h *handlings) add(one string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
}

// take returns what was handled since, sorted.
func (h *handlings) take() string {
	time.Sleep(time.Second)
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.all)
	defer func() { h.all = nil }()
	return strings.Join(h.all, ", ")
}

// replaced reloads the configuration of a site in a bubble.
func replaced(t *testing.T, s *site, c Config) {
	t.Helper()
	next, err := s.rx.Replace(c)
	if err != nil {
		t.Fatal(err)
	}
	s.rx = next
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error("close:", err)
		}
	})
}

func TestConditionsChooseHandlers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := fencedProducer()
		store.Name = "store"
		var h handlings
		s := serve(t, fencedProducer(), func(c *Config) { c.Producers = append(c.Producers, store) },
			h.on("shop", "order.*", "paid").When(when(`json:status == "paid"`)),
			h.on("shop", "order.*", "large").When(when(`json:amount >= 100`)),
			h.on("shop", "order.paid", "all"),
			h.on("shop", "*", "rest").Otherwise().When(when(`not json:test == true`)),
			h.on("store", "*", "other").When(when(`json:status == "paid"`)),
			h.on("store", "*", "old").Retired().When(when(`json:status exists`)),
		)
		for i, tt := range []struct{ typ, body, handled string }{
			{"order.paid", `{"status":"paid","amount":1e2}`, "all e0, large e0, paid e0"},
			{"order.paid", `{"status":"open","amount":99.999}`, "all e1"},
			{"order.new", `{"status":"paid","amount":"100"}`, "paid e2"},
			{"order.new", `{"status":"open"}`, "rest e3"},
			{"order.new", `{"test":true}`, ""},
			{"user.new", `{"status":"paid"}`, "rest e5"},
			{"user.new", `not JSON`, "rest e6"},
		} {
			if g := s.send(req{id: fmt.Sprint("e", i), typ: tt.typ, body: tt.body}); g.status != 200 {
				t.Fatal(g)
			}
			if got := h.take(); got != tt.handled {
				t.Errorf("%s %s is handled by %q, want %q", tt.typ, tt.body, got, tt.handled)
			}
		}
		s.p = store
		s.send(req{id: "x", typ: "user.new", body: `{"status":"open"}`})
		s.send(req{id: "y", typ: "user.new", body: `{"status":"paid"}`})
		if got := h.take(); got != "other y" {
			t.Errorf("the other producer's events are handled by %q", got)
		}
	})
}

// The first Answer handler whose condition holds answers. Without one On handlers take the event.
func TestConditionsChooseWhoAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var h handlings
		s := serve(t, fencedProducer(), nil,
			h.answer("shop", "*", "eu").When(when(`json:region == "eu"`)),
			h.answer("shop", "quote*", "any").When(when(`json:region exists`)),
			h.on("shop", "*", "rest").Otherwise(),
		)
		for i, tt := range []struct{ typ, body, handled, response string }{
			{"quote", `{"region":"eu"}`, "eu e0", "eu"},
			{"quote", `{"region":"us"}`, "any e1", "any"},
			{"order", `{"region":"us","n":2}`, "rest e2", ""},
			{"quote", `{}`, "rest e3", ""},
		} {
			g := s.send(req{id: fmt.Sprint("e", i), typ: tt.typ, body: tt.body})
			if got := h.take(); got != tt.handled || g.status != 200 || tt.response != "" && g.body != tt.response {
				t.Errorf("%s %s: handled by %q, %+v", tt.typ, tt.body, got, g)
			}
			again := s.send(req{id: fmt.Sprint("e", i), typ: tt.typ, body: tt.body})
			if got := h.take(); got != "" || !again.replayed() || again.body != g.body {
				t.Errorf("a duplicate is handled by %q, %+v", got, again)
			}
		}
	})
}

// Items of a batch count each by itself, with their own types.
func TestConditionsOfItems(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		p := preset.Open("cloudevents", preset.Settings{Secrets: []string{testSecret}, Batch: true})
		p.Name = "shop"
		var h handlings
		s := serve(t, p, nil,
			h.on("shop", "*", "paid").When(when(`type == "order" and json:status == "paid"`)),
			h.on("shop", "*", "gold").When(when(`header:X-Tier == "gold" and not json:status == "paid"`)),
			h.on("shop", "user", "user").When(when(`json:status == "open"`)),
		)
		const event = `{"specversion":"1.0","source":"/s","id":"%s","type":"%s","status":"%s"}`
		send := func(tier string, items ...string) {
			g := s.send(req{body: "[" + strings.Join(items, ",") + "]", header: http.Header{
				"Content-Type": {producer.MediaCloudEventBatch}, "Authorization": {"Bearer " + testSecret},
				"X-Tier": {tier},
			}})
			if g.status != 200 {
				t.Fatal(g)
			}
		}
		send("", fmt.Sprintf(event, "1", "order", "paid"), fmt.Sprintf(event, "2", "user", "paid"),
			fmt.Sprintf(event, "3", "order", "open"), fmt.Sprintf(event, "4", "user", "open"))
		var notes []string
		for _, rec := range s.records() {
			notes = append(notes, rec.Note)
		}
		slices.Sort(notes)
		const unmet = "no handler; conditions not met: paid, gold"
		want := []string{"", "", unmet, unmet + ", user"}
		if !slices.Equal(notes, want) {
			t.Errorf("notes %q", notes)
		}
		if got := h.take(); got != "paid /s:1, user /s:4" {
			t.Errorf("handled %q", got)
		}
		send("gold", fmt.Sprintf(event, "5", "user", "paid"), fmt.Sprintf(event, "6", "user", "void"))
		if got := h.take(); got != "gold /s:6" {
			t.Errorf("of a field of the whole delivery: handled %q", got)
		}
		if n := strings.Count(s.log.String(), `level=INFO msg="an event met no condition of a handler"`); n != 3 {
			t.Errorf("%d lines in the log", n)
		}
	})
}

// An event that no handler wants is kept with the names of handlers and logged once. It stays a
// duplicate when the conditions change, and a task that is added to it runs.
func TestAnUnwantedEventIsKeptAsDecided(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var h handlings
		var config Config
		handlers := make([]Handler, 0, 8)
		for i := range 7 {
			handlers = append(handlers, h.on("shop", "*", fmt.Sprint("h", i)).When(when(`json:status == "paid"`)))
		}
		handlers = append(handlers, h.on("shop", "other", "x"))
		s := serve(t, fencedProducer(), func(c *Config) { config = *c }, handlers...)
		open := req{id: "e", typ: "order", body: `{"status":"open"}`}
		if g := s.send(open); g.status != 200 || g.replayed() {
			t.Fatal(g)
		}
		const unmet = "h0, h1, h2, h3, h4 and 2 more"
		rec := s.records()[0]
		if rec.Note != "no handler; conditions not met: "+unmet || len(rec.Tasks) > 0 || rec.State() != dedup.Done ||
			string(rec.Payload.Body) != open.body {
			t.Errorf("note %q, %d tasks, %v, body %s", rec.Note, len(rec.Tasks), rec.State(), rec.Payload.Body)
		}
		config.Handlers = []Handler{h.on("shop", "*", "h0").When(when(`json:status == "open"`))}
		replaced(t, s, config)
		if g := s.send(open); g.status != 200 || !g.replayed() {
			t.Errorf("after a reload it is not a duplicate: %+v", g)
		}
		if got := h.take(); got != "" {
			t.Errorf("handled %q", got)
		}
		line := `level=INFO msg="an event met no condition of a handler" endpoint=shop event=` + rec.Event +
			` type=order handlers="` + unmet + `"`
		if n := strings.Count(s.log.String(), "met no condition"); n != 1 || !strings.Contains(s.log.String(), line) {
			t.Errorf("%d lines in the log: %s", n, s.log)
		}
		s.send(req{id: "f", typ: "order", body: `{"status":"open","n":2}`})
		if got := h.take(); got != "h0 f" {
			t.Errorf("a new event is handled by %q", got)
		}
		if _, err := s.store.Reopen(t.Context(), rec.Event, dedup.NewTask{Handler: "h0"}); err != nil {
			t.Fatal(err)
		}
		if got := h.take(); got != "h0 e" {
			t.Errorf("the added task is handled by %q", got)
		}
	})
}

// A run that ended without a response is taken up by the handler that began it, whatever the
// conditions say since.
func TestARetryOfAnAnswerAsksNoCondition(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var config Config
		fails := true
		by := func(name string) Handler {
			return Answer("shop", "*", func(_ context.Context, ev Event[[]byte]) (Response, error) {
				if fails {
					return Response{}, errBoom
				}
				return Response{Status: 200, Body: []byte(name)}, nil
			}).Named(name)
		}
		s := serve(t, fencedProducer(), func(c *Config) { config = *c }, by("a").When(when(`json:n == 1`)))
		if g := s.send(req{id: "e", typ: "t", body: `{"n":1}`}); g.status < 500 {
			t.Fatal(g)
		}
		fails = false
		config.Handlers = []Handler{by("a").When(when(`json:n == 2`)), by("b").When(when(`json:n == 1`))}
		replaced(t, s, config)
		if g := s.send(req{id: "e", typ: "t", body: `{"n":1}`}); g.status != 200 || g.body != "a" {
			t.Errorf("%+v, want the answer of a", g)
		}
		fails = true // b begins another event, and is gone when that is sent again
		s.send(req{id: "f", typ: "t", body: `{"n":1,"f":1}`})
		fails = false
		config.Handlers = []Handler{by("c").When(when(`json:n == 2`)), by("d").When(when(`json:n == 1`))}
		replaced(t, s, config)
		if g := s.send(req{id: "f", typ: "t", body: `{"n":1,"f":1}`}); g.status != 200 || g.body != "d" {
			t.Errorf("%+v, want the answer of d", g)
		}
	})
}

// Shopify does not sign the topic, which is in the key. A captured body under another topic, which
// arrives first, does not keep the genuine event from its handler.
func TestAnAlteredTypeInTheKeyTakesNoEventAway(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		p := preset.With("shopify", testSecret)
		var h handlings
		s := serve(t, p, nil, h.on(p.Name, "*", "paid").When(when(`type == "orders/paid" and json:n == 1`)))
		mac := hmac.New(sha256.New, []byte(testSecret))
		mac.Write([]byte(`{"n":1}`))
		send := func(id, topic string) got {
			return s.send(req{body: `{"n":1}`, header: http.Header{
				"X-Shopify-Hmac-Sha256": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}, "X-Shopify-Topic": {topic},
				"X-Shopify-Event-Id": {id}, "X-Shopify-Webhook-Id": {id},
			}})
		}
		for i := range 20 {
			send(fmt.Sprint("forged", i), fmt.Sprintf("orders/%c", 'a'+i))
		}
		send("none", "")
		if got := h.take(); got != "" {
			t.Fatalf("handled %q", got)
		}
		if g := send("genuine", "orders/paid"); g.status != 200 || g.replayed() {
			t.Errorf("%+v", g)
		}
		if got := h.take(); !strings.HasPrefix(got, "paid ") || strings.Contains(got, ",") {
			t.Errorf("handled %q", got)
		}
		if g := send("again", "orders/paid"); g.status != 200 || h.take() != "" {
			t.Errorf("a duplicate: %+v", g)
		}
	})
}

// A field that a condition reads is signed in every delivery by RFC 9421.
func TestAForgedFieldMeetsNoCondition(t *testing.T) {
	t.Parallel()
	var h handlings
	s := serveSigned(t, nil, h.on("shop", "*", "gold").When(when(`header:X-Tier == "gold"`)),
		h.on("shop", "*", "rest").Otherwise())
	tier := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Tier", value) }
	}
	for _, value := range []string{"gold", "iron"} {
		if g := s.deliver(s.ed, "e", "/webhooks/shop", `{}`, time.Now(), tier(value)); g.status != 401 {
			t.Errorf("a field that was added: %+v", g)
		}
	}
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
	if g := s.deliver(s.ed, "e", "/webhooks/shop", `{}`, time.Now(), nil); g.status != 202 || g.replayed() {
		t.Errorf("the genuine one: %+v", g)
	}
}

func TestConditionsThatAreNotBoundAreRefused(t *testing.T) {
	t.Parallel()
	key, err := verify.NewHMACKey("k", []byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	named := func(p producer.Producer) producer.Producer { p.Name = "shop"; return p }
	rfc9421 := producer.Signed("shop", verify.StaticKeys(key))
	gitHub, shopify := named(preset.GitHub(testSecret)), named(preset.With("shopify", testSecret))
	inner := func(text string, hs ...Handler) []Handler {
		for i := range hs {
			hs[i] = hs[i].Named(fmt.Sprint("h", i)).When(when(text))
		}
		return hs
	}
	on, answer := On("shop", "*", do), Answer("shop", "*", say)
	unbound := `When: signatures of producer "shop" do not bind `
	for name, tt := range map[string]struct {
		p        producer.Producer
		handlers []Handler
		want     string // in the error; empty for none
	}{
		"the body":            {gitHub, inner(`json:a == 1`, on, on), ""},
		"an unsigned field":   {gitHub, inner(`json:a == 1 or header:X-Tier exists`, on), unbound + "x-tier, so"},
		"an unsigned type":    {gitHub, inner(`type == "push"`, on), unbound + "x-github-event, so"},
		"a type in the key":   {shopify, inner(`type == "orders/paid"`, on), ""},
		"its field":           {shopify, inner(`header:X-Shopify-Topic exists`, on), unbound + "x-shopify-topic, so"},
		"a scheme without":    {webhookProducer(), inner(`json:a == 1`, on), unbound + "@body"},
		"a field of RFC 9421": {rfc9421, inner(`header:X exists`, on), ""},
		"Answer":              {gitHub, inner(`json:a == 1`, answer), ""},
		"several Answer":      {gitHub, inner(`json:a == 1`, answer, answer), ""},
		"Answer beside On":    {gitHub, inner(`json:a == 1`, answer, on), "an Answer handler takes its events alone"},
		"Answer beside one without a condition": {gitHub, append(inner(`json:a == 1`, answer), answer),
			"an Answer handler takes its events alone"},
		"Inline":                       {gitHub, inner(`json:a == 1`, Inline("shop", "*")), "leave out When"},
		"retired":                      {gitHub, append(inner(`type == "push"`, On("x", "*", do).Retired()), on), ""},
		"Otherwise beside all":         {gitHub, []Handler{on, on.Named("x").Otherwise()}, "it never runs"},
		"Otherwise beside a condition": {gitHub, append(inner(`json:a == 1`, on), on.Otherwise()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(memstore.Options{})
			defer func() { _ = s.Close() }()
			rx, err := Open(Config{
				Store: s, URL: "https://hooks.example", Producers: []producer.Producer{tt.p}, Handlers: tt.handlers,
			})
			if err == nil {
				err = rx.Close()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}
