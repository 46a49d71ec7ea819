package inspect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// oneHandler is a handler that notes what is asked for.
type oneHandler struct{ receiver.Control }

func (h *oneHandler) Controls() []receiver.Control { return []receiver.Control{h.Control} }

func (h *oneHandler) Pause(_ context.Context, handler, reason string) error {
	if handler != h.Handler {
		return fmt.Errorf("handler %q: %w", handler, receiver.ErrUnknownHandler)
	}
	h.Paused, h.By, h.Reason, h.Since = true, receiver.ByOperator, reason, time.Now()
	return nil
}

func (h *oneHandler) Resume(_ context.Context, handler string) error {
	if handler == "answers" {
		return receiver.ErrAnswering
	}
	h.Control = receiver.Control{Handler: h.Handler}
	return nil
}

func TestHandlersArePausedThroughTheAPI(t *testing.T) {
	t.Parallel()
	h := &oneHandler{receiver.Control{Handler: "h"}}
	call := func(method, path, kind, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		inspect.HandlersAPI(h).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const kind, form, last = "application/json", "application/x-www-form-urlencoded", "a person paused it"
	for _, tc := range []struct {
		path, kind, body string
		status           int
		reason           string
	}{
		{"/handlers/pause", kind, `{"handler":"h","reason":"noon"}`, http.StatusNoContent, "noon"},
		{"/handlers/resume", kind, `{"handler":"h"}`, http.StatusNoContent, ""},
		{"/handlers/pause", kind, `{"handler":"h"}`, http.StatusNoContent, last},
		{"/handlers/pause", kind, `{"handler":"g"}`, http.StatusNotFound, last},
		{"/handlers/resume", kind, `{"handler":"answers"}`, http.StatusConflict, last},
		{"/handlers/resume", kind, `{"name":"h"}`, http.StatusBadRequest, last},
		{"/handlers/resume", form, "handler=h", http.StatusBadRequest, last},
	} {
		status, body := call(http.MethodPost, tc.path, tc.kind, tc.body)
		if status != tc.status || h.Reason != tc.reason {
			t.Errorf("%s %s: status %d, reason %q: %s", tc.path, tc.body, status, h.Reason, body)
		}
	}
	_, body := call(http.MethodGet, "/handlers", kind, "")
	if !strings.HasPrefix(body, `[{"handler":"h","paused":true,`) {
		t.Error(body)
	}
}

func TestThePagePausesHandlersForThoseWhoMayChange(t *testing.T) {
	t.Parallel()
	h := &oneHandler{receiver.Control{Handler: "h<1>"}}
	s := newSite(t, newStore(t))
	s.page = s.page.Renewed(inspect.Options{Store: s.store, Controls: h})
	s.server.Config.Handler = s.page
	s.login(readToken)
	if _, text := s.get("/ui/health"); strings.Contains(text, "Pause</button>") {
		t.Error("a reader sees the button")
	}
	form := func() url.Values { return url.Values{"handler": {"h<1>"}, "action": {"pause"}, "reason": {"<noon>"}} }
	if status, _ := s.post("/ui/handlers", form()); status != http.StatusForbidden || h.Paused {
		t.Errorf("a reader got %d", status)
	}
	s.browser = s.newBrowser()
	s.login(token)
	_, text := s.post("/ui/handlers", form())
	s.in(text, "Paused.", "<dt>h&lt;1&gt;</dt>", "by the operator: &lt;noon&gt;", ">Resume</button>")
	if !h.Paused {
		t.Error("it is not paused")
	}
	_, text = s.post("/ui/handlers", url.Values{"handler": {"h<1>"}, "action": {"resume"}})
	s.in(text, "Resumed.", ">Pause</button>")
	other := form()
	other.Set("handler", "g")
	status, text := s.post("/ui/handlers", other)
	if s.in(text, "no handler has this name"); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
}
