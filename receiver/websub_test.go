package receiver

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

const webSubToken = "callback-token-17"

// hubs is a receiver of two topics with their own secrets, with a settable clock for its store.
type hubs struct {
	*site
	clock *deduptest.Clock
	runs  *counter
}

const feedA, feedB = "https://a.example/feed", "https://b.example/feed"

// serveHubs runs a test in a bubble.
func serveHubs(t *testing.T, f func(t *testing.T, h *hubs)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		h := &hubs{clock: deduptest.NewClock(), runs: newCounter()}
		store := memstore.New(memstore.Options{Clock: h.clock})
		p := preset.Open("websub", preset.Settings{Subscriptions: []preset.Subscription{
			{Topic: feedA, Secret: "secret of " + feedA, Token: webSubToken},
			{Topic: feedB, Secret: "secret of " + feedB, Token: webSubToken},
		}})
		h.site = serve(t, p, func(c *Config) { c.Store = store },
			On("websub", "*", func(context.Context, Event[[]byte]) error { h.runs.add(); return nil }))
		h.store = store
		f(t, h)
	})
}

// deliver sends content as the hub of a topic does.
func (h *hubs) deliver(topic, content string) got {
	h.t.Helper()
	a := req{body: content, header: http.Header{"Link": {`<` + topic + `>; rel="self"`}}}
	r := h.request(a)
	hub := &verify.HMAC{Headers: []string{"X-Hub-Signature"}, Entries: []string{"sha256={sig}"}, Encoding: verify.Hex,
		Secrets: verify.Secrets("secret of " + topic)}
	if err := hub.Sign(r, []byte(content), time.Now()); err != nil {
		h.t.Fatal(err)
	}
	a.header = r.Header
	g := h.send(a)
	if g.status != 200 {
		h.t.Fatalf("%s of %s: %+v", content, topic, g)
	}
	return g
}

func (h *hubs) deliverAndRun(topic, content string) {
	h.t.Helper()
	h.deliver(topic, content)
	h.ran()
}

// ran waits for a run and its outcome, with which the window begins.
func (h *hubs) ran() {
	h.t.Helper()
	h.runs.await(h.t)
	synctest.Wait()
}

// quarantined counts the quarantined deliveries by reason.
func (h *hubs) quarantined() map[string]int {
	h.t.Helper()
	out := map[string]int{}
	for _, r := range h.records() {
		if r.QuarantineReason != "" {
			out[r.QuarantineReason]++
		}
	}
	return out
}

func TestTheHubOfOneTopicDoesNotSilenceAnother(t *testing.T) {
	t.Parallel()
	serveHubs(t, func(t *testing.T, h *hubs) {
		h.deliverAndRun(feedA, "<what b will publish/>")
		if g := h.deliver(feedB, "<what b will publish/>"); g.replayed() {
			t.Errorf("the content of b is known from a: %+v", g)
		}
		h.ran()
		if g := h.deliver(feedB, "<what b will publish/>"); !g.replayed() {
			t.Errorf("a duplicate is not known: %+v", g)
		}
	})
}

func TestContentThatATopicReturnsToAfterTheWindowRunsAgain(t *testing.T) {
	t.Parallel()
	serveHubs(t, func(t *testing.T, h *hubs) {
		h.deliverAndRun(feedA, "A")
		h.clock.Advance(10 * time.Minute)
		h.deliverAndRun(feedA, "B")
		h.clock.Advance(60 * time.Minute)
		if g := h.deliver(feedA, "A"); g.replayed() {
			t.Errorf("A after 70 minutes: %+v", g)
		}
		h.ran()
		if n, q := h.runs.count(), h.quarantined(); n != 3 || len(q) > 0 {
			t.Errorf("%d runs, quarantined %v", n, q)
		}
	})
}

func TestContentThatATopicReturnsToWithinTheWindowIsQuarantined(t *testing.T) {
	t.Parallel()
	serveHubs(t, func(t *testing.T, h *hubs) {
		h.deliverAndRun(feedA, "A")
		h.clock.Advance(10 * time.Minute)
		h.deliverAndRun(feedA, "B")
		h.clock.Advance(10 * time.Minute)
		for range 2 {
			if g := h.deliver(feedA, "A"); g.replayed() {
				t.Errorf("A after B: %+v", g)
			}
		}
		if n, q := h.runs.count(), h.quarantined(); n != 2 || q["superseded"] != 1 {
			t.Errorf("%d runs, quarantined %v", n, q)
		}
		if g := h.deliver(feedA, "B"); !g.replayed() {
			t.Errorf("B is the newest: %+v", g)
		}
	})
}

func TestTheNewestContentOfATopicStaysKnown(t *testing.T) {
	t.Parallel()
	serveHubs(t, func(t *testing.T, h *hubs) {
		h.deliverAndRun(feedA, "A")
		h.clock.Advance(100 * time.Hour)
		if g := h.deliver(feedA, "A"); !g.replayed() || h.runs.count() != 1 {
			t.Errorf("%d runs: %+v", h.runs.count(), g)
		}
	})
}
