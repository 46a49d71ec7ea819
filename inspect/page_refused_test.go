package inspect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
)

// kept is a source with one refused delivery, whose number is 7.
type kept struct{ one inspect.RefusedDetail }

func (k kept) Refused() []inspect.Refused { return []inspect.Refused{k.one.Refused} }

func (k kept) RefusedDetail(number uint64) (inspect.RefusedDetail, bool) {
	return k.one, number == k.one.Number
}

func TestRefusedDeliveries(t *testing.T) {
	t.Parallel()
	d := inspect.RefusedDetail{
		Refused: inspect.Refused{
			Number: 7, Time: time.Now().UTC(), Endpoint: "shop", Status: 401, Code: "signature_mismatch",
			Peer:   "192.0.2.7",
			Method: "POST", Target: "/webhooks/shop",
			Size: 20, More: 4210, Why: "signature mismatch: \x1b[31m",
		},
		URL: "https://hooks.example/webhooks/shop", Host: "hooks.example", BodyRead: "whole",
		Header: http.Header{"Authorization": {"REDACTED(27)"}, "Content-Type": {"application/json"}},
	}
	d.Text = `{"<script>": "\u202e"}`
	page := inspect.Page(inspect.Options{Store: newStore(t), Token: token, Refused: kept{d}})
	t.Cleanup(page.Close)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	for path, want := range map[string][]string{
		"/ui/":              {"Signature mismatch", "from 192.0.2.7", "and 4,210 more like it", "/ui/refused/7"},
		"/ui/?show=refused": {"Signature mismatch"},
		"/ui/refused/7": {
			"Signature mismatch", "https://hooks.example/webhooks/shop", "REDACTED(27)", "&lt;script&gt;", `\u{1b}[31m`,
			"4,210 more",
		},
	} {
		w := enter(page, "GET", path, cookie, "")
		for _, text := range want {
			if w.Code != 200 || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: status %d, without %q: %s", path, w.Code, text, w.Body)
			}
		}
	}
	if text := enter(page, "GET", "/ui/?show=repeated", cookie, "").Body.String(); strings.Contains(text, "192.0.2.7") {
		t.Errorf("it is among the repeated: %s", text)
	}
	for path, want := range map[string]int{
		"/ui/refused/7/raw": 200, "/ui/refused/8": 404, "/ui/refused/-1": 404, "/ui/refused/x": 404,
		"/ui/refused/8/raw": 404,
	} {
		if w := enter(page, "GET", path, cookie, ""); w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}
