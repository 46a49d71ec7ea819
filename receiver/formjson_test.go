package receiver_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// GitHub sends forms by default. Their events are the same as without the form.
func TestHandlersGetTheJSONInAForm(t *testing.T) {
	t.Parallel()
	p := preset.GitHub(secret17)
	h := openDiskSite(t, time.Now(), []producer.Producer{p})
	form := func(text, id, media string) *http.Request {
		return h.signed(p, post("github", "payload="+url.QueryEscape(text), "Content-Type", media,
			"X-GitHub-Event", "push", "X-GitHub-Delivery", id))
	}
	const media, text = "application/x-www-form-urlencoded", `{"ref":"refs/heads/a&b=c;d","action":"opened"}`
	h.expect(form(text, "d1", media), 200, false)
	ev := h.awaited()
	if string(ev.Data) != text || string(ev.Body) != "payload="+url.QueryEscape(text) || ev.FormMember != "payload" ||
		ev.Header.Get("Content-Type") != media || len(ev.Attributes) != 1 || ev.Attributes["action"] != "opened" {
		t.Errorf("the handler got %s in %s of type %v, %v", ev.Data, ev.Body, ev.Header["Content-Type"], ev.Attributes)
	}
	var body struct{ Ref string }
	if err := json.Unmarshal(ev.Data, &body); err != nil || body.Ref != "refs/heads/a&b=c;d" {
		t.Errorf("%+v, %v", body, err)
	}
	h.expect(form(text, "d1", media), 200, true)
	h.expect(form(text, "d1", "application/json"), 200, true) // Content-Type is not signed
	h.expect(form(text, "d2", media), 200, false)
	if n := h.quarantined("same_bytes"); n != 1 {
		t.Errorf("%d quarantined, want the same bytes under another identifier", n)
	}
}
