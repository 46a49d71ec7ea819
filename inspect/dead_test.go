package inspect_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// counting is a store that counts the records that its lists yield.
type counting struct {
	dedup.Store
	records int
}

func (c *counting) List(ctx context.Context, f dedup.Filter) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		for r, err := range c.Store.List(ctx, f) {
			if c.records++; !yield(r, err) {
				return
			}
		}
	}
}

var (
	olderDead = regexp.MustCompile(`href="(/ui/dead\?[^"]*before=[^"]*)"`)
	deadRow   = regexp.MustCompile(`name="event" value="([^"]+)"`)
)

// TestAPageOfDeadLettersDoesNotReadThemAll goes through 1,300 dead letters of two handlers page by
// page, and through a group of them.
func TestAPageOfDeadLettersDoesNotReadThemAll(t *testing.T) {
	t.Parallel()
	store := &counting{Store: newStore(t)}
	s := newSite(t, store)
	const events, page, pageOfOne = 1300, 1000, 200
	buryMany(t, store, events)
	s.login(token)
	store.records = 0
	walk := func(path, count string, most, pages int) {
		t.Helper()
		seen := map[string]bool{}
		for n := 1; path != ""; n++ {
			before := store.records
			_, text := s.get(path)
			if read := store.records - before; read > most {
				t.Errorf("page %d read %d records, want at most %d", n, read, most)
			}
			if n == 1 {
				s.in(text, count, "back to", "Reopen all</button>")
			}
			for _, found := range deadRow.FindAllStringSubmatch(text, -1) {
				if id := found[1]; seen[id] {
					t.Errorf("%s is on two pages", id)
				} else {
					seen[id] = true
				}
			}
			path = ""
			if link := olderDead.FindStringSubmatch(text); link != nil {
				path = strings.ReplaceAll(link[1], "&amp;", "&")
			}
			if path == "" && n != pages || n > pages {
				t.Fatalf("page %d is the last, want %d", n, pages)
			}
		}
		if len(seen) == 0 {
			t.Error("no dead letter was shown")
		}
	}
	walk("/ui/dead", "500 events here", page, events/page+1)
	walk("/ui/dead?handler=h1&reason=exhausted", "200 events here", pageOfOne, (events/2)/pageOfOne+1)
	if _, text := s.get("/ui/dead?before=x"); !strings.Contains(text, "500 events here") {
		t.Error("a cursor that is not a number hides the dead letters")
	}
}

// buryMany stores dead letters of the handlers h0 and h1 in turn.
func buryMany(t *testing.T, store dedup.Store, events int) {
	t.Helper()
	claims := make([]dedup.Claim, events)
	for n := range claims {
		claims[n] = dedup.Claim{
			Key:     dedup.Key{Principal: "shop", Endpoint: "shop", ID: fmt.Sprintf("k%06d", n)},
			Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Body: []byte("{}")},
			Tasks:   []dedup.NewTask{{Handler: fmt.Sprintf("h%d", n%2)}},
			Window:  time.Hour,
		}
	}
	if _, err := store.Claim(t.Context(), claims...); err != nil {
		t.Fatal(err)
	}
	for left := events; left > 0; {
		work, err := store.Take(t.Context(), dedup.Want{Tasks: left, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range work {
			if err := store.Finish(t.Context(), w.Lease, dedup.Result{
				Kind: dedup.ResultDead, Reason: "exhausted", Err: "no route to the ledger",
			}); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(work)
	}
}

// TestReopeningAllLeavesQuarantinedDeliveries: they have never run, and may be attacks.
func TestReopeningAllLeavesQuarantinedDeliveries(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	rec := buried(t, s.store, "k")
	aside, err := s.store.Claim(t.Context(), dedup.Claim{
		Key:        dedup.Key{Principal: "shop", Endpoint: "shop", Space: dedup.SpaceQuarantine + "1", ID: "k"},
		Payload:    dedup.Payload{Producer: "shop", Endpoint: "shop", Body: []byte("{}")},
		Tasks:      []dedup.NewTask{{Handler: "h"}},
		Quarantine: &dedup.Quarantine{Reason: "conflict", Of: rec.Event},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.login(token)
	reasons := []string{"exhausted", "conflict", ""}
	for _, task := range aside[0].Record.Tasks {
		reasons = append(reasons, task.Reason)
	}
	for _, handler := range []string{"h", "shop", ""} { // also a group as the page names it: endpoint and reason
		for _, reason := range reasons {
			_, text := s.post("/ui/dead", url.Values{"all": {"1"}, "handler": {handler}, "reason": {reason}})
			job := regexp.MustCompile(`/ui/jobs/\d+`).FindString(text)
			if job != "" {
				text = s.ended(job)
			}
			if !strings.Contains(text, "data-ended") {
				t.Fatalf("the job does not end: %s", text)
			}
		}
	}
	for event, want := range map[string]dedup.State{
		rec.Event: dedup.Pending, aside[0].Record.Event: dedup.Dead,
	} {
		if got, err := s.store.Get(t.Context(), event); err != nil || got.State() != want {
			t.Errorf("%s is %v, %v; want %v", event, got.State(), err, want)
		}
	}
}
