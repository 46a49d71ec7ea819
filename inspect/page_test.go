package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	token     = "the-token-that-opens-everything"
	readToken = "the-token-that-only-reads"
)

// site is a page with a browser that keeps cookies.
type site struct {
	*testing.T
	store   dedup.Store
	page    *inspect.Inspector
	server  *httptest.Server
	browser *http.Client
}

func newSite(t *testing.T, store dedup.Store) *site {
	t.Helper()
	s := &site{T: t, store: store}
	s.page = inspect.Page(inspect.Options{
		Store: store, Token: token, ReadToken: readToken, URL: "https://hooks.example",
		Handlers: func(producer string) []string { return []string{producer + "/paid"} },
	})
	s.server = httptest.NewServer(s.page)
	s.browser = s.newBrowser()
	t.Cleanup(func() {
		s.page.Close()
		s.server.Close()
	})
	return s
}

func (s *site) newBrowser() *http.Client {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// get returns the status and the text of a path.
func (s *site) get(path string) (int, string) {
	s.Helper()
	res, err := s.browser.Get(s.server.URL + path)
	return s.read(res, err)
}

// post sends a form, with the form token of the session unless it has one.
func (s *site) post(path string, form url.Values) (int, string) {
	s.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("form") && path != "/ui/login" {
		form.Set("form", s.formToken())
	}
	res, err := s.browser.PostForm(s.server.URL+path, form)
	return s.read(res, err)
}

func (s *site) read(res *http.Response, err error) (int, string) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(text)
}

var formTokens = regexp.MustCompile(`name="form" value="([^"]+)"`)

func (s *site) formToken() string {
	s.Helper()
	_, text := s.get("/ui/health")
	if found := formTokens.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

func (s *site) login(token string) {
	s.Helper()
	status, text := s.post("/ui/login", url.Values{"token": {token}})
	if status != 200 || !strings.Contains(text, `id="rows"`) {
		s.Fatalf("the login got %d: %s", status, text)
	}
}

// ended returns the page of a job that has ended.
func (s *site) ended(job string) string {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, text := s.get(job); strings.Contains(text, "data-ended") {
			return text
		}
	}
	s.Fatalf("%s does not end", job)
	return ""
}

// in requires that a page has each text.
func (s *site) in(page string, texts ...string) {
	s.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.Errorf("%q is not in %s", text, page)
		}
	}
}

