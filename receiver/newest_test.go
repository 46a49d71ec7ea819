package receiver

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// boundScheme is testScheme, and says what it binds.
type boundScheme struct {
	testScheme
	malleable, unread bool // unread: it does not cover the body
}

func (s boundScheme) Binds() verify.Binding {
	b := verify.Binding{Content: true, Time: true, Malleable: s.malleable, Covered: s.covered}
	if !s.unread {
		b.Covered = append([]string{"@body"}, s.covered...)
	}
	return b
}

// fencedSite has handlers that note the versions of the events that they handled.
type fencedSite struct {
	*site
	mu      sync.Mutex
	handled []string // "lane version", the version as the handler got it
	sent    int
	verdict func(Event[[]byte]) error // nil succeeds
}

func (f *fencedSite) run(_ context.Context, ev Event[[]byte]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.verdict != nil {
		if err := f.verdict(ev); err != nil {
			return err
		}
	}
	lane, _, _ := strings.Cut(strings.TrimPrefix(string(ev.Body), `{"lane":`), ",")
	f.handled = append(f.handled, strings.Trim(lane, `"`)+" "+ev.Version)
	return nil
}

func (f *fencedSite) handler() Handler {
	return On("shop", "*", f.run).Lane(producer.JSON("lane")).Newest(producer.JSON("v"))
}

// fencedProducer is a producer whose signatures cover the body.
func fencedProducer() producer.Producer {
	p := webhookProducer()
	p.Scheme = boundScheme{}
	return p
}

// fenced opens a site in a bubble. The handlers default to one with a fence.
func fenced(t *testing.T, change func(*Config), handlers func(*fencedSite) []Handler) *fencedSite {
	t.Helper()
	f := &fencedSite{}
	if handlers == nil {
		handlers = func(f *fencedSite) []Handler { return []Handler{f.handler()} }
	}
	f.site = serve(t, fencedProducer(), change, handlers(f)...)
	return f
}

// deliver sends a new event and waits until it has been run. lane and version are JSON.
func (f *fencedSite) deliver(lane, version string, header ...string) {
	f.t.Helper()
	f.sent++
	id := fmt.Sprint("e", f.sent)
	body := fmt.Sprintf(`{"lane":%s,"v":%s,"id":%q}`, lane, version, id)
	a := req{id: id, typ: "t", header: http.Header{}, body: body}
	for i := 0; i < len(header); i += 2 {
		a.header[header[i]] = []string{header[i+1]}
	}
	if g := f.send(a); g.status != 200 || g.replayed() {
		f.t.Fatalf("%s: %+v", a.body, g)
	}
	passes(time.Second)
}

// passes lets time pass in a bubble, and waits for what happened then.
func passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wants compares what was handled, and how many tasks are stale.
func (f *fencedSite) wants(handled string, stale int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.handled, ", "); got != handled {
		f.t.Errorf("handled %q, want %q", got, handled)
	}
	n := 0
	for _, rec := range f.records() {
		for i := range rec.Tasks {
			if rec.Tasks[i].Stale() {
				n++
			}
		}
	}
	if n != stale {
		f.t.Errorf("%d tasks are stale, want %d", n, stale)
	}
}

