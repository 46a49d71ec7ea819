package inspect_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// inTime runs a test with a clock of its own, and a page over a store in memory.
func inTime(t *testing.T, o inspect.Options, test func(t *testing.T, store dedup.Store, page *inspect.Inspector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		defer store.Close() //nolint:errcheck // in memory
		o.Store, o.Token = store, token
		page := inspect.Page(o)
		defer page.Close()
		synctest.Wait()
		test(t, store, page)
	})
}

// happened observes an accepted delivery, a duplicate, a quarantined one, a refused one and a
// handshake, and three attempts: a success, a failure and a stale one.
func happened(page *inspect.Inspector) {
	for _, o := range []receiver.Observation{
		{Kind: receiver.KindDelivery, Status: 202, Code: "accepted", Took: 3 * time.Millisecond},
		{Kind: receiver.KindDelivery, Status: 202, Code: "replayed", Took: time.Hour},
		{Kind: receiver.KindDelivery, Status: 202, Code: "quarantined", Took: time.Hour},
		{Kind: receiver.KindDelivery, Status: 401, Code: "signature_mismatch", Took: time.Hour},
		{Kind: receiver.KindDelivery, Status: 200, Code: "handshake", Took: time.Hour},
		{Kind: receiver.KindAttempt, State: dedup.Done, Took: time.Second},
		{Kind: receiver.KindAttempt, State: dedup.Pending, Took: time.Minute},
		{Kind: receiver.KindAttempt, State: dedup.Done, Reason: dedup.ReasonStale, Took: time.Hour},
		{Kind: receiver.KindMissed},
	} {
		o.Endpoint = "shop"
		page.Observe(context.Background(), o)
	}
}

func pointsOf(t *testing.T, page *inspect.Inspector, query string) (points []inspect.Point) {
	t.Helper()
	w := httptest.NewRecorder()
	page.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/series"+query, http.NoBody))
	if err := json.Unmarshal(w.Body.Bytes(), &points); err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	return points
}

func TestTheSeriesCountWhatAReceiverDoes(t *testing.T) {
	t.Parallel()
	inTime(t, inspect.Options{}, func(t *testing.T, store dedup.Store, page *inspect.Inspector) {
		began := time.Now().UTC()
		claim(t, store, "k", "order.paid", []byte("{}"))
		happened(page)
		time.Sleep(150 * time.Second)
		synctest.Wait()
		happened(page)
		got := pointsOf(t, page, "")
		if len(got) != 3 || !got[0].Time.Equal(began) || got[1].Accepted != 0 || got[1].AcceptP50 != 0 {
			t.Fatalf("the minutes are %+v", got)
		}
		for query, times := range map[string]uint32{"?step=15m": 2, "?step=1h": 2, "?step=6h": 2, "?step=1m": 1} {
			all := pointsOf(t, page, query)
			p := all[len(all)-1]
			for what, seconds := range map[float64]float64{
				p.AcceptP50: .003, p.AcceptP95: .003, p.RunP50: 1, p.RunP95: 60,
			} {
				if math.Abs(what/seconds-1) > .07 {
					t.Errorf("%s: %v instead of %v s", query, what, seconds)
				}
			}
			p.AcceptP50, p.AcceptP95, p.RunP50, p.RunP95, p.Time = 0, 0, 0, 0, time.Time{}
			want := inspect.Point{
				Accepted: times, Duplicates: 2 * times, Refused: times, Attempts: 2 * times, Failed: times, Waiting: 1,
				Oldest: 140,
			}
			if p != want {
				t.Errorf("%s: %+v, want %+v", query, p, want)
			}
		}
	})
	w := httptest.NewRecorder()
	page := inspect.Page(inspect.Options{Store: newStore(t)})
	t.Cleanup(page.Close)
	page.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/series?step=2m", http.NoBody))
	if w.Code != 400 || !strings.Contains(w.Body.String(), "2m") {
		t.Errorf("an unknown step: status %d: %s", w.Code, w.Body)
	}
}

var chartLinks = regexp.MustCompile(`<a href="([^"]*)" tabindex="-1"><title>([^<]*)`)

