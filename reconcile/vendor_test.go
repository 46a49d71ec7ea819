package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

const token = "the-token"

// api imitates the API of a vendor. It is the transport of its client.
type api struct {
	t       *testing.T
	serve   http.HandlerFunc
	tokens  string // the only Authorization
	mu      sync.Mutex
	asked   []string // the requests
	pages   int      // items of a page
	refuse  func(n int, w http.ResponseWriter) bool
	respond func(*http.Response)
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, r.Method+" "+r.URL.String())
	if got := r.Header.Get("Authorization"); got != a.tokens {
		a.t.Errorf("Authorization of %s is %q", r.URL, got)
	}
	w := httptest.NewRecorder()
	if a.refuse == nil || !a.refuse(len(a.asked), w) {
		a.serve(w, r)
	}
	resp := w.Result()
	if a.respond != nil {
		a.respond(resp)
	}
	return resp, nil
}

// requests returns how many requests came so far.
func (a *api) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// occurred is an event at the vendor.
type occurred struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Type    string `json:"type"`
	Created int64  `json:"created"`
	Live    bool   `json:"livemode"`
	Version string `json:"api_version"`
	Data    any    `json:"data"`
}

// stripe imitates GET /v1/events: the newest first, in the rendering of another version.
type stripe struct {
	api
	events []occurred
}

func newStripe(t *testing.T) *stripe {
	s := &stripe{api: api{t: t, pages: 100, tokens: "Bearer " + token}}
	s.serve = s.list
	return s
}

func (s *stripe) add(n int, at time.Time) occurred {
	e := occurred{ID: fmt.Sprintf("evt_%d", n), Object: "event", Type: "invoice.paid", Created: at.Unix(), Live: true,
		Data: map[string]any{"object": map[string]any{"amount": n}}}
	s.events = append(s.events, e)
	return e
}

func (s *stripe) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := strconv.ParseInt(q.Get("created[gte]"), 10, 64)
	page, after := []occurred{}, q.Get("starting_after")
	started, more := after == "", false
	for _, e := range slices.Backward(s.events) {
		if e.Created < since || len(q["types[]"]) > 0 && !slices.Contains(q["types[]"], e.Type) {
			continue
		}
		if more = started && len(page) == s.pages; more {
			break
		}
		if started {
			e.Version = "2099-01-01"
			page = append(page, e)
		}
		started = started || e.ID == after
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string]any{"object": "list", "data": page, "has_more": more})
}

// sending is one sending of a hook's event.
type sending struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"`
	DeliveredAt time.Time `json:"delivered_at"`
	Redelivery  bool      `json:"redelivery"`
	StatusCode  int       `json:"status_code"`
	Event       string    `json:"event"`
	payload     []byte
}

// github imitates a hook's deliveries and their redelivery.
type github struct {
	api
	world *world
	now   func() time.Time
	all   []sending // the oldest first
	lose  func(guid string) bool
}

const hook = "https://api.github.test/repos/acme/shop/hooks/1/deliveries"

func newGitHub(t *testing.T) *github {
	g := &github{api: api{t: t, pages: 100, tokens: "Bearer " + token}}
	g.serve = g.handle
	return g
}

// send sends an event, or loses it.
func (g *github) send(guid string, payload []byte, lost, again bool) {
	s := sending{ID: int64(len(g.all)) + 9_007_199_254_740_993, GUID: guid, DeliveredAt: g.now().UTC(), Event: "push",
		Redelivery: again, payload: payload}
	if !lost {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/github", bytes.NewReader(payload))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-GitHub-Delivery", guid)
		if err := g.world.signs(r, payload); err != nil {
			g.t.Fatal(err)
		}
		s.StatusCode = g.world.rx.Send("github", r).Status
	}
	g.all = append(g.all, s)
}

