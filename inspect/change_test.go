package inspect_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

// ask sends a request to the API; a body is JSON.
func ask(store dedup.Store, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	inspect.API(store).ServeHTTP(w, r)
	return w
}

// end takes the next task and finishes it.
func end(t *testing.T, store dedup.Store, how dedup.Result) *dedup.Work {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	work, err := store.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Finish(ctx, work[0].Lease, how); err != nil {
		t.Fatal(err)
	}
	return &work[0]
}

func kill(t *testing.T, store dedup.Store) {
	t.Helper()
	end(t, store, dedup.Result{Kind: dedup.ResultDead, Reason: "exhausted", Err: "no"})
}

func stateOf(t *testing.T, store dedup.Store, event string) dedup.State {
	t.Helper()
	r, err := store.Get(context.Background(), event)
	if err != nil {
		return 0
	}
	return r.State()
}

func TestADeadLetterIsReopenedAndKeepsItsAnswer(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	event := claim(t, store, "k", "order.paid", []byte("{}")).Event
	kill(t, store)
	w := ask(store, http.MethodPost, "/events/"+event+"/reopen", "")
	var line inspect.Event
	if err := json.Unmarshal(w.Body.Bytes(), &line); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d: %s (%v)", w.Code, w.Body, err)
	}
	if line.Event != event || line.State != "pending" || line.Attempt != 0 || line.Status != 202 {
		t.Errorf("line is %+v", line)
	}
	if got := end(t, store, dedup.Result{Kind: dedup.ResultDone}); got.Task().Attempt != 1 ||
		got.Record.Event != event {
		t.Errorf("work is %+v", got)
	}
}

func TestAHandledEventRunsAgain(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	event := claim(t, store, "k", "order.paid", []byte("{}")).Event
	path := "/events/" + event + "/rerun"
	if w := ask(store, http.MethodPost, path, ""); w.Code != http.StatusConflict {
		t.Errorf("an open event: status %d", w.Code)
	}
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	for body, status := range map[string]int{`{"handlers":["nobody"]}`: 409, `{"handler":"ship"}`: 400, "x": 400} {
		if w := ask(store, http.MethodPost, path, body); w.Code != status {
			t.Errorf("%s: status %d: %s", body, w.Code, w.Body)
		}
	}
	w := ask(store, http.MethodPost, path, "")
	var line inspect.Event
	if err := json.Unmarshal(w.Body.Bytes(), &line); err != nil || line.State != "pending" || line.Status != 202 {
		t.Fatalf("status %d: %s (%v)", w.Code, w.Body, err)
	}
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	r, err := store.Get(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	all := inspect.Details(r).Tasks[0].Attempts
	if len(all) != 2 || all[0].State != "done" || all[0].Reopened == nil || all[1].Reopened != nil {
		t.Errorf("attempts: %+v", all)
	}
}

func TestATaskIsAddedToAnEventWithoutAHandler(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	got, err := store.Claim(context.Background(), dedup.Claim{Key: dedup.Key{ID: "k"}, Note: "no handler"})
	if err != nil {
		t.Fatal(err)
	}
	event := got[0].Record.Event
	if w := ask(store, http.MethodPost, "/events/"+event+"/reopen", ""); w.Code != http.StatusConflict {
		t.Errorf("without a handler: status %d", w.Code)
	}
	if w := ask(store, http.MethodPost, "/events/"+event+"/reopen",
		`{"tasks":[{"handler":"ship","lane":"l"}]}`); w.Code != http.StatusOK {
		t.Errorf("with a handler: status %d: %s", w.Code, w.Body)
	}
	if task := end(t, store, dedup.Result{Kind: dedup.ResultDone}).Task(); task.Handler != "ship" || task.Lane != "l" {
		t.Errorf("task is %+v", task)
	}
}

func TestAWaitingTaskIsMadeDue(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	event := claim(t, store, "k", "order.paid", nil).Event
	end(t, store, dedup.Result{Kind: dedup.ResultRetry, After: 100 * time.Hour})
	if w := ask(store, http.MethodPost, "/events/"+event+"/retry", ""); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if task := end(t, store, dedup.Result{Kind: dedup.ResultDone}).Task(); task.Attempt != 2 {
		t.Errorf("task is %+v", task)
	}
}

func TestPurgedEventsAreForgotten(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	event := claim(t, store, "k", "order.paid", nil).Event
	if w := ask(store, http.MethodDelete, "/events/"+event, ""); w.Code != http.StatusConflict ||
		stateOf(t, store, event) != dedup.Pending {
		t.Errorf("an open event: status %d", w.Code)
	}
	kill(t, store)
	if w := ask(store, http.MethodDelete, "/events/"+event, ""); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Errorf("a dead letter: status %d: %s", w.Code, w.Body)
	}
	if state := stateOf(t, store, event); state != 0 {
		t.Errorf("it is still there: %v", state)
	}
}

