package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
)

// jobLines runs a job and returns its lines.
func jobLines(t *testing.T, store dedup.Store, order inspect.JobRequest) (lines []inspect.JobLine) {
	t.Helper()
	body, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	w := ask(store, http.MethodPost, "/jobs", string(body))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != inspect.NDJSON {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for d := json.NewDecoder(w.Body); d.More(); {
		var line inspect.JobLine
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) < 2 || lines[0].Selected == nil || lines[len(lines)-1].Ended == nil {
		t.Fatalf("no whole job: %+v", lines)
	}
	return lines
}

func TestAJobNamesItsEventsOrSelectsThem(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, tt := range []struct{ body, want string }{
		{`{}`, `"" is no action`}, {`{"action":"purge","filter":"limit=0"}`, `"purge" is no action`},
		{`{"action":"retry"}`, "no events are selected"}, {`{"dry_run":true}`, "no events are selected"},
		{`{"action":"retry","events":["a"],"filter":"limit=0"}`, "both named and selected"},
		{`{"action":"retry","filter":"stat=dead"}`, `parameter "stat": unknown`},
		{`{"action":"retry","filter":"%zz"}`, "not a query"}, {`{"action":"retry","filter":"text=a"}`, "may end early"},
		{`{"action":"retry","events":["a"],"handlers":["h"]}`, "handlers are for rerun"},
		{`{"action":"forget","events":["a"],"tasks":[{"handler":"h"}]}`, "tasks are for reopen"},
		{`{"action":"reopen","events":["a"],"tasks":[{}]}`, "a task without a handler"},
		{`{"action":"forget","events":["a"],"state":"gone"}`, "is not a state"},
		{`{"action":"retry","events":[` + strings.Repeat(`"a",`, inspect.MaxNamed) + `"a"]}`, "more than 10000"},
	} {
		w := ask(store, http.MethodPost, "/jobs", tt.body)
		var problem struct{ Title string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusBadRequest ||
			!strings.Contains(problem.Title, tt.want) {
			t.Errorf("%.60s: status %d: %s", tt.body, w.Code, w.Body)
		}
	}
}

func TestAJobTakesTheOldestFirstAndNamesWhatItRefuses(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	var events []string
	for n := range 3 {
		events = append(events, buried(t, store, fmt.Sprint("k", n)).Event)
	}
	order := inspect.JobRequest{Action: "forget", State: "dead", DryRun: true,
		Events: []string{"gone", events[2], events[0]}}
	var got []string
	for _, line := range jobLines(t, store, order)[1:4] {
		got = append(got, line.Event+" "+line.Error)
	}
	if want := []string{events[0] + " ", events[2] + " ", "gone no such event"}; !slices.Equal(got, want) {
		t.Errorf("lines are %q, want %q", got, want)
	}
	all := inspect.JobRequest{Action: "reopen", Filter: "reason=exhausted&state=dead"}
	if lines := jobLines(t, store, all); len(lines) != 5 {
		t.Errorf("lines are %+v", lines)
	}
	order.DryRun = false
	for _, line := range jobLines(t, store, order)[1:3] {
		if line.Error != "it is not dead: it is pending" {
			t.Errorf("line is %+v", line)
		}
	}
}

// lister counts the lists of quarantined deliveries.
type lister struct {
	dedup.Store
	lists *atomic.Int32
}

func (l lister) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	if f.Quarantined {
		l.lists.Add(1)
	}
	return l.Store.List(ctx, f)
}

func TestForgettingManyListsTheQuarantinedOnce(t *testing.T) {
	t.Parallel()
	store := lister{newStore(t), &atomic.Int32{}}
	for n := range 20 {
		event := buried(t, store, fmt.Sprint("k", n)).Event
		key := dedup.Key{Space: dedup.SpaceQuarantine + "same_bytes", ID: fmt.Sprint("copy", n)}
		if _, err := store.Claim(t.Context(), dedup.Claim{Key: key,
			Quarantine: &dedup.Quarantine{Reason: "same_bytes", Of: event}}); err != nil {
			t.Fatal(err)
		}
	}
	if lines := jobLines(t, store, inspect.JobRequest{Action: "forget", Filter: "reason=exhausted"}); len(lines) != 22 {
		t.Fatalf("%d lines: %+v", len(lines), lines)
	}
	if n := store.lists.Load(); n != 2 {
		t.Errorf("%d lists, want one before and one after", n)
	}
	if w := get(t, store, "/events"); w.Body.Len() != 0 {
		t.Errorf("left are %s", w.Body)
	}
}

func TestAJobEndsWithItsClient(t *testing.T) {
	t.Parallel()
	store := slow{newStore(t), make(chan struct{}), make(chan string, 100)}
	for n := range 40 {
		buried(t, store, fmt.Sprint("k", n))
	}
	page := inspect.Page(inspect.Options{Store: store, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(page.Close)
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		page.API().ServeHTTP(w, r)
	}))
	defer srv.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/jobs",
		strings.NewReader(`{"action":"reopen","filter":"state=dead"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, want := range []string{`{"selected":{"total":40,"quarantined":0}}`, `{"event":"`} {
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("%v in %q", err, line)
		}
		if len(store.order) == 0 {
			store.permits <- struct{}{}
		}
	}
	leave()
	<-ended
	if n := len(store.order); n != 1 {
		t.Errorf("%d were reopened, want 1", n)
	}
}

func TestAJobEndsWithTheInspector(t *testing.T) {
	t.Parallel()
	store := slow{newStore(t), make(chan struct{}), make(chan string, 100)}
	buried(t, store, "k")
	page := inspect.Page(inspect.Options{Store: store})
	srv := httptest.NewServer(page.API())
	defer srv.Close()
	res, err := srv.Client().Post(srv.URL+"/jobs", "application/json",
		strings.NewReader(`{"action":"reopen","filter":"state=dead"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page.Close()
	text, err := io.ReadAll(res.Body)
	if want := `{"ended":{"error":"context canceled"}}` + "\n"; err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("%v in %s", err, text)
	}
}