// TestTheChartsFilterTheList follows the links of the bars, and those of the table.
func TestTheChartsFilterTheList(t *testing.T) {
	t.Parallel()
	inTime(t, inspect.Options{Prefix: "/ops"}, func(t *testing.T, store dedup.Store, page *inspect.Inspector) {
		cookie := enter(page, "POST", "/ops/login", "", "token="+token).Header().Get("Set-Cookie")
		look := func(path string) string {
			w := enter(page, "GET", html.UnescapeString(path), cookie, "")
			if w.Code != 200 {
				t.Errorf("%s: status %d", path, w.Code)
			}
			return w.Body.String()
		}
		time.Sleep(59500 * time.Millisecond)
		began, later := time.Now(), time.Now().Add(time.Minute)
		rec := claim(t, store, "first", "order.paid", []byte("{}"))
		happened(page)
		time.Sleep(time.Minute)
		claim(t, store, "second", "order.paid", []byte("{}"))
		happened(page)
		for _, path := range []string{
			"/ops/", "/ops/events/" + rec.Event, "/ops/health", "/ops/health?range=24h", "/ops/health?range=7d",
			"/ops/health?range=30d", "/ops/health?range=other",
		} {
			text := look(path)
			if strings.Contains(text, "style=") || strings.Contains(text, "<script>") {
				t.Errorf("%s needs another policy: %s", path, text)
			}
			links := chartLinks.FindAllStringSubmatch(text, -1)
			n := strings.Count(text, "<title>") - strings.Count(text, "not run<")
			if len(links) < 4 || n != len(links)+1 {
				t.Errorf("%s has %d bars and %d titles: %s", path, len(links), n, text)
			}
			for _, link := range links {
				u, err := url.Parse(html.UnescapeString(link[1]))
				since, err1 := time.Parse(time.RFC3339[:16]+"Z07:00", u.Query().Get("since"))
				until, err2 := time.Parse(time.RFC3339[:16]+"Z07:00", u.Query().Get("until"))
				if err := errors.Join(err, err1, err2); err != nil {
					t.Fatal(err)
				}
				list := look(link[1])
				in := func(kind string, at ...time.Time) (n int) {
					for _, one := range at {
						if cmp.Or(u.Query().Get("show"), kind) == kind && !one.Before(since) && one.Before(until) {
							n++
						}
					}
					return n
				}
				for what, want := range map[string]int{
					"shop · first<": in("accepted", began), "shop · second<": in("accepted", later),
					"Signature mismatch":    in("refused", began, later),
					"</svg><span>duplicate": in("duplicate", began, later),
				} {
					if n := strings.Count(list, what); n != want {
						t.Errorf("%s of %s has %q %d times, want %d", link[1], path, what, n, want)
					}
				}
			}
		}
		text := look("/ops/health")
		for _, want := range []string{
			"<title>1 Jan 00:00: accepted 1, duplicate 2, refused 1</title>",
			"<title>1 Jan 00:01: succeeded 1, failed 1</title>",
			"p95 1 min", "accepted <b>2</b>", "duplicate <b>4</b>", `aria-current="true">1 hour`,
			`<a class="link" href="/ops/?since=2000-01-01T00%3A00Z&amp;until=2000-01-01T00%3A01Z">1 Jan 00:00</a></th>`,
			`<rect class="hit" x="295" y="0" width="5" height="100"/>`,
			`<rect class="ok" x="290" y="75" width="4" height="25"/>`,
			`<rect class="dup" x="290" y="25" width="4" height="50"/>`,
			`<rect class="bad" x="290" y="0" width="4" height="25"/>`,
			"the server did not run", ">not running<",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		for _, wrong := range []string{"since=today", "until=2000-01-01", "since=%00"} {
			if text := look("/ops/?" + wrong); !strings.Contains(text, "There is no such time.") {
				t.Errorf("%s: %s", wrong, text)
			}
		}
		for query, want := range map[string][2]bool{
			"?until=2000-01-01T00:01:00Z": {true, false}, "?since=30s": {false, true},
			"?until=2000-01-01T00:02:00Z": {true, true},
		} {
			w := httptest.NewRecorder()
			page.API().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events"+query, http.NoBody))
			got := w.Body.String()
			if strings.Contains(got, "first") != want[0] || strings.Contains(got, "second") != want[1] {
				t.Errorf("%s: %s", query, got)
			}
		}
	})
}

func TestTheSeriesSurviveARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "series")
	var log strings.Builder
	o := inspect.Options{SeriesFile: file, Log: slog.New(slog.NewTextHandler(&log, nil))}
	run := func(want uint32, during func(dedup.Store, *inspect.Inspector)) {
		t.Helper()
		inTime(t, o, func(t *testing.T, store dedup.Store, page *inspect.Inspector) {
			t.Helper()
			if got := pointsOf(t, page, "?step=1h"); len(got) != 1 || got[0].Accepted != want {
				t.Errorf("%d accepted before, and the hours are %+v", want, got)
			}
			happened(page)
			during(store, page)
		})
	}
	run(0, func(_ dedup.Store, page *inspect.Inspector) {
		time.Sleep(299 * time.Second)
		synctest.Wait()
		if _, err := os.Stat(file); err == nil {
			t.Error("the file is written before five minutes have passed")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		happened(page)
	})
	run(2, func(store dedup.Store, page *inspect.Inspector) {
		next := page.Renewed(inspect.Options{Store: store, SeriesFile: file})
		happened(next)
		if got := pointsOf(t, next, "?step=1h"); got[0].Accepted != 4 {
			t.Errorf("after a reload: %+v", got)
		}
		page.Stop()
		happened(page) // while the receiver is drained
	})
	run(5, func(dedup.Store, *inspect.Inspector) {})
	if log.Len() != 0 {
		t.Errorf("the log has %s", log.String())
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(0, func(dedup.Store, *inspect.Inspector) {})
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), file) {
		t.Errorf("the log has %s", log.String())
	}
	log.Reset()
	o.SeriesFile = filepath.Join(file, "none")
	run(0, func(dedup.Store, *inspect.Inspector) {})
	if !strings.Contains(log.String(), "the time series were not saved") {
		t.Errorf("the log has %s", log.String())
	}
}

