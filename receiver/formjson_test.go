package receiver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// GitHub sends forms by default. Their events are the same as without the form.
func TestHandlersGetTheJSONInAForm(t *testing.T) {
	t.Parallel()
	p := preset.GitHub(secret17)
	handled := make(chan receiver.Event[json.RawMessage], 10)
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: []producer.Producer{p}, Handlers: []receiver.Handler{
		receiver.On("github", "*", func(_ context.Context, ev receiver.Event[json.RawMessage]) error {
			handled <- ev
			return nil
		}),
	}})
	expect := func(text, id, media string, known bool) {
		t.Helper()
		body := "payload=" + url.QueryEscape(text)
		r := post("github", body, "Content-Type", media, "X-GitHub-Event", "push", "X-GitHub-Delivery", id)
		if err := p.Scheme.(signer).Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		if w := answer(rx, r); w.Code != http.StatusOK || isReplayed(w) != known {
			t.Errorf("got %d, %v", w.Code, w.Header())
		}
	}
	const media, text = "application/x-www-form-urlencoded", `{"ref":"refs/heads/a&b=c;d","action":"opened"}`
	expect(text, "d1", media, false)
	ev := <-handled
	if string(ev.Data) != text || string(ev.Body) != "payload="+url.QueryEscape(text) || ev.FormMember != "payload" ||
		ev.Header.Get("Content-Type") != media || len(ev.Attributes) != 1 || ev.Attributes["action"] != "opened" {
		t.Errorf("the handler got %s in %s of type %v, %v", ev.Data, ev.Body, ev.Header["Content-Type"], ev.Attributes)
	}
	var body struct{ Ref string }
	if err := json.Unmarshal(ev.Data, &body); err != nil || body.Ref != "refs/heads/a&b=c;d" {
		t.Errorf("%+v, %v", body, err)
	}
	expect(text, "d1", media, true)
	expect(text, "d1", "application/json", true) // Content-Type is not signed
	expect(text, "d2", media, false)
	if rec := recordsOf(t, store)[0]; rec.QuarantineReason != "same_bytes" {
		t.Errorf("got %+v, want the same bytes under another identifier", rec)
	}
}