func TestOlderEventsOfALaneAreStale(t *testing.T) {
	t.Parallel()
	const soon, late = `"2000-01-01T00:00:30Z"`, `"2000-01-01T00:05:00Z"` // a bubble begins at 2000-01-01
	long := `"` + strings.Repeat("x", dedup.MaxVersion+1) + `"`
	for name, tt := range map[string]struct {
		sent    []string // lane and version, in turn
		handled string
		stale   int
	}{
		"in order": {[]string{`"a"`, "1", `"a"`, "2"}, "a 1, a 2", 0},
		"older":    {[]string{`"a"`, "10", `"a"`, "9", `"a"`, "11"}, "a 10, a 11", 1},
		"ties":     {[]string{`"a"`, "2", `"a"`, "2.0"}, "a 2, a 2.0", 0},
		"texts":    {[]string{`"a"`, `"01F"`, `"a"`, `"01E"`}, "a 01F", 1},
		"times": {[]string{`"a"`, `"1999-12-31T23:00:00+02:00"`, `"a"`, `"1999-12-31T20:59:59Z"`},
			"a 1999-12-31T23:00:00+02:00", 1},
		"another lane":         {[]string{`"a"`, "2", `"b"`, "1"}, "a 2, b 1", 0},
		"no lane":              {[]string{"null", "2", "null", "1"}, "null , null ", 0},
		"no version":           {[]string{`"a"`, "2", `"a"`, "null", `"a"`, "1"}, "a 2, a ", 1},
		"too long":             {[]string{`"a"`, long, `"a"`, `"b"`, `"a"`, `"a"`}, "a , a b", 1},
		"control characters":   {[]string{`"a"`, `"z\n"`, `"a"`, `"b"`}, "a , a b", 0},
		"not UTF-8":            {[]string{`"a"`, "\"z\xff\"", `"a"`, `"b"`}, "a , a b", 0},
		"ambiguous":            {[]string{`"a"`, `9,"v":9`, `"a"`, "1"}, "a , a 1", 0},
		"two kinds":            {[]string{`"a"`, "5", `"a"`, `"x"`, `"a"`, "4"}, "a 5, a x", 1},
		"within the tolerance": {[]string{`"a"`, soon, `"a"`, `"2000-01-01T00:00:01Z"`}, "a 2000-01-01T00:00:30Z", 1},
		"beyond it": {[]string{`"a"`, late, `"a"`, `"2000-01-01T00:00:01Z"`},
			"a 2000-01-01T00:05:00Z, a 2000-01-01T00:00:01Z", 0},
		"the year 9999": {[]string{`"a"`, `"9999-12-31T23:59:59Z"`, `"a"`, soon},
			"a 9999-12-31T23:59:59Z, a 2000-01-01T00:00:30Z", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				f := fenced(t, nil, nil)
				for i := 0; i < len(tt.sent); i += 2 {
					f.deliver(tt.sent[i], tt.sent[i+1])
				}
				f.wants(tt.handled, tt.stale)
			})
		})
	}
}

func TestUnusableVersionsAndTimesAheadAreWarnings(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := fenced(t, nil, nil)
		for range 2 * sampledLines {
			f.deliver(`"a"`, `"z\n"`)
			f.deliver(`"a"`, `"9999-01-01T00:00:00Z"`)
		}
		for _, text := range []string{"an event has no usable version", "an event has a version in the future"} {
			if n := strings.Count(f.log.String(), `level=WARN msg="`+text); n == 0 || n > 2*sampledLines {
				t.Errorf("%d warnings: %s", n, text)
			}
			if !strings.Contains(f.log.String(), `level=DEBUG msg="`+text) {
				t.Errorf("they are not sampled: %s", text)
			}
		}
	})
}

// A fence is of a principal, an endpoint, a handler and a lane.
func TestFencesAreSeparate(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := fencedProducer()
		store.Name = "store"
		var plain []string
		f := fenced(t, func(c *Config) { c.Producers = append(c.Producers, store) }, func(f *fencedSite) []Handler {
			unfenced := func(_ context.Context, ev Event[[]byte]) error {
				plain = append(plain, ev.Version)
				return nil
			}
			return []Handler{
				f.handler(), f.handler().Named("second"),
				On("shop", "*", unfenced).Lane(producer.JSON("lane")).Named("unfenced"),
				On("store", "*", f.run).Lane(producer.JSON("lane")).Newest(producer.JSON("v")),
			}
		})
		f.deliver(`"a"`, "5")
		f.deliver(`"a"`, "4")
		f.deliver(`"a"`, "3", "Principal", "tenant")
		f.p = store
		f.deliver(`"a"`, "2")
		f.deliver(`"a"`, "1")
		f.wants("a 5, a 5, a 3, a 3, a 2", 3)
		if got := strings.Join(plain, ","); got != ",," {
			t.Errorf("the handler without a fence got the versions %q", got)
		}
		var fences []string
		for note, err := range f.store.Notes(t.Context(), dedup.SpaceFence) {
			one, ok := dedup.FenceIn(note)
			if err != nil || !ok {
				t.Fatal(note, err)
			}
			fences = append(fences, fmt.Sprint(one.Principal, " ", one.Endpoint, " ", one.Handler, " ", one.Version))
		}
		slices.Sort(fences)
		want := []string{"shop shop second 5", "shop shop shop/* 5", "store store store/* 2", "tenant shop second 3",
			"tenant shop shop/* 3"}
		if !slices.Equal(fences, want) {
			t.Errorf("fences %q", fences)
		}
	})
}