// code asks for a login code and returns its path.
func (s *site) code(token string) string {
	s.Helper()
	r, err := http.NewRequest(http.MethodPost, s.server.URL+"/ui/code", http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	status, text := s.read(http.DefaultClient.Do(r))
	var login struct{ Path string }
	if err := json.Unmarshal([]byte(text), &login); status != 200 || err != nil {
		return ""
	}
	return login.Path
}

// buried stores an event whose only task is dead.
func buried(t *testing.T, store dedup.Store, id string) dedup.Record {
	t.Helper()
	rec := claim(t, store, id, "order.paid", []byte(`{"id":"`+id+`"}`))
	work, err := store.Take(t.Context(), dedup.Want{Tasks: 1, Lease: time.Hour})
	if err != nil || len(work) != 1 || work[0].Record.Event != rec.Event {
		t.Fatalf("took %v, %v", work, err)
	}
	if err := store.Finish(t.Context(), work[0].Lease, dedup.Result{
		Kind: dedup.ResultDead, Reason: "exhausted", Err: "no route to the ledger",
	}); err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestForgettingErasesTheCopies(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	rec := buried(t, s.store, "k")
	aside, err := s.store.Claim(t.Context(), dedup.Claim{
		Key:     dedup.Key{Principal: "shop", Endpoint: "shop", Space: dedup.SpaceQuarantine + "1", ID: "k"},
		Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Body: []byte("{}")},
		Tasks:   []dedup.NewTask{{Handler: "h"}}, Quarantine: &dedup.Quarantine{Reason: "conflict", Of: rec.Event},
	})
	if err != nil {
		t.Fatal(err)
	}
	copied := aside[0].Record.Event
	_, text := s.get("/ui/dead")
	s.in(text, "Quarantined", "Conflict", "Reopen all 1")
	if strings.Contains(text, `value="`+copied+`"`) {
		t.Error("the quarantined delivery can be chosen")
	}
	s.in(second(s.get("/ui/events/"+copied)), "Quarantined: Conflict", "/ui/events/"+rec.Event, "Run it once")
	s.in(second(s.post("/ui/events/"+rec.Event+"/forget", nil)), "Forgotten")
	for _, event := range []string{rec.Event, copied} {
		if _, err := s.store.Get(t.Context(), event); !errors.Is(err, dedup.ErrNotFound) {
			t.Errorf("%s: %v", event, err)
		}
		if status, _ := s.get("/ui/events/" + event); status != 404 {
			t.Errorf("%s: status %d", event, status)
		}
	}
}

func TestTheStreamIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	observe := func(id string, status int) {
		s.page.Observe(t.Context(), receiver.Observation{
			Kind: receiver.KindDelivery, Endpoint: "shop", Type: "order.paid", ID: id, Status: status, Code: "replayed",
		})
	}
	var first *bufio.Scanner
	for n := range 17 { // none but the first ever reads
		res, err := s.browser.Get(s.server.URL + "/ui/stream?endpoint=shop")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if want := map[bool]int{true: 200, false: 503}[n < 16]; res.StatusCode != want {
			t.Errorf("reader %d: status %d, want %d", n, res.StatusCode, want)
		}
		if n == 0 {
			first = bufio.NewScanner(res.Body)
		}
	}
	observe("<b>an id</b>", 202)
	var row string
	for first.Scan() && !strings.Contains(row, "</li>") {
		row += first.Text() + "\n"
	}
	s.in(row, "event: row", "&lt;b&gt;an id", "duplicate")
	for range 20_000 { // never waits for a reader
		observe(strings.Repeat("x", 1000), 202)
	}
	s.page.Stop()
	for first.Scan() {
	}
	if err := first.Err(); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestTextsOfOthersAreShownAsTheyAre: nothing that a producer sends is markup, or hides.
func TestTextsOfOthersAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	evil := "<script>alert(1)</script>\x1b[31m\u202egnp.exe\x00" + strings.Repeat("y", 10_000)
	rec := claim(t, s.store, evil, evil, []byte(evil))
	work, err := s.store.Take(t.Context(), dedup.Want{Tasks: 1, Lease: time.Hour})
	if err != nil || len(work) != 1 {
		t.Fatalf("took %v, %v", work, err)
	}
	if err := s.store.Finish(t.Context(), work[0].Lease, dedup.Result{
		Kind: dedup.ResultDead, Reason: "exhausted", Err: evil,
	}); err != nil {
		t.Fatal(err)
	}
	brief := claim(t, s.store, "<b>\u202e", "<script>\u202egnp.exe", []byte(`{"<script>": "<script>"}`))
	for _, path := range []string{
		"/ui/", "/ui/events/" + rec.Event, "/ui/events/" + brief.Event, "/ui/?q=script", "/ui/dead",
	} {
		status, text := s.get(path)
		if status != 200 || strings.Contains(text, "<script>") || strings.ContainsAny(text, "\x1b\x00\u202e") {
			t.Errorf("%s: status %d, shown raw", path, status)
		}
		s.in(text, "&lt;script&gt;", `\u{202e}gnp.exe`)
	}
}

func TestDeepAndUnclosedBodiesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	for name, body := range map[string]string{
		"unclosed": strings.Repeat("[", 500_000),
		"deep":     strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000),
		"wide":     "[" + strings.Repeat("1,", 250_000) + "1]", "members": strings.Repeat(`{"a":`, 200_000),
	} {
		rec := claim(t, s.store, name, "t", []byte(body))
		status, text := s.get("/ui/events/" + rec.Event)
		if status != 200 || len(text) > 2<<20 {
			t.Errorf("%s: status %d, %d bytes", name, status, len(text))
		}
	}
	rec := claim(t, s.store, "plain", "t", []byte(`{"b": [1.50, {}, "a:b{", null], "a": {"z": []}}`))
	_, text := s.get("/ui/events/" + rec.Event)
	plain := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, "")
	s.in(html.UnescapeString(plain), `{
  "b": [
    1.50,
    {},
    "a:b{",
    null
  ],
  "a": {
    "z": []
  }
}`)
}

