package inspect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

// versioned stores an event in a lane, with a task for each handler, and ends these tasks.
func versioned(
	t *testing.T, store dedup.Store, endpoint, version string, how dedup.Kind, handlers ...string,
) string {
	t.Helper()
	c := dedup.Claim{
		Key:     dedup.Key{Principal: endpoint, Endpoint: endpoint, ID: version},
		Payload: dedup.Payload{Producer: endpoint, Endpoint: endpoint, Body: []byte("{}")}, Window: time.Hour,
	}
	for _, name := range handlers {
		task := dedup.NewTask{Handler: name}
		if name != "plain" {
			task.Lane, task.Version = "lane", version
		}
		c.Tasks = append(c.Tasks, task)
	}
	got, err := store.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for range handlers {
		end(t, store, dedup.Result{Kind: how, Reason: "failed"})
	}
	return got[0].Record.Event
}

func fencesIn(t *testing.T, store dedup.Store, query string) (all []inspect.Fence) {
	t.Helper()
	for d := json.NewDecoder(get(t, store, "/fences"+query).Body); d.More(); {
		var f inspect.Fence
		if err := d.Decode(&f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func TestFencesAreListedAndReset(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	newest := versioned(t, store, "shop", "7", dedup.ResultDone, "h", "second")
	versioned(t, store, "store", "3", dedup.ResultDone, "h")
	if n := len(fencesIn(t, store, "")); n != 3 {
		t.Fatalf("%d fences", n)
	}
	one := fencesIn(t, store, "?producer=store")
	if len(one) != 1 || one[0].Endpoint != "store" || one[0].Version != "3" || one[0].Lane != "lane" ||
		len(one[0].ID) != 12 {
		t.Fatalf("%+v", one)
	}
	shop := fencesIn(t, store, "?producer=shop")[0]
	if shop.Event != newest || shop.Moved.IsZero() || shop.Principal != "shop" {
		t.Errorf("%+v", shop)
	}
	for query, status := range map[string]int{
		"": 400, "?producer=shop&id=" + shop.ID: 400, "?id=" + one[0].ID + "&id=000000000000": 404,
	} {
		if w := ask(store, http.MethodDelete, "/fences"+query, ""); w.Code != status {
			t.Errorf("%q: status %d, want %d: %s", query, w.Code, status, w.Body)
		}
	}
	if n := len(fencesIn(t, store, "")); n != 3 {
		t.Errorf("%d fences after requests that were refused", n)
	}
	if w := ask(store, http.MethodDelete, "/fences?id="+one[0].ID, ""); !strings.Contains(w.Body.String(), one[0].ID) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if all := fencesIn(t, store, ""); len(all) != 2 || all[0].Endpoint != "shop" {
		t.Errorf("fences after a reset: %+v", all)
	}
	ask(store, http.MethodDelete, "/fences?producer=shop", "")
	if all := fencesIn(t, store, ""); len(all) != 0 {
		t.Errorf("fences after a reset of all: %+v", all)
	}
}

// A stale task runs again only if it is forced. The other tasks of its event are not forced.
func TestARerunOfAStaleEventAsksForForce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	old := versioned(t, store, "shop", "1", dedup.ResultDone, "h", "plain")
	versioned(t, store, "shop", "2", dedup.ResultDone, "h")
	path := "/events/" + old + "/rerun"
	if w := ask(store, http.MethodPost, path, ""); w.Code != 409 || !strings.Contains(w.Body.String(), "force") {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if w := ask(store, http.MethodPost, path, `{"handlers":["plain"]}`); w.Code != 200 {
		t.Errorf("the other handler: status %d: %s", w.Code, w.Body)
	}
	if w := ask(store, http.MethodPost, path, `{"force":true}`); w.Code != 409 {
		t.Errorf("with an open task: status %d: %s", w.Code, w.Body)
	}
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	if _, err := store.Rerun(t.Context(), old, dedup.Rerun{Handlers: []string{"h"}}); err != nil {
		t.Fatal(err)
	}
	w := ask(store, http.MethodPost, path, `{"force":true}`)
	if rec, err := store.Get(t.Context(), old); err != nil || w.Code != 409 || rec.Tasks[1].Open() {
		t.Errorf("with an open stale task: status %d: %s: %+v", w.Code, w.Body, rec.Tasks)
	}
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	if w := ask(store, http.MethodPost, path, `{"force":true}`); w.Code != 200 {
		t.Fatalf("forced: status %d: %s", w.Code, w.Body)
	}
	rec, err := store.Get(t.Context(), old)
	if err != nil || !rec.Tasks[0].Open() || !rec.Tasks[1].Open() || !rec.Tasks[0].Unfenced || rec.Tasks[1].Unfenced {
		t.Errorf("%+v, %v", rec.Tasks, err)
	}
	if w := ask(store, http.MethodPost, "/events/"+old+"/reopen", `{"force":true}`); w.Code != 400 {
		t.Errorf("force for a reopened event: status %d", w.Code)
	}
}

// A job counts the events that it reopened in vain, and says so before in a dry run.
func TestAJobCountsWhatIsStale(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for n := range 4 {
		versioned(t, store, "shop", fmt.Sprint(n), dedup.ResultDead, "h")
	}
	versioned(t, store, "shop", "2.5", dedup.ResultDone, "h")
	order := inspect.JobRequest{Action: "reopen", Filter: "state=dead", DryRun: true}
	for range 2 {
		stale := 0
		for _, line := range jobLines(t, store, order) {
			if line.Stale {
				stale++
			}
		}
		if stale != 3 {
			t.Errorf("dry run %v: %d events are stale, want 3", order.DryRun, stale)
		}
		order.DryRun = false
	}
}

func TestAJobForcesStaleEventsOnlyIfAsked(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	done := versioned(t, store, "shop", "2.5", dedup.ResultDone, "h")
	versioned(t, store, "shop", "9", dedup.ResultDone, "h")
	again := inspect.JobRequest{Action: "rerun", Events: []string{done}, DryRun: true}
	for _, dry := range []bool{true, false} {
		for _, force := range []bool{false, true} {
			again.DryRun, again.Force = dry, force
			if line := jobLines(t, store, again)[1]; (line.Error == "") != force || line.Stale == force && dry {
				t.Errorf("dry run %v, force %v: %+v", dry, force, line)
			}
		}
	}
}

func TestThePageShowsAndForcesStaleEvents(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	s := newSite(t, store)
	versioned(t, store, "shop", "5", dedup.ResultDone, "h")
	old := versioned(t, store, "shop", "1", dedup.ResultDone, "h")
	versioned(t, store, "shop", "2", dedup.ResultDead, "h")
	s.login(token)
	const force = `name="force"`
	s.in(second(s.get("/ui/events/"+old)), `<span class="chip dup">`, "stale</span>", "Attempt 1: stale", force)
	s.in(second(s.post("/ui/events/"+old+"/rerun", nil)), "only with force")
	s.in(second(s.post("/ui/events/"+old+"/rerun", url.Values{"force": {"1"}})), "It runs again")
	end(t, store, dedup.Result{Kind: dedup.ResultDone})
	if _, text := s.get("/ui/events/" + old); strings.Contains(text, force) || strings.Contains(text, "stale</span>") {
		t.Error("a forced event is still stale")
	}
	s.post("/ui/dead", url.Values{"all": {"1"}, "handler": {"h"}, "reason": {"failed"}})
	s.in(s.ended("/ui/jobs/1"), "reopened. 1 of 1 are older than what was handled and will not run")
}
