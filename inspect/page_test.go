package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
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

func TestNothingIsShownWithoutALogin(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	rec := buried(t, s.store, "secret-id")
	s.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{
		"/ui/", "/ui/dead", "/ui/events/" + rec.Event, "/ui/events/" + rec.Event + "/raw", "/ui/stream", "/ui/health",
		"/ui/producers", "/ui/jobs/1", "/ui/refused/1", "/ui/refused/1/raw", "/ui/nowhere",
	} {
		if status, text := s.get(path); status != http.StatusSeeOther || strings.Contains(text, "secret-id") {
			t.Errorf("%s: status %d: %s", path, status, text)
		}
		r, err := http.NewRequest(http.MethodGet, s.server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Eyelet-Part", "detail")
		if status, text := s.read(s.browser.Do(r)); status != 401 || strings.Contains(text, "secret-id") {
			t.Errorf("the part of %s: status %d: %s", path, status, text)
		}
	}
	for _, path := range []string{"/ui/dead", "/ui/events/" + rec.Event + "/forget", "/ui/logout"} {
		if status, _ := s.post(path, url.Values{"form": {""}}); status != 401 {
			t.Errorf("a change at %s: status %d", path, status)
		}
	}
	if status, _ := s.get("/ui/login?code="); status != 200 {
		t.Errorf("the form: status %d", status)
	}
	for _, wrong := range []string{"", "wrong", readToken + "x"} {
		if path := s.code(wrong); path != "" {
			t.Errorf("the token %q got the code %s", wrong, path)
		}
	}
}

func TestEmptyTokensOpenNothing(t *testing.T) {
	t.Parallel()
	page := inspect.Page(inspect.Options{Store: newStore(t)})
	t.Cleanup(page.Close)
	r := httptest.NewRequest(http.MethodPost, "/ui/login", strings.NewReader("token="))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	if w.Code != 401 || len(w.Result().Cookies()) != 0 {
		t.Errorf("status %d, cookies %v", w.Code, w.Result().Cookies())
	}
}

func TestTheCookieAndTheHeaderFields(t *testing.T) {
	t.Parallel()
	page := inspect.Page(inspect.Options{Store: newStore(t), Token: token, Prefix: "eyelet/ui/"})
	t.Cleanup(page.Close)
	for _, scheme := range []string{"http", "https"} {
		r := httptest.NewRequest(http.MethodPost, scheme+"://127.0.0.1:8081/eyelet/ui/login",
			strings.NewReader("token="+token))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%d cookies", len(cookies))
		}
		c := cookies[0]
		if c.Name != "eyelet-8081" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/eyelet/ui" ||
			c.Secure != (scheme == "https") || c.MaxAge != 0 || !c.Expires.IsZero() {
			t.Errorf("%s: the cookie is %+v", scheme, c)
		}
		h := w.Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if h.Get(name) != want {
				t.Errorf("%s is %q", name, h.Get(name))
			}
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
			strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("the policy is %q", csp)
		}
	}
}

func TestALoginCodeWorksOnceWithinAMinute(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	path := s.code(token)
	if status, text := s.get(path); status != 200 || !strings.Contains(text, `id="rows"`) {
		t.Fatalf("the code: status %d: %s", status, text)
	}
	s.browser = s.newBrowser()
	if status, text := s.get(path); status != 401 || !strings.Contains(text, "used already") {
		t.Errorf("the code a second time: status %d: %s", status, text)
	}
}

// enter requests a path in memory, with a cookie.
func enter(page http.Handler, method, path, cookie, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

func TestCodesAndSessionsEndWithTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := dedup.NewMemory(dedup.MemoryOptions{})
		defer store.Close() //nolint:errcheck // in memory
		page := inspect.Page(inspect.Options{Store: store, Token: token})
		defer page.Close()
		var login struct{ Path string }
		newCode := func() {
			if err := json.Unmarshal(enter(page, "POST", "/ui/code", "", "").Body.Bytes(), &login); err != nil {
				t.Fatal(err)
			}
		}
		newCode()
		time.Sleep(time.Minute)
		if w := enter(page, "GET", login.Path, "", ""); w.Code != 401 {
			t.Errorf("a late code: status %d", w.Code)
		}
		newCode()
		time.Sleep(time.Minute - 1)
		cookie := enter(page, "GET", login.Path, "", "").Header().Get("Set-Cookie")
		time.Sleep(12*time.Hour - 1)
		if w := enter(page, "GET", "/ui/health", cookie, ""); w.Code != 200 {
			t.Errorf("a session that was idle for almost 12 hours: status %d", w.Code)
		}
		time.Sleep(12 * time.Hour)
		if w := enter(page, "GET", "/ui/health", cookie, ""); w.Code != 303 {
			t.Errorf("a session that was idle for 12 hours: status %d", w.Code)
		}
		for range 10 {
			if w := enter(page, "POST", "/ui/login", "", "token=wrong"); w.Code != 401 {
				t.Errorf("a wrong token: status %d", w.Code)
			}
		}
		w := enter(page, "POST", "/ui/login", "", "token="+token)
		if w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("after ten wrong tokens: status %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := enter(page, "POST", "/ui/login", "", "token="+token); w.Code != 303 {
			t.Errorf("a minute later: status %d", w.Code)
		}
	})
}

func TestChangesWantTheFormOfTheirSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	rec := buried(t, s.store, "k")
	s.login(token)
	path := "/ui/events/" + rec.Event + "/reopen"
	other := s.browser
	s.browser = s.newBrowser()
	s.login(token)
	theirs := s.formToken()
	s.browser = other
	for _, form := range []string{"", "wrong", theirs} {
		status, text := s.post(path, url.Values{"form": {form}})
		if status != 403 || !strings.Contains(text, "another login") {
			t.Errorf("the form token %q: status %d", form, status)
		}
	}
	if status, _ := s.get(path); status == 200 {
		t.Errorf("a change by GET: status %d", status)
	}
	r, err := http.NewRequest(http.MethodPost, s.server.URL+path, strings.NewReader("form="+s.formToken()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _ := s.read(s.browser.Do(r)); status != 403 {
		t.Errorf("a change from another site: status %d", status)
	}
	if got, err := s.store.Get(t.Context(), rec.Event); err != nil || got.State() != dedup.Dead {
		t.Fatalf("the event is %v, %v", got.State(), err)
	}
	if status, text := s.post(path, nil); status != 200 || !strings.Contains(text, "Reopened.") {
		t.Errorf("status %d: %s", status, text)
	}
	if got, err := s.store.Get(t.Context(), rec.Event); err != nil || got.State() != dedup.Pending {
		t.Errorf("the event is %v, %v", got.State(), err)
	}
	s.in(second(s.post(path, nil)), "Event has nothing to reopen")
}

func second(_ int, text string) string { return text }

func TestAReaderChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	rec := buried(t, s.store, "k")
	s.login(readToken)
	for _, path := range []string{"/ui/dead", "/ui/events/" + rec.Event} {
		if _, text := s.get(path); strings.Contains(text, "Reopen") || strings.Contains(text, "Forget") {
			t.Errorf("%s offers a change: %s", path, text)
		}
	}
	for _, path := range []string{"/ui/dead", "/ui/events/" + rec.Event + "/forget", "/ui/jobs/1/stop"} {
		if status, _ := s.post(path, url.Values{"form": {s.formToken()}, "all": {"1"}}); status != 403 {
			t.Errorf("%s: status %d", path, status)
		}
	}
	if _, err := s.store.Get(t.Context(), rec.Event); err != nil {
		t.Errorf("the event: %v", err)
	}
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

// slow is a store whose reopening waits for a permit.
type slow struct {
	dedup.Store
	permits chan struct{}
	order   chan string
}

func (s slow) Reopen(ctx context.Context, event string, tasks ...dedup.NewTask) (dedup.Record, error) {
	select {
	case <-s.permits:
	case <-ctx.Done():
		return dedup.Record{}, ctx.Err()
	}
	rec, err := s.Store.Reopen(ctx, event, tasks...)
	s.order <- rec.Key.ID
	return rec, err
}

// TestAJobContinuesWithoutItsBrowser reopens more than a browser waits for.
func TestAJobContinuesWithoutItsBrowser(t *testing.T) {
	t.Parallel()
	const events = 2000
	store := slow{newStore(t), make(chan struct{}), make(chan string, events)}
	s := newSite(t, store)
	for n := range events {
		buried(t, store, fmt.Sprintf("k%04d", n))
	}
	s.login(token)
	_, text := s.post("/ui/dead", url.Values{"all": {"1"}, "handler": {"h"}, "reason": {"exhausted"}})
	s.in(text, "Reopening", "all of h, Exhausted", "0</b> of ")
	s.browser.CloseIdleConnections()
	s.browser = nil // it left
	close(store.permits)
	var first []string
	for range events {
		id := <-store.order
		if len(first) < 16 {
			first = append(first, id)
		}
	}
	for _, id := range first {
		if id > "k0040" {
			t.Errorf("%s is among the first that were reopened: %v", id, first)
		}
	}
	s.page.Close() // waits for the job
	w := httptest.NewRecorder()
	s.page.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/jobs", http.NoBody))
	var jobs []inspect.Job
	if err := json.Unmarshal(w.Body.Bytes(), &jobs); err != nil || len(jobs) != 1 {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if j := jobs[0]; j.Total != events || j.Reopened != events || j.Refused != 0 || j.Ended == nil || j.Error != "" {
		t.Errorf("the job is %+v", j)
	}
	if w.Header().Get("Eyelet-API") != "1" {
		t.Errorf("Eyelet-API is %q", w.Header().Get("Eyelet-API"))
	}
}

func TestAJobStopsAndNamesWhatRefused(t *testing.T) {
	t.Parallel()
	store := slow{newStore(t), make(chan struct{}), make(chan string, 100)}
	s := newSite(t, store)
	for n := range 3 {
		buried(t, store, fmt.Sprintf("k%d", n))
	}
	s.login(token)
	s.in(second(s.post("/ui/dead", url.Values{"event": {"gone"}, "handler": {"h"}})), "1 chosen of h")
	store.permits <- struct{}{}
	ended := func(path string) string {
		for range 1000 {
			if _, text := s.get(path); strings.Contains(text, "data-ended") {
				return text
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s does not end", path)
		return ""
	}
	s.in(ended("/ui/jobs/1"), "<b>1</b> refused", "no such event", "/ui/events/gone")
	s.in(second(s.post("/ui/dead", url.Values{"handler": {"h"}})), "Nothing was chosen")
	all := url.Values{"all": {"1"}, "handler": {"h"}, "reason": {"exhausted"}}
	s.post("/ui/dead", all)
	s.post("/ui/dead", all)
	s.in(second(s.post("/ui/dead", all)), "Two other jobs are running")
	s.post("/ui/jobs/2/stop", nil)
	s.in(ended("/ui/jobs/2"), "Ended early: stopped")
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
	s.in(row, "event: row", "&lt;b&gt;an id", "repeated")
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
	for _, path := range []string{"/ui/", "/ui/events/" + rec.Event, "/ui/?q=script"} {
		status, text := s.get(path)
		if status != 200 || strings.Contains(text, "<script>alert") || strings.ContainsAny(text, "\x1b\x00\u202e") {
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
	s.in(text, "curl -X &#39;POST&#39; &#39;https://hooks.example/webhooks/shop&#39;")
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
