package inspect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

// TestTheViewsShowNothingThatIsRedacted has an event and a refused delivery with a secret in a
// member, a field, a parameter and the response. No view, file, command or search reveals one.
func TestTheViewsShowNothingThatIsRedacted(t *testing.T) {
	t.Parallel()
	const hidden = "4111222233334444"
	header := http.Header{"X-Customer": {hidden}, "Content-Type": {"application/json"}}
	const body, target = `{"card":{"number":"` + hidden + `"},"total":5}`, "/webhooks/shop?k=" + hidden + "&a=1"
	store := newStore(t)
	claimed, err := store.Claim(t.Context(), dedup.Claim{
		Key: dedup.Key{Principal: "shop", Endpoint: "shop", ID: "order-17"}, Window: time.Hour,
		Tasks: []dedup.NewTask{{Handler: "h"}}, Payload: dedup.Payload{
			Producer: "shop", Endpoint: "shop", Type: "order.paid", Method: "POST", Target: target, Header: header,
			Body: []byte(body), Attributes: map[string]string{"subject": "of " + hidden},
		},
		Response: dedup.Response{Status: 200, Body: []byte(body)},
	})
	if err != nil {
		t.Fatal(err)
	}
	end(t, store, dedup.Result{Kind: dedup.ResultRetry, Reason: "failed", Reply: body})
	end(t, store, dedup.Result{Kind: dedup.ResultDead, Reason: "rejected", Reply: "not JSON: " + hidden})
	page := inspect.Page(inspect.Options{
		Store: store, Token: token, Redact: []string{"json:card.number", "header:x-customer", "query:k"},
		Refused: kept{inspect.RefusedDetail{
			Refused: inspect.Refused{Number: 7, Time: time.Now().UTC(), Endpoint: "shop", Status: 401, Target: target,
				Method: "POST", Why: "signature mismatch: " + hidden},
			URL: "https://hooks.example" + target, Host: "hooks.example", Header: header, Text: body,
			Response: &inspect.Response{Status: 401, Text: body},
		}},
	})
	t.Cleanup(page.Close)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	event := "/ui/events/" + claimed[0].Record.Event
	for path, want := range map[string]string{
		"/ui/": "order.paid", event: "REDACTED(18)", event + "/raw": "REDACTED(18)",
		"/ui/refused/7": "REDACTED(18)", "/ui/refused/7/raw": "REDACTED(18)",
		"/ui/?q=order-17":           "order.paid",
		"/ui/?q=4111":               "Nothing here matches",
		"/ui/?q=4111&show=accepted": "Nothing here matches",
		"/ui/?q=5%7D":               "Nothing here matches", // a part of a body
	} {
		w := enter(page, "GET", path, cookie, "")
		text := strings.ReplaceAll(w.Body.String(), "&#34;", "")
		if w.Code != 200 || !strings.Contains(text, want) || strings.Contains(text, hidden) ||
			strings.Contains(text, "34 31 31 31") {
			t.Errorf("%s: status %d, without %q, or with what is hidden: %s", path, w.Code, want, text)
		}
	}
	if rec, err := store.Get(t.Context(), claimed[0].Record.Event); err != nil || string(rec.Payload.Body) != body ||
		rec.Payload.Header.Get("X-Customer") != hidden {
		t.Errorf("the store has %+v, %v", rec.Payload, err)
	}
}

func TestAnInvalidRulePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v == nil || !strings.Contains(v.(string), `"card"`) {
			t.Errorf("recovered %v", v)
		}
	}()
	inspect.Page(inspect.Options{Store: newStore(t), Redact: []string{"card"}})
}