func TestTheTimelineOfAnEvent(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	rec := buried(t, s.store, "k")
	s.page.Observe(t.Context(), receiver.Observation{
		Kind: receiver.KindDelivery, Endpoint: "shop", Event: rec.Event, Status: 202, Code: "replayed",
	})
	_, text := s.get("/ui/events/" + rec.Event)
	for _, want := range []string{
		"Verified and stored", "Answered 202", "Attempt 1: exhausted", "no route to the ledger", "Dead letter",
		"Delivered again, answered 202",
	} {
		_, rest, ok := strings.Cut(text, want)
		if !ok {
			t.Fatalf("%q is missing, or not in order: %s", want, text)
		}
		text = rest
	}
	s.in(text, "curl -g -X &#39;POST&#39; &#39;https://hooks.example/webhooks/shop&#39;")
	status, raw := s.get("/ui/events/" + rec.Event + "/raw")
	if status != 200 || !strings.Contains(raw, "POST /webhooks/shop HTTP/1.1") {
		t.Errorf("status %d: %s", status, raw)
	}
}

func TestThePageIsSmall(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 64<<10 {
		t.Errorf("page, style and script have %d bytes, want at most %d", size, 64<<10)
	}
}

// TestProducersAndHealthAreDescribed has a producer with two secrets, and a lane with two events.
func TestProducersAndHealthAreDescribed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, id := range []string{"a", "b"} {
		if _, err := store.Claim(t.Context(), dedup.Claim{
			Key:    dedup.Key{Principal: "shop", Endpoint: "shop", ID: id},
			Tasks:  []dedup.NewTask{{Handler: "h", Lane: "c-7"}},
			Window: time.Hour, Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Body: []byte("{}")},
		}); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "0123456789abcdef"
	page := inspect.Page(inspect.Options{Store: store, Token: token, Producers: []producer.Producer{{
		Name: "shop", Scheme: &verify.HMAC{Headers: []string{"X-Sig"}, Secrets: verify.Secrets(secret, secret+"2")},
	}}, Receiver: "a&b:8080", Status: func(context.Context) inspect.Status {
		return inspect.Status{
			Reload:   &inspect.Reload{Time: time.Now().Add(-2 * time.Hour), Problem: "e.yaml:3: <bad>"},
			Retiring: []inspect.Retiring{{Handler: "old", Tasks: 7}, {Handler: "older", Tasks: -1}},
		}
	}})
	for _, o := range []receiver.Observation{
		{Secret: 2, Signed: true, SignedAge: time.Minute}, {Secret: 2, Signed: true, SignedAge: -2 * time.Second},
		{Secret: 1}, {Status: 401, Code: "signature_mismatch"},
	} {
		o.Kind, o.Endpoint = receiver.KindDelivery, "shop"
		page.Observe(t.Context(), o)
	}
	t.Cleanup(page.Close)
	cookie := enter(page, "POST", "/ui/login", "", "token="+token).Header().Get("Set-Cookie")
	for path, wants := range map[string][]string{
		"/ui/producers": {
			"<dt>keys</dt><dd>secret 1 of 2, secret 2 of 2", "<dt>secret 1</dt><dd>verified 1<", "secret 2, 0 s ago",
			"<dt>last signature</dt><dd>2 s ahead at its arrival</dd><dt>oldest</dt><dd>1 min old<",
			"<dt>deliveries</dt><dd>0 accepted, ", ">1 refused<", "<dt>last refusal</dt><dd>Signature mismatch (401), ",
			">a&amp;b:8080</span>",
		},
		"/ui/health": {
			"<dt>c-7</dt><dd>2 open", "reload refused</em></dt><dd>2 h ago: e.yaml:3: &lt;bad&gt;",
			"<dt>old</dt><dd>removed, 7 tasks left", "<dt>older</dt><dd>removed, some tasks left",
			">a&amp;b:8080</span>",
		},
	} {
		text := enter(page, "GET", path, cookie, "").Body.String()
		for _, want := range wants {
			if !strings.Contains(text, want) || strings.Contains(text, secret) {
				t.Errorf("%s has no %q: %s", path, want, text)
			}
		}
	}
}

func TestProducersAndHealthAsJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	buried(t, s.store, "k")
	for path, want := range map[string]string{
		"/health": `"accepting":true`, "/producers": "[]", "/events": `"id":"k"`,
	} {
		w := httptest.NewRecorder()
		s.page.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) || w.Header().Get("Eyelet-API") != "1" {
			t.Errorf("%s: status %d, fields %v: %s", path, w.Code, w.Header(), w.Body)
		}
	}
}
