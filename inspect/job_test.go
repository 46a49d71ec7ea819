package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

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

// TestAJobContinuesWithoutItsBrowser reopens more than a browser waits for: with EYELET_LARGE
// 100,000 dead letters.
func TestAJobContinuesWithoutItsBrowser(t *testing.T) {
	t.Parallel()
	events := 2000
	if os.Getenv("EYELET_LARGE") != "" {
		events = 100_000
	}
	store := slow{newStore(t), make(chan struct{}), make(chan string, events)}
	s := newSite(t, store)
	for n := range events {
		buried(t, store, fmt.Sprintf("k%06d", n))
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
		if id > "k000040" {
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
	s.in(s.ended("/ui/jobs/1"), "<b>1</b> refused", "no such event", "/ui/events/gone")
	s.in(second(s.post("/ui/dead", url.Values{"handler": {"h"}})), "Nothing was chosen")
	all := url.Values{"all": {"1"}, "handler": {"h"}, "reason": {"exhausted"}}
	s.post("/ui/dead", all)
	s.post("/ui/dead", all)
	s.in(second(s.post("/ui/dead", all)), "Two other jobs are running")
	s.post("/ui/jobs/2/stop", nil)
	s.in(s.ended("/ui/jobs/2"), "Ended early: stopped")
}