func TestRefusalsAreProblems(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dead := claim(t, store, "dead", "order.paid", nil).Event
	kill(t, store)
	done := claim(t, store, "done", "order.paid", nil).Event
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	large := `{"tasks":[{"handler":"` + strings.Repeat("x", 64<<10) + `"}]}`
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		holds                    string
	}{
		{"reopen nobody", "POST", "/events/nobody/reopen", "", 404, "no such event"},
		{"rerun nobody", "POST", "/events/nobody/rerun", "", 404, "no such event"},
		{"retry nobody", "POST", "/events/nobody/retry", "", 404, "no such event"},
		{"forget nobody", "POST", "/events/nobody/forget", "", 404, "no such event"},
		{"purge nobody", "DELETE", "/events/nobody", "", 404, "no such event"},
		{"get nobody", "GET", "/events/nobody", "", 404, "no such event"},
		{"raw nobody", "GET", "/events/nobody/raw", "", 404, "no such event"},
		{"reopen what is done", "POST", "/events/" + done + "/reopen", "", 409, "nothing to reopen"},
		{"retry what is done", "POST", "/events/" + done + "/retry", "", 409, "no waiting task"},
		{"a large body", "POST", "/events/" + dead + "/reopen", large, 413, "too large"},
		{"no JSON", "POST", "/events/" + dead + "/reopen", "x", 400, "not a reopen request"},
		{"two requests", "POST", "/events/" + dead + "/reopen", "{}{}", 400, "more than one"},
		{"an unknown member", "POST", "/events/" + dead + "/reopen", `{"task":[]}`, 400, "task"},
		{"no handler", "POST", "/events/" + dead + "/reopen", `{"tasks":[{"lane":"l"}]}`, 400, "without a handler"},
		{"purge of a list", "DELETE", "/events", "", 405, ""},
		{"get of a change", "GET", "/events/" + dead + "/reopen", "", 405, ""},
	} {
		w := ask(store, tt.method, tt.path, tt.body)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.holds) {
			t.Errorf("%s: status %d, want %d with %q: %.300s", tt.name, w.Code, tt.status, tt.holds, w.Body)
		}
		if tt.holds != "" && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: it is %q", tt.name, w.Header().Get("Content-Type"))
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/events/"+dead+"/reopen", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "text/plain")
	w := httptest.NewRecorder()
	inspect.API(store).ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("a form: status %d", w.Code)
	}
	if state := stateOf(t, store, dead); state != dedup.Dead {
		t.Errorf("one of them changed the event: %v", state)
	}
}

// failing is a store that fails.
type failing struct{ dedup.Store }

func (failing) Reopen(context.Context, string, ...dedup.NewTask) (dedup.Record, error) {
	return dedup.Record{}, &dedup.ErrUnavailable{Reason: "disk low"}
}

func TestAFailingStoreIs503(t *testing.T) {
	t.Parallel()
	if w := ask(failing{newStore(t)}, http.MethodPost, "/events/x/reopen",
		""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "disk low") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestTheRawDeliveryIsADownload(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	body := []byte("<script>\r\n\x00\xff")
	r := claim(t, store, "k", "order.paid", body)
	w := get(t, store, "/events/"+r.Event+"/raw")
	if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), "\r\n\r\n"+string(body)) {
		t.Errorf("status %d:\n%q", w.Code, w.Body)
	}
	want := http.Header{
		"Content-Type": {"application/octet-stream"}, "X-Content-Type-Options": {"nosniff"},
		"Cache-Control":       {"no-store"},
		"Content-Disposition": {"attachment; filename=" + r.Event + ".http"},
		"Content-Length":      {w.Header().Get("Content-Length")},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestListsSelectByReason(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	claim(t, store, "a", "order.paid", nil)
	kill(t, store)
	claim(t, store, "b", "order.paid", nil)
	for reason, want := range map[string]int{"exhausted": 1, "rejected": 0} {
		w := get(t, store, "/events?reason="+reason)
		if n := strings.Count(w.Body.String(), "\n"); n != want || w.Code != http.StatusOK {
			t.Errorf("reason %s: %d lines, want %d", reason, n, want)
		}
	}
}
