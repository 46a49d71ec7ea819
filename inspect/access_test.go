package inspect_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
)

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
	for range 20 { // a check of a link uses up no code, and is not a wrong token
		res, err := s.browser.Head(s.server.URL + path)
		if _, text := s.read(res, err); res.StatusCode != 200 {
			t.Fatalf("HEAD gets %d: %s", res.StatusCode, text)
		}
	}
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
		store := memstore.New(memstore.Options{})
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

func TestTheButtonRunsAHandledEventAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	event := claim(t, s.store, "k", "order.paid", []byte("{}")).Event
	s.login(token)
	path := "/ui/events/" + event
	if _, text := s.get(path); strings.Contains(text, "Run again") {
		t.Error("an open event can run again")
	}
	end(t, s.store, dedup.Result{Kind: dedup.ResultDone})
	s.in(second(s.get(path)), `id="rerun"`, "happens a second time")
	s.in(second(s.post(path+"/rerun", url.Values{"handler": {"nobody"}})), "no task of the handler")
	s.in(second(s.post(path+"/rerun", nil)), "It runs again.", "An operator runs it again", "Due: waits for a worker")
	end(t, s.store, dedup.Result{Kind: dedup.ResultDone})
	s.in(second(s.get(path)), "Attempt 1: handled", "An operator runs it again", "Attempt 2: handled")
}

// The page lets a handler of the producer run an event that none wanted, once.
func TestTheButtonRunsAnEventThatNoHandlerWanted(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	got, err := s.store.Claim(t.Context(), dedup.Claim{
		Key: dedup.Key{Principal: "shop", Endpoint: "shop", ID: "k"}, Note: "no handler; conditions not met: paid",
		Payload:  dedup.Payload{Producer: "shop", Endpoint: "shop", Method: "POST", Body: []byte("{}")},
		Response: dedup.Response{Status: 202},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := "/ui/events/" + got[0].Record.Event
	s.login(token)
	s.in(second(s.get(path)), "No handler; conditions not met: paid", `id="add"`, `<option value="shop/paid">`)
	s.login(readToken)
	if _, text := s.get(path); strings.Contains(text, `id="add"`) || !strings.Contains(text, "conditions not met") {
		t.Errorf("a reader may run it: %s", text)
	}
	s.login(token)
	s.in(second(s.post(path+"/reopen", url.Values{"handler": {"shop/paid"}})), "Reopened.", "Due: waits for a worker")
	end(t, s.store, dedup.Result{Kind: dedup.ResultDone})
	if _, text := s.get(path); strings.Contains(text, `id="add"`) || !strings.Contains(text, "Attempt 1: handled") {
		t.Errorf("it has no task: %s", text)
	}
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