// A stale event is kept, logged and counted, and its sender got the usual response.
func TestAStaleEventIsKeptAndCounted(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := fenced(t, nil, nil)
		f.deliver(`"a"`, "2")
		f.deliver(`"a"`, "1")
		rec := f.records()[0] // the newest
		if task := rec.Tasks[0]; task.State != dedup.Done || task.Reason != "stale" || task.Attempt != 1 ||
			!strings.Contains(task.Err, "a newer event") || !strings.Contains(string(rec.Payload.Body), `"v":1`) {
			t.Errorf("%+v, body %s", task, rec.Payload.Body)
		}
		f.seen.mu.Lock()
		defer f.seen.mu.Unlock()
		var seen []string
		for _, o := range f.seen.all {
			if o.Kind == KindAttempt {
				seen = append(seen, fmt.Sprint(o.State, " ", o.Reason))
			}
		}
		if got := strings.Join(seen, ", "); got != "done , done stale" {
			t.Errorf("observed %q", got)
		}
		if n := strings.Count(f.log.String(), `level=INFO msg="task is stale`); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
	})
}

// A newer event that was handled while an older one waits for its retry makes that stale. In a lane
// that waits for retries the older one is handled first.
func TestARetryAfterANewerEventIsStale(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change  func(Handler) Handler
		handled string
		stale   int
	}{
		"a lane that yields": {Handler.LaneYields, "a 2", 1},
		"a lane that waits":  {func(h Handler) Handler { return h }, "a 1, a 2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				f := fenced(t, nil, func(f *fencedSite) []Handler { return []Handler{tt.change(f.handler())} })
				f.verdict = func(ev Event[[]byte]) error {
					if ev.Version == "1" && ev.Attempt == 1 {
						return Postpone(time.Minute, errBoom)
					}
					return nil
				}
				f.deliver(`"a"`, "1")
				f.deliver(`"a"`, "2")
				passes(5 * time.Minute)
				f.wants(tt.handled, tt.stale)
			})
		})
	}
}

// A time that was ahead of the clock makes nothing stale until the clock reaches it.
func TestATimeAheadIsStaleOnceANewerOneIsHandled(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := fenced(t, nil, func(f *fencedSite) []Handler { return []Handler{f.handler().LaneYields()} })
		f.verdict = func(ev Event[[]byte]) error {
			if ev.Attempt == 1 && ev.Version != "2000-01-01T00:06:00Z" {
				return Postpone(10*time.Minute, errBoom)
			}
			return nil
		}
		f.deliver(`"a"`, `"2000-01-01T00:05:00Z"`)
		f.deliver(`"b"`, `"2000-01-01T00:05:00Z"`)
		passes(7 * time.Minute)
		f.deliver(`"a"`, `"2000-01-01T00:06:00Z"`)
		passes(30 * time.Minute)
		f.verdict = nil
		f.deliver(`"b"`, `"2000-01-01T00:04:00Z"`)
		f.wants("a 2000-01-01T00:06:00Z, b 2000-01-01T00:05:00Z", 2)
	})
}

func TestADeadLetterMovesNoFence(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := fenced(t, nil, nil)
		f.verdict = func(ev Event[[]byte]) error {
			if ev.Version == "9" {
				return Reject(errBoom)
			}
			return nil
		}
		f.deliver(`"a"`, "9")
		f.deliver(`"a"`, "5")
		f.deliver(`"a"`, "4")
		f.wants("a 5", 1)
		f.verdict = nil
		if _, err := f.store.Reopen(t.Context(), f.records()[2].Event); err != nil {
			t.Fatal(err)
		}
		passes(time.Second)
		f.deliver(`"a"`, "8")
		f.wants("a 5, a 9", 2)
	})
}