// large is a store that several receivers share, or whose sizes are known.
type large struct {
	dedup.Store
	shared bool
}

func (s large) Stats(context.Context) (dedup.Stats, error) {
	return dedup.Stats{Bytes: 256<<20 + 40<<10, Events: 40 << 10}, nil
}

func (s large) Guarantees() dedup.Guarantees { return dedup.Guarantees{Shared: s.shared} }

func TestHealthSaysWhatIsReservedAndWhoseTheSeriesAre(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		s := newSite(t, large{newStore(t), shared})
		s.login(token)
		_, text := s.get("/ui/health")
		s.in(text, "<dd>256.0 MiB reserved, 40.0 KiB of events</dd>")
		if strings.Contains(text, "those of this receiver") != shared {
			t.Errorf("shared is %v: %s", shared, text)
		}
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	page := inspect.Page(inspect.Options{Store: newStore(t)})
	t.Cleanup(page.Close)
	for _, o := range []receiver.Observation{
		{Kind: receiver.KindDelivery, Endpoint: "shop", Status: 202, Code: "accepted", Took: time.Millisecond},
		{Kind: receiver.KindAttempt, Endpoint: "shop", State: dedup.Pending, Took: time.Second},
	} {
		if n := testing.AllocsPerRun(1000, func() { page.Observe(t.Context(), o) }); n != 0 {
			t.Errorf("%s: %v allocations", o.Kind, n)
		}
	}
}

func TestManyReceiversAreObservedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, newStore(t))
	s.login(token)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				happened(s.page)
			}
		})
	}
	for i := range 5 {
		s.get(fmt.Sprintf("/ui/health?range=%s", []string{"1h", "24h", "7d"}[i%3]))
	}
	group.Wait()
	accepted, failed := uint32(0), uint32(0)
	for _, p := range pointsOf(t, s.page, "?step=1m") {
		accepted, failed = accepted+p.Accepted, failed+p.Failed
	}
	if accepted != 800 || failed != 800 {
		t.Errorf("%d accepted, %d failed", accepted, failed)
	}
}