func (g *github) handle(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		for _, s := range slices.Backward(g.all) {
			if r.URL.Path == fmt.Sprintf("/repos/acme/shop/hooks/1/deliveries/%d/attempts", s.ID) {
				g.send(s.GUID, s.payload, g.lose != nil && g.lose(s.GUID), true)
				w.WriteHeader(http.StatusAccepted)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	end := len(g.all)
	if cursor := r.URL.Query().Get("cursor"); cursor != "" { // how many are older
		end, _ = strconv.Atoi(cursor)
	}
	from := max(0, end-g.pages)
	page := slices.Clone(g.all[from:end])
	if slices.Reverse(page); from > 0 {
		w.Header().Set("Link", fmt.Sprintf(`<%s?per_page=100&cursor=%d>; rel="next"`, hook, from))
	}
	_ = json.NewEncoder(w).Encode(page)
}

// world is a receiver that keeps its store while comparisons come and go.
type world struct {
	*testing.T
	rx    *receivertest.Receiver
	clock func() time.Time
	store dedup.Store
	p     producer.Producer
	via   http.RoundTripper
	seen  map[string]int // missed, by code
	mu    sync.Mutex
	ran   map[string]int // handled events
	fetch map[string]int // of which were fetched
}

// invoice is the data of an event for a typed handler.
type invoice struct {
	Type string
	Data struct{ Object struct{ Amount int } }
}

func newWorld(t *testing.T, p producer.Producer, via http.RoundTripper, with ...receiver.Handler) *world {
	t.Helper()
	w := &world{T: t, p: p, via: via, ran: map[string]int{}, fetch: map[string]int{}, seen: map[string]int{}}
	h := receiver.On(p.Name, "*", func(_ context.Context, ev receiver.Event[invoice]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		id := ev.ID
		if ev.VendorID != "" {
			id = ev.VendorID
		}
		if w.ran[id]++; ev.Fetched {
			w.fetch[id]++
		}
		if strings.HasPrefix(id, "evt_") && id != fmt.Sprintf("evt_%d", ev.Data.Data.Object.Amount) {
			t.Errorf("event %s has the amount %d", id, ev.Data.Data.Object.Amount)
		}
		return nil
	})
	w.rx = receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{p}, Handlers: append(with, h), Workers: 2, Logger: quiet(t),
		Opening: func(c *receiver.Config) error {
			w.clock = c.Clock
			return nil
		},
	})
	w.store = w.rx.Store
	w.p = p
	return w
}

func stripeProducer() producer.Producer {
	p := preset.Stripe("whsec_000102030405060708090a0b0c0d0e0f")
	p.Source.Token, p.Source.Types = token, []string{"invoice.*"}
	return p
}

func githubProducer() producer.Producer {
	p := preset.GitHub("a secret of the hook, long enough")
	p.Source.Token, p.Source.URL = token, hook
	return p
}

func (w *world) signs(r *http.Request, body []byte) error {
	signer, ok := w.p.Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	})
	if !ok {
		return errors.New("cannot sign")
	}
	return signer.Sign(r, body, w.clock())
}

// deliver sends an event of the vendor as a webhook.
func (w *world) deliver(e occurred) *receivertest.Delivery {
	w.Helper()
	e.Version = "2020-01-01"
	body, _ := json.Marshal(e)
	r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/stripe", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if err := w.signs(r, body); err != nil {
		w.Fatal(err)
	}
	return w.rx.Send("stripe", r)
}

// reconciler returns one as of a new process.
func (w *world) reconciler(store dedup.Store) *Reconciler {
	return New(Options{Receiver: w.rx.Receiver, Store: store, Producer: w.p, Client: &http.Client{Transport: w.via},
		Clock: w.clock, Logger: quiet(w.T), Observe: func(_ context.Context, o receiver.Observation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen[string(o.Kind)+" "+string(o.Code)]++
		}})
}

// served notes that the store serves the producer from now on.
func (w *world) served() {
	w.Helper()
	if err := w.reconciler(w.store).found(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) compare(q Request) Progress {
	w.Helper()
	p, err := w.reconciler(w.store).Compare(w.Context(), q, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.rx.Wait()
	return p
}

// once fails the test unless each of n events ran once.
func (w *world) once(n int) {
	w.Helper()
	w.rx.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ran) != n {
		w.Errorf("%d events ran, want %d", len(w.ran), n)
	}
	for id, times := range w.ran {
		if times != 1 {
			w.Errorf("%s ran %d times", id, times)
		}
	}
}

var errKilled = errors.New("killed")

// life is a store, and a transport, of a process that dies at a step: before it, or after it
// happened.
type life struct {
	dedup.Store
	via   http.RoundTripper
	mu    sync.Mutex
	steps int // left
	after bool
}

// step reports whether a step happens, and whether the process sees that.
func (l *life) step() (happens, seen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps--
	return l.steps > 0 || l.steps == 0 && l.after, l.steps > 0
}

func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	happens, seen := l.step()
	if !happens {
		return nil, errKilled
	}
	resp, err := l.via.RoundTrip(r)
	if !seen {
		return nil, errKilled
	}
	return resp, err
}

func (l *life) ChangeNote(ctx context.Context, k dedup.Key, change func(string) (string, error)) error {
	happens, seen := l.step()
	if !happens {
		return errKilled
	}
	err := l.Store.ChangeNote(ctx, k, change)
	if !seen {
		return errKilled
	}
	return err
}

// compareIn compares in a process that dies after some steps, and reports whether it lived.
func (w *world) compareIn(steps int, after bool) bool {
	w.Helper()
	l := &life{Store: w.store, via: w.via, steps: steps, after: after}
	r := w.reconciler(l)
	r.Client.Transport = l
	_, err := r.Compare(w.Context(), Request{}, nil)
	if err != nil && !errors.Is(err, errKilled) {
		w.Fatal(err)
	}
	return err == nil
}