// A forced run of a stale event has its effect, and moves the fence neither back nor away.
func TestAForcedRerunMovesNoFence(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		f := fenced(t, nil, nil)
		f.deliver(`"a"`, "3")
		f.deliver(`"a"`, "1")
		again := func(force bool) {
			if _, err := f.store.Rerun(t.Context(), f.records()[0].Event, dedup.Rerun{Force: force}); err != nil {
				t.Fatal(err)
			}
			passes(time.Second)
		}
		again(false)
		f.wants("a 3", 1)
		again(true)
		f.wants("a 3, a 1", 0)
		f.deliver(`"a"`, "2")
		f.wants("a 3, a 1", 1)
	})
}

func TestAFenceSurvivesARestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		keep := func(c *Config) { c.Store = store }
		f := fenced(t, keep, nil)
		f.deliver(`"a"`, "2")
		if err := f.rx.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := fenced(t, keep, nil)
		next.sent = f.sent
		next.deliver(`"a"`, "1")
		next.deliver(`"a"`, "3")
		if got := strings.Join(next.handled, ", "); got != "a 3" {
			t.Errorf("handled %q", got)
		}
	})
}

// notesFail is a store whose notes cannot be read at first.
type notesFail struct {
	*memstore.Store
	mu     sync.Mutex
	until  time.Time
	failed int
}

func (s *notesFail) Note(ctx context.Context, k dedup.Key) (dedup.Note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		s.failed++
		return dedup.Note{}, errBoom
	}
	return s.Store.Note(ctx, k)
}

// The next one follows after a pause.
func TestAttemptsWithoutTheirFenceDoNotCount(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := &notesFail{Store: memstore.New(memstore.Options{}), until: time.Now().Add(10*DefaultBackoffBase - 1)}
		f := fenced(t, func(c *Config) { c.Store, c.Attempts = store, 1 }, nil)
		f.deliver(`"a"`, "1")
		passes(time.Minute)
		if store.failed < 2 || store.failed > 10 || !slices.Equal(f.handled, []string{"a 1"}) {
			t.Errorf("the fence was read %d times in vain, handled %q", store.failed, f.handled)
		}
	})
}

// Nothing is read for handlers without a fence.
func TestWithoutAFenceNoNoteIsRead(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := &notesFail{Store: memstore.New(memstore.Options{}), until: time.Now().Add(time.Hour)}
		f := fenced(t, func(c *Config) { c.Store = store }, func(f *fencedSite) []Handler {
			return []Handler{On("shop", "*", f.run).Lane(producer.JSON("lane"))}
		})
		f.deliver(`"a"`, "1")
		if store.failed > 0 || !slices.Equal(f.handled, []string{"a "}) {
			t.Errorf("%d notes were read, handled %q", store.failed, f.handled)
		}
	})
}

// The transaction of an older event finds in the end that a newer one was handled.
func TestAnEffectThatIsStaleInItsTransactionIsUndone(t *testing.T) {
	txFixture(t, txScript(), func(f *fixture, s *txStore) {
		s.set(func() { s.fails = fmt.Errorf("commit: %w", dedup.ErrStale) })
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, dedup.ReasonStale, 1)
		f.same("effects", []string(nil), s.effects)
		f.same("attempts", []string{"attempt gh/* 1 done stale"}, f.attempts())
	})
}

func TestAHandlerCannotSayThatItsEventIsStale(t *testing.T) {
	txFixture(t, txScript(returns(dedup.ErrStale)), func(f *fixture, s *txStore) {
		f.ends(f.outcome(f.accept("1", "x")), dedup.Done, "", 2)
		f.same("effects", []string{"1 2"}, s.effects)
	})
}

func TestFencesThatCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	v, body, field := producer.JSON("v"), producer.JSON("lane"), producer.Header("X-Version")
	fence := func(h Handler) []Handler { return []Handler{h.Lane(body).Newest(v)} }
	on := On("shop", "*", do)
	onField := []Handler{on.Lane(body).Newest(field)}
	by := func(s verify.Scheme) producer.Producer { p := fencedProducer(); p.Scheme = s; return p }
	own := func(p producer.Producer) producer.Producer { p.Name = "shop"; return p }
	key, err := verify.NewHMACKey("k", []byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	signs := func(covered ...string) verify.Scheme { return boundScheme{testScheme: testScheme{covered: covered}} }
	password := &verify.Static{In: verify.InHeader, Name: "X-Token", Secrets: verify.Secrets("a long password")}
	series := fencedProducer()
	series.Series = func(*producer.Delivery) string { return "x" }
	batch := fencedProducer()
	batch.Split = func(*producer.Delivery) ([]producer.Item, error) { return nil, nil }
	unbound := `signatures of producer "shop" do not bind `
	for name, tt := range map[string]struct {
		p        producer.Producer
		handlers []Handler
		want     string // in the error; empty for none
	}{
		"a signed body":            {fencedProducer(), fence(on), ""},
		"no lane":                  {fencedProducer(), []Handler{on.Newest(v)}, "set one with Lane"},
		"Answer":                   {fencedProducer(), fence(Answer("shop", "*", say)), "leave out Newest"},
		"Inline":                   {fencedProducer(), fence(Inline("shop", "*")), "leave out Newest"},
		"states":                   {series, fence(on), "leave out Newest"},
		"batches":                  {batch, fence(on), ""},
		"a scheme without binding": {by(testScheme{covered: []string{"@body"}}), fence(on), unbound + "@body"},
		"an unsigned version":      {fencedProducer(), onField, unbound + "x-version"},
		"an unsigned lane":         {fencedProducer(), []Handler{on.Lane(field).Newest(v)}, unbound + "x-version"},
		"a signed field":           {by(signs("x-version")), onField, ""},
		"a malleable signature":    {by(boundScheme{malleable: true}), fence(on), unbound + "@body"},
		"one of two proofs": {by(verify.Any{signs("x-version"), signs()}), onField,
			unbound + "x-version"},
		"either proof":             {by(verify.Any{signs("x-version"), signs()}), fence(on), ""},
		"a signature or password":  {by(verify.Any{signs(), password}), fence(on), ""},
		"the password's field too": {by(verify.Any{signs(), password}), onField, unbound},
		"both proofs":              {by(verify.All{password, signs()}), fence(on), ""},
		"both, and an unsigned field": {by(verify.All{password, signs()}), onField,
			unbound + "x-version"},
		"both, one malleable": {by(verify.All{
			boundScheme{malleable: true},
			boundScheme{unread: true, testScheme: testScheme{covered: []string{"x-version"}}},
		}), fence(on), unbound + "@body"},
		"a password":   {by(password), onField, ""},
		"RFC 9421":     {own(producer.Signed("shop", verify.StaticKeys(key))), onField, ""},
		"signed items": {own(preset.With("adyen", strings.Repeat("ab", 32))), fence(on), unbound + "@body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(memstore.Options{})
			defer func() { _ = s.Close() }()
			rx, err := Open(Config{
				Store: s, URL: "https://hooks.example", Producers: []producer.Producer{tt.p}, Handlers: tt.handlers,
			})
			if err == nil {
				err = rx.Close()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// Forged deliveries with the highest version make nothing stale: they are refused, and the real one
// runs.
func TestForgedVersionsMakeNothingStale(t *testing.T) {
	t.Parallel()
	t.Run("RFC 9421", func(t *testing.T) {
		t.Parallel()
		runs := newCounter()
		run := func(context.Context, Event[[]byte]) error { runs.add(); return nil }
		s := serveSigned(t, nil, On("shop", "*", run).Lane(producer.JSON("lane")).Newest(producer.Header("X-Version")))
		add := func(r *http.Request) { r.Header.Set("X-Version", "999999") }
		forger := verify.Signer{KeyID: "k2", Secret: []byte("another secret of thirty-two bytes, or so")}
		for by, signer := range map[string]verify.Signer{"a forger": forger, "who captured a delivery": s.ed} {
			if g := s.deliver(signer, "f", "/webhooks/shop", `{"lane":"a"}`, time.Now(), add); g.status != 401 {
				t.Errorf("a version added by %s: %+v", by, g)
			}
		}
		if g := s.deliver(s.ed, "r", "/webhooks/shop", `{"lane":"a"}`, time.Now(), nil); g.status != 202 {
			t.Errorf("the real one: %+v", g)
		}
		runs.await(t)
	})
	t.Run("GitHub", func(t *testing.T) {
		t.Parallel()
		bubble(t, func(t *testing.T) {
			var handled []string
			p := preset.GitHub(testSecret)
			run := func(_ context.Context, ev Event[[]byte]) error { handled = append(handled, ev.Version); return nil }
			s := serve(t, p, nil, On(p.Name, "*", run).Lane(producer.JSON("lane")).Newest(producer.JSON("v")))
			send := func(id, body, signed string) int {
				h := gitHubRequest(testSecret, signed).Header
				h["X-Github-Delivery"] = []string{id}
				return s.send(req{body: body, header: h}).status
			}
			const known, high, next = `{"lane":"a","v":1}`, `{"lane":"a","v":9}`, `{"lane":"a","v":2}`
			got := []int{send("1", known, known), send("2", high, known), send("3", next, next)}
			passes(time.Second)
			if !slices.Equal(got, []int{200, 401, 200}) || !slices.Equal(handled, []string{"1", "2"}) {
				t.Errorf("answered %v, handled %q", got, handled)
			}
		})
	})
}

// TestStormOfOlderEvents delivers 10,000 events of 100 entities, reordered and partly twice, to two
// handlers that often fail. Effects of an entity are in the order of their versions, and the last
// one is that of its newest event that succeeded.
func TestStormOfOlderEvents(t *testing.T) {
	t.Parallel()
	bubble(t, stormOfOlderEvents)
}

func stormOfOlderEvents(t *testing.T) {
	const entities, perEntity = 100, 100
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	effects := map[string][]int{} // versions by handler and entity
	note := func(_ context.Context, ev Event[versioned]) error {
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(10) {
		case 0, 1:
			return errBoom
		case 2:
			return Postpone(time.Duration(random.IntN(5000))*time.Millisecond, errBoom)
		case 3:
			return Reject(errBoom)
		}
		if ev.Version != fmt.Sprint(ev.Data.V) {
			return Reject(fmt.Errorf("version %q", ev.Version))
		}
		name := ev.Handler + " " + ev.Data.Lane
		effects[name] = append(effects[name], ev.Data.V)
		return nil
	}
	h := On("shop", "*", note).Lane(producer.JSON("lane")).Newest(producer.JSON("v"))
	s := serve(t, fencedProducer(), func(c *Config) { c.Workers, c.Logger = 16, slog.New(slog.DiscardHandler) },
		h.Named("waits"), h.Named("yields").LaneYields())
	for n, i := range random.Perm(entities * perEntity) {
		id, entity, version := fmt.Sprint("e", i), i%entities, i/entities
		a := req{id: id, typ: "t", body: fmt.Sprintf(`{"lane":"%d","v":%d}`, entity, version)}
		for range 1 + n%2 {
			if g := s.send(a); g.status != http.StatusOK {
				t.Fatalf("%s: %+v", id, g)
			}
		}
	}
	passes(12 * time.Hour)
	newest, stale := map[string]int{}, 0
	for _, rec := range s.records() {
		var data versioned
		if err := decodeJSON("", rec.Payload.Body, &data); err != nil {
			t.Fatal(err)
		}
		for _, task := range rec.Tasks {
			switch {
			case task.Open() || strings.HasPrefix(task.Err, "version"):
				t.Fatalf("%+v", task)
			case task.Stale():
				stale++
			case task.State == dedup.Done:
				name := task.Handler + " " + data.Lane
				newest[name] = max(newest[name], data.V)
			}
		}
	}
	for name, versions := range effects {
		if !slices.IsSorted(versions) || versions[len(versions)-1] != newest[name] {
			t.Errorf("%s: effects %v, the newest that succeeded is %d", name, versions, newest[name])
		}
	}
	if len(effects) != 2*entities || stale < entities*perEntity {
		t.Errorf("%d entities have effects, %d tasks are stale", len(effects), stale)
	}
}

// versioned is the payload of the storm.
type versioned struct {
	Lane string
	V    int
}
