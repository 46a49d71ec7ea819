package inspect_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
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
	text := enter(page, "GET", "/ui/?show=duplicate", cookie, "").Body.String()
	if strings.Contains(text, "192.0.2.7") {
		t.Errorf("it is among the duplicates: %s", text)
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

// TestTheCauseOfARefusalAndATriedSecret shows two deliveries: one whose body got a newline, and one
// that was signed with a secret that the operator has to try.
func TestTheCauseOfARefusalAndATriedSecret(t *testing.T) {
	t.Parallel()
	const ours, theirs = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	scheme := func(secret string) *verify.HMAC {
		return &verify.HMAC{Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets(secret)}
	}
	deliveries := map[uint64]explain.Delivery{}
	for number, secret := range map[uint64]string{7: ours, 8: theirs} {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/shop", http.NoBody)
		if err := scheme(secret).Sign(r, []byte(`{"<b>":1}`), time.Now()); err != nil {
			t.Fatal(err)
		}
		body := `{"<b>":1}`
		if number == 7 {
			body += "\n"
		}
		deliveries[number] = explain.Delivery{Endpoint: "shop", Request: r, Body: []byte(body)}
	}
	e := explain.New([]producer.Producer{{Name: "shop", Scheme: scheme(ours)}})
	var log bytes.Buffer
	newPage := func(number uint64) *inspect.Inspector {
		page := inspect.Page(inspect.Options{
			Store: newStore(t), Token: token, ReadToken: readToken, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Refused: kept{inspect.RefusedDetail{Refused: inspect.Refused{
				Number: number, Time: time.Now().UTC(), Endpoint: "shop", Status: 401, Code: "signature_mismatch",
			}}},
			Explain: func(ctx context.Context, number uint64, secret string) (inspect.Explanation, bool) {
				d := deliveries[number]
				if secret != "" {
					d.Secrets = []verify.Offer{{Name: "the secret that you tried", Secret: verify.Secret(secret)}}
				}
				f := e.Explain(ctx, d).Findings
				if len(f) == 0 {
					return inspect.Explanation{}, true
				}
				return inspect.Explanation{Causes: []inspect.Cause{{
					Sentence: f[0].Cause.Sentence(), Proved: f[0].Proved, Detail: f[0].Detail, Signed: f[0].Signed,
					Came: f[0].Came,
				}}}, true
			},
		})
		t.Cleanup(page.Close)
		return page
	}
	page := newPage(7)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	for _, path := range []string{"/ui/refused/7", "/ui/"} {
		text := enter(page, "GET", path, cookie, "").Body.String()
		if !strings.Contains(text, "White space at an end of the body was added or removed after signing.") ||
			path != "/ui/" && (!strings.Contains(text, "proved") || !strings.Contains(text, "<dt>came</dt>")) ||
			strings.Contains(text, "<b>&#34;") || strings.Contains(text, `{"<b>`) {
			t.Errorf("%s: %s", path, text)
		}
	}

	page = newPage(8)
	cookie = enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	text := enter(page, "GET", "/ui/refused/8?secret="+theirs, cookie, "").Body.String()
	form := formTokens.FindStringSubmatch(text)
	if form == nil || strings.Contains(text, "proved") || strings.Contains(text, theirs) {
		t.Fatalf("before the secret is tried: %s", text)
	}
	if w := enter(page, "POST", "/ui/refused/8", cookie, "secret="+theirs); w.Code != 403 {
		t.Errorf("without the token of the form: status %d", w.Code)
	}
	w := enter(page, "POST", "/ui/refused/8", cookie, "secret="+theirs+"&form="+form[1])
	text = w.Body.String()
	if !strings.Contains(text, "proved") || !strings.Contains(text, "the secret that you tried") {
		t.Errorf("the tried secret: %s", text)
	}
	for _, path := range []string{"/ui/refused/8", "/ui/"} {
		text += enter(page, "GET", path, cookie, "").Body.String()
	}
	if strings.Contains(text+log.String(), theirs[:8]) || !strings.Contains(log.String(), "a secret was tried") {
		t.Errorf("the secret is in a page or the log, or nothing was logged: %s\n%s", text, log.String())
	}
	if strings.Count(text, "proved") != 1 {
		t.Errorf("the secret was kept: %s", text)
	}
	reader := enter(page, "POST", "/ui/login", "", "token="+readToken).Header().Get("Set-Cookie")
	if text := enter(page, "GET", "/ui/refused/8", reader, "").Body.String(); strings.Contains(text, "Try") {
		t.Errorf("a reader may try secrets: %s", text)
	}
}
