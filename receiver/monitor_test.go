package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// tally has the events that handlers got.
type tally struct {
	mu   sync.Mutex
	all  []Event[[]byte]
	fail func(Event[[]byte]) error // nil succeeds
}

func (l *tally) handle(_ context.Context, ev Event[[]byte]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, ev)
	if l.fail != nil {
		return l.fail(ev)
	}
	return nil
}

// got returns "HANDLER BODY", with a mark for unverified events, in order.
func (l *tally) got() (all []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range l.all {
		mark := ""
		if ev.Unverified {
			mark = " unverified"
		}
		all = append(all, ev.Handler+" "+string(ev.Body)+mark)
	}
	slices.Sort(all)
	return all
}

func monitoredProducer() producer.Producer {
	p := fencedProducer()
	p.MonitorUntil = time.Now().Add(10 * 24 * time.Hour)
	return p
}

// forged is a delivery whose signature does not match.
func forged(id, body string) req {
	return req{id: id, body: body, header: http.Header{"Sig": {string(verify.SignatureMismatch)}}}
}

// monitoring runs a test with a monitored site in a bubble.
func monitoring(t *testing.T, f func(t *testing.T, l *tally)) {
	t.Helper()
	bubble(t, func(t *testing.T) { f(t, &tally{}) })
}

func (s *site) wantStatus(a req, want int) got {
	s.t.Helper()
	g := s.send(a)
	if g.status != want {
		s.t.Errorf("%d, want %d: %s", g.status, want, g.body)
	}
	return g
}

func wantRuns(t *testing.T, l *tally, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := l.got(); !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestForgedDeliveryBlocksNoRealOneAndTheOtherWayRound(t *testing.T) {
	t.Parallel()
	forge, signed := forged("e1", "forged"), req{id: "e1", body: "real"}
	for name, order := range map[string][]req{
		"forged first": {forge, signed, forge, signed}, "real first": {signed, forge, signed, forge},
		"equal bytes": {forged("e1", "real"), signed, forge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			monitoring(t, func(t *testing.T, l *tally) {
				s := serve(t, monitoredProducer(), func(c *Config) {
					other := monitoredProducer()
					other.Name = "other"
					c.Producers = append(c.Producers, other)
				}, On("shop", "*", l.handle).Named("a"), On("shop", "*", l.handle).Named("b"),
					On("other", "*", l.handle).Named("c"))
				for _, a := range order {
					s.wantStatus(a, http.StatusOK)
					a.path = "/webhooks/other"
					s.wantStatus(a, http.StatusOK)
				}
				want := []string{"a real", "b real", "c real", "a forged unverified", "b forged unverified",
					"c forged unverified"}
				if name == "equal bytes" {
					want = append(want, "a real unverified", "b real unverified", "c real unverified")
				}
				wantRuns(t, l, want...)
				for _, rec := range s.records() {
					own := rec.Key.ID == "e1" && rec.Key.Principal == rec.Payload.Producer
					if own == isUnverified(&rec) {
						t.Errorf("%v is unverified: %t", rec.Key, !own)
					}
				}
			})
		})
	}
}

func TestForgedAndRealDeliveriesAtOnceBothRun(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		s := serve(t, monitoredProducer(), nil, On("shop", "*", l.handle).Named("a"))
		var all sync.WaitGroup
		for range 5 {
			for _, a := range []req{forged("e1", "forged"), {id: "e1", body: "real"}} {
				all.Go(func() { s.wantStatus(a, http.StatusOK) })
			}
		}
		all.Wait()
		wantRuns(t, l, "a real", "a forged unverified")
	})
}

func TestUnverifiedEventIsMarkedEverywhere(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		var refused []Refused
		s := serve(t, monitoredProducer(), func(c *Config) {
			c.Refused = func(_ context.Context, r Refused) { refused = append(refused, r) }
		}, On("shop", "order", l.handle))
		a := forged("e1", "forged")
		a.typ, a.header["Component"] = "order", []string{"x"}
		g := s.wantStatus(a, http.StatusOK)
		if again := s.wantStatus(a, http.StatusOK); !again.replayed() || again.body != g.body {
			t.Errorf("equal bytes: %+v after %+v", again, g)
		}
		synctest.Wait()
		ev := l.all[0]
		if !ev.Unverified || ev.Principal != "shop!unverified" || ev.VendorID != "e1" || ev.Producer != "shop" ||
			!strings.HasPrefix(ev.ID, "unverified:") || ev.KeyField != "" || ev.Attributes[UnverifiedAttribute] != "" {
			t.Errorf("%+v", ev)
		}
		rec := s.records()[0]
		mark := rec.Payload.Attributes[UnverifiedAttribute]
		if rec.Note != "unverified: signature_mismatch" || mark != "signature_mismatch" {
			t.Errorf("note %q, attributes %v", rec.Note, rec.Payload.Attributes)
		}
		first := slices.IndexFunc(s.seen.all, func(o Observation) bool { return o.Kind == KindDelivery })
		if o := s.seen.all[first]; !o.Unverified || !o.New || o.Code != "accepted" || o.Endpoint != "shop" {
			t.Errorf("%+v", o)
		}
		line := `msg="unverified delivery" endpoint=shop code=signature_mismatch`
		if !strings.Contains(s.log.String(), line) {
			t.Error(s.log)
		}
		if len(refused) != 2 || refused[0].Code != "signature_mismatch" || refused[0].Response.Status != http.StatusOK {
			t.Errorf("%+v", refused)
		}
	})
}

func TestOneUnverifiedDeliveryIsExplainedAtATime(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		explained, release := make(chan string, 9), make(chan struct{})
		s := serve(t, monitoredProducer(), func(c *Config) {
			c.Refused = func(_ context.Context, r Refused) {
				explained <- string(r.Body)
				<-release
			}
		}, On("shop", "*", l.handle))
		go func() { _, _ = s.try(forged("e1", "first")) }()
		synctest.Wait()
		s.wantStatus(forged("e2", "second"), http.StatusOK)
		close(release)
		synctest.Wait()
		s.wantStatus(forged("e3", "third"), http.StatusOK)
		if first, next := <-explained, <-explained; first != "first" || next != "third" || len(explained) > 0 {
			t.Errorf("explained %s, %s and %d more", first, next, len(explained))
		}
		if len(l.got()) != 3 {
			t.Error(l.got())
		}
	})
}

func TestMonitoringCoversSchemeAndFreshnessOnly(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		p.AllowedIPs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		p.Nonce, p.EarlyData = producer.NonceRequired, true
		s := serve(t, p, nil, On("shop", "*", l.handle).Named("h"))
		as := func(code verify.Code) req { return req{id: "e", header: http.Header{"Sig": {string(code)}}} }
		for code, want := range map[verify.Code]int{
			verify.SignatureMissing: 200, verify.SignatureMalformed: 200, verify.TokenExpired: 200,
			verify.TimestampTooOld: 200, verify.KeyUnknown: 200,
			verify.KeysUnavailable: 503, verify.AmbiguousField: 401, verify.MediaTypeUnsupported: 415,
			verify.TopicUnexpected: 403,
		} {
			a := as(code)
			a.body = string(code)
			s.wantStatus(a, want)
		}
		old := req{id: "old", body: "old", header: http.Header{"Signed-At": {"1000000"}, "Nonce": {"n"}}}
		s.wantStatus(old, 200)
		s.wantStatus(req{id: "no nonce", body: "no nonce"}, 200)
		early := forged("early", "early")
		early.header["Early-Data"] = []string{"1"}
		s.wantStatus(early, 401)
		s.wantStatus(forged("", "without an identifier"), 401) // what it would have got
		far := forged("far", "far")
		far.header["X-Forwarded-For"] = []string{"192.0.2.7"}
		s.rx.cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		s.wantStatus(far, 403)
		wantRuns(t, l, "h signature_missing unverified", "h signature_malformed unverified",
			"h token_expired unverified",
			"h timestamp_too_old unverified", "h key_unknown unverified", "h old unverified", "h no nonce unverified")
	})
}

func TestKnownStaleDeliveryIsADuplicateWhileMonitored(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		s := serve(t, monitoredProducer(), nil, On("shop", "*", l.handle).Named("h"))
		first := s.request(req{id: "e1", body: "real"})
		at := first.Header["Signed-At"]
		s.wantStatus(req{id: "e1", body: "real"}, 200)
		time.Sleep(time.Hour)
		if g := s.wantStatus(req{id: "e1", body: "real", header: http.Header{"Signed-At": at}}, 200); !g.replayed() {
			t.Error("not replayed")
		}
		s.wantStatus(req{id: "e2", body: "stale", header: http.Header{"Signed-At": at}}, 200)
		wantRuns(t, l, "h real", "h stale unverified")
		if fresh, stale := l.all[0], l.all[1]; fresh.Attributes["keyid"] == "" || stale.Attributes["keyid"] != "" {
			t.Errorf("signed by %v, and then by %v", fresh.Attributes, stale.Attributes)
		}
	})
}

func TestAnswersAndHandshakesStayEnforcedWhileMonitored(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		p.Handshake = func(_ context.Context, d *producer.Delivery) (*dedup.Response, error) {
			if string(d.Body) != "challenge" {
				return nil, nil
			}
			return &dedup.Response{Body: []byte("secret")}, nil
		}
		answer := Answer("shop", "ask", func(context.Context, Event[[]byte]) (Response, error) {
			return Response{Body: []byte("secret")}, nil
		})
		s := serve(t, p, nil, answer.Unverified(true), On("shop", "*", l.handle).Otherwise().Named("h"))
		a := forged("e1", "question")
		a.typ = "ask"
		wantProblem(t, s.send(a), 401, "signature_invalid")
		if g := s.send(req{id: "e1", typ: "ask", body: "question"}); g.body != "secret" {
			t.Errorf("%+v", g)
		}
		wantProblem(t, s.send(a), 401, "signature_invalid")
		if g := s.send(forged("e2", "challenge")); strings.Contains(g.body, "secret") {
			t.Errorf("%+v", g)
		}
		if n := len(s.records()); n != 2 {
			t.Errorf("%d records", n)
		}
	})
}

func TestUnverifiedEventsHaveLanesFencesAndSeriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		l.fail = func(ev Event[[]byte]) error {
			if ev.Unverified && ev.Type == "fails" {
				return errors.New("no")
			}
			return nil
		}
		lane, version := producer.JSON("lane"), producer.JSON("v")
		s := serve(t, monitoredProducer(), nil, On("shop", "*", l.handle).Named("h").Lane(lane).Newest(version))
		newest, fails := forged("e1", `{"lane":1,"v":100}`), forged("e2", `{"lane":2,"v":1}`)
		fails.typ = "fails"
		s.wantStatus(newest, 200)
		s.wantStatus(fails, 200)
		synctest.Wait()
		s.wantStatus(req{id: "e3", body: `{"lane":1,"v":2}`}, 200)
		s.wantStatus(req{id: "e4", body: `{"lane":2,"v":3}`}, 200)
		synctest.Wait()
		s.wantStatus(forged("e5", `{"lane":1,"v":5}`), 200) // older than that of its own fence
		wantRuns(t, l, `h {"lane":1,"v":100} unverified`, `h {"lane":2,"v":1} unverified`, `h {"lane":1,"v":2}`,
			`h {"lane":2,"v":3}`)
	})
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		p.Series = func(*producer.Delivery) string { return "feed" }
		s := serve(t, p, nil, On("shop", "*", l.handle).Named("h"))
		s.wantStatus(req{id: "e1", body: "1"}, 200)
		s.wantStatus(forged("e2", "2"), 200)
		if g := s.wantStatus(req{id: "e1", body: "1"}, 200); !g.replayed() {
			t.Errorf("superseded: %+v", g)
		}
		for _, rec := range s.records() {
			if rec.Newest == isUnverified(&rec) {
				t.Errorf("%v: the newest of its series is %t", rec.Key, rec.Newest)
			}
		}
	})
}

func TestUnverifiedEventsMoveNoBreaker(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		broken := true
		l.fail = func(ev Event[[]byte]) error {
			if broken == !ev.Unverified || string(ev.Body) == "bad" {
				return errors.New("no")
			}
			return nil
		}
		s := serve(t, monitoredProducer(), func(c *Config) { c.BackoffBase, c.BackoffCap = time.Hour, time.Hour },
			On("shop", "*", l.handle).Named("h").Breaker(3))
		paused := func() bool { synctest.Wait(); return s.rx.Controls()[0].Paused }
		for i := range 5 {
			s.wantStatus(forged(fmt.Sprint("bad", i), "bad"), 200)
		}
		if paused() {
			t.Fatal("unverified events paused it")
		}
		s.wantStatus(req{id: "1", body: "1"}, 200)
		s.wantStatus(req{id: "2", body: "2"}, 200)
		s.wantStatus(forged("good", "good"), 200) // its success is not one between failures
		synctest.Wait()
		if s.wantStatus(req{id: "3", body: "3"}, 200); !paused() {
			t.Fatal("it is not paused: the success of an unverified event counted")
		}
		before := len(l.got())
		s.wantStatus(forged("probe", "probe"), 200)
		time.Sleep(trialBase + 2*controlsEvery)
		if len(l.got()) != before || !paused() {
			t.Errorf("an unverified event is the trial: %q", l.got())
		}
		broken = false
		s.wantStatus(req{id: "4", body: "4"}, 200)
		time.Sleep(trialCap)
		if paused() || !slices.Contains(l.got(), "h 4") || !slices.Contains(l.got(), "h probe unverified") {
			t.Errorf("paused: %t, %q", paused(), l.got())
		}
	})
}

func TestUnverifiedQuotaIsSharedAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		store := memstore.New(memstore.Options{})
		open := func() *site {
			return serve(t, p, func(c *Config) { c.Store = store }, On("shop", "*", l.handle))
		}
		s, other := open(), open()
		quota := func(s *site) *unverifiedQuota { return s.rx.endpoints["shop"].monitor.quota }
		take := func(s *site, events int, size int64) error { return quota(s).take(t.Context(), s.rx, events, size) }
		for i := range 99 {
			if err := take([]*site{s, other}[i%2], 100, 1000); err != nil {
				t.Fatal(i, err)
			}
		}
		s.wantStatus(forged("last", "last"), 200)
		again := open()
		g := again.send(forged("over", "over"))
		if wantProblem(t, g, 503, "unverified_quota"); g.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		s.wantStatus(forged("reserved", "reserved"), 200) // s has reserved more than it took
		again.wantStatus(req{id: "over", body: "real"}, 200)
		time.Sleep(unverifiedDay)
		again.wantStatus(forged("over", "over"), 200)
		if err := take(again, 1, unverifiedBytes-int64(len("over"))); err != nil {
			t.Error(err)
		}
		if err := take(other, 1, 2); failureOf(err).code != codeUnverifiedQuota {
			t.Error("bytes beyond the quota:", err)
		}
	})
}

func TestUnverifiedDeliveriesHaveARateAndEarnNoCredit(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		p.Rate = producer.Rate{Events: 1, Per: time.Hour}
		s := serve(t, p, nil, On("shop", "*", l.handle))
		for i := range unverifiedRate.Burst {
			s.wantStatus(forged(fmt.Sprint(i), fmt.Sprint(i)), 200)
		}
		wantProblem(t, s.send(forged("over", "over")), 503, "unverified_quota")
		if known := s.rx.limiter.Known(time.Now()); len(known) != 0 {
			t.Error("a client that signs nothing is known:", known)
		}
		s.wantStatus(req{id: "real", body: "real"}, 200) // within a rate of its own
		next, err := s.rx.Replace(s.rx.cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close() //nolint:errcheck // the store has no errors
		if m, old := next.endpoints["shop"].monitor, s.rx.endpoints["shop"].monitor; m.rate != old.rate ||
			m.quota != old.quota {
			t.Error("a reload gives a new quota")
		}
	})
}

func TestHandlersInTransactionsOptInToUnverifiedEvents(t *testing.T) {
	t.Parallel()
	tx := func(context.Context, *testTx, Event[[]byte]) error { return nil }
	if OnTx("shop", "*", tx).unverified || !OnTx("shop", "*", tx).Unverified(true).unverified {
		t.Error("OnTx takes unverified events unasked, or never")
	}
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		store := memstore.New(memstore.Options{})
		site := func(take bool) *site {
			h := On("shop", "*", l.handle).Named("h").Unverified(take)
			return serve(t, p, func(c *Config) { c.Store = store }, h)
		}
		l.fail = func(Event[[]byte]) error { return Postpone(time.Hour, errors.New("later")) }
		s := site(true)
		s.wantStatus(forged("waits", "waits"), 200)
		wantRuns(t, l, "h waits unverified")
		if err := s.rx.Close(); err != nil {
			t.Fatal(err)
		}
		s = site(false)
		s.store = store
		s.wantStatus(forged("none", "none"), 200)
		time.Sleep(2 * time.Hour)
		wantRuns(t, l, "h waits unverified")
		var states []string
		for _, rec := range s.records() {
			states = append(states, rec.State().String()+" "+rec.Note)
		}
		want := []string{"done unverified: signature_mismatch; no handler", "dead unverified: signature_mismatch"}
		if !slices.Equal(states, want) {
			t.Errorf("%q, want %q", states, want)
		}
	})
}

func TestMonitoringEndsAndCannotBeginAgainForAYear(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		store := memstore.New(memstore.Options{})
		day := func(n int) time.Time { return time.Now().Add(time.Duration(n) * 24 * time.Hour) }
		first := time.Now()
		open := func(until time.Time) (*site, error) {
			p := monitoredProducer()
			p.MonitorUntil = until
			s := &site{t: t, log: &syncBuffer{}, p: p}
			rx, err := Open(Config{Store: store, Producers: []producer.Producer{p}, URL: "https://hooks.example",
				Handlers: []Handler{On("shop", "*", l.handle)}, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
			if err == nil {
				t.Cleanup(func() { _ = rx.Close() })
			}
			s.rx = rx
			return s, err
		}
		latest := first.Add(monitorFor).UTC().Format(time.RFC3339)
		refused := func(until time.Time, want string) {
			t.Helper()
			if _, err := open(until); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		refused(day(31), "30 days")
		s, err := open(day(10))
		if err != nil {
			t.Fatal(err)
		}
		s.wantStatus(forged("e1", "1"), 200)
		refused(first.Add(monitorFor+time.Second), latest)
		time.Sleep(10 * 24 * time.Hour)
		wantProblem(t, s.send(forged("e2", "2")), 401, "signature_invalid")
		if s, err = open(first.Add(monitorFor)); err != nil {
			t.Fatal(err)
		}
		s.wantStatus(forged("e3", "3"), 200)
		time.Sleep(30 * 24 * time.Hour)
		if s, err = open(day(-1)); err != nil || !strings.Contains(s.log.String(), "monitor_until has passed") {
			t.Fatal(err, s.log)
		}
		wantProblem(t, s.send(forged("e4", "4")), 401, "signature_invalid")
		refused(day(1), latest)
		time.Sleep(monitorAgain - 41*24*time.Hour)
		refused(day(1), latest)
		time.Sleep(2 * 24 * time.Hour)
		if s, err = open(day(30)); err != nil {
			t.Fatal(err)
		}
		s.wantStatus(forged("e5", "5"), 200)
	})
}

// noNotes is a store that cannot change a note.
type noNotes struct{ dedup.Store }

func (noNotes) ChangeNote(context.Context, dedup.Key, func(string) (string, error)) error {
	return errors.New("the disk is gone")
}

func TestMonitoringNeedsItsFirstStart(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		s := serve(t, monitoredProducer(), func(c *Config) { c.Store = noNotes{c.Store} }, On("shop", "*", l.handle))
		wantProblem(t, s.send(forged("e1", "1")), 401, "signature_invalid")
		if !strings.Contains(s.log.String(), "verification is enforced") {
			t.Error(s.log)
		}
	})
}

func TestMonitoringIsRefusedWhereTheProofNamesTheSender(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour)
	agent := producer.Signed("agents", verify.StaticKeys(verify.Key{ID: "k", Principal: "a"}))
	unsigned := producer.Producer{Name: "open", Contract: producer.Webhook}
	for want, p := range map[string]producer.Producer{"principals, agents": agent, "nothing is verified": unsigned} {
		p.MonitorUntil = until
		if err := errors.Join(p.Check()...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		p.MonitorUntil = time.Time{}
		if err := errors.Join(p.Check()...); err != nil && strings.Contains(err.Error(), "monitor") {
			t.Error(err)
		}
	}
}

func TestUnverifiedEventsTakeAtMostHalfOfWhatAHandlerMayDo(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(Handler) Handler{
		"rate":        func(h Handler) Handler { return h.Rate(producer.Rate{Events: 1, Per: time.Minute}) },
		"concurrency": func(h Handler) Handler { return h.Concurrency(2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				release := make(chan struct{})
				var verified, unverified atomic.Int32
				slow := On("shop", "*", func(ctx context.Context, ev Event[[]byte]) error {
					if !ev.Unverified {
						verified.Add(1)
						return nil
					}
					unverified.Add(1)
					if name == "concurrency" {
						select {
						case <-release:
						case <-ctx.Done():
						}
					}
					return nil
				})
				longer := func(c *Config) { c.HandlerTimeout = time.Hour }
				s := serve(t, monitoredProducer(), longer, bound(slow).Named("h"))
				for i := range 60 {
					s.wantStatus(forged(fmt.Sprint("f", i), "forged"), 200)
				}
				for i := range 4 {
					s.wantStatus(req{id: fmt.Sprint("r", i), body: fmt.Sprint("real", i)}, 200)
				}
				time.Sleep(9 * time.Minute) // of which verified events get every second token, if they wait
				if n := verified.Load(); n != 4 {
					t.Errorf("%d verified events ran, beside %d unverified", n, unverified.Load())
				}
				close(release)
				time.Sleep(3 * time.Hour)
				if n := unverified.Load(); n != 60 {
					t.Errorf("%d unverified events ran", n)
				}
			})
		})
	}
}

func TestAnUnverifiedTaskThatMustWaitGivesBackItsHalf(t *testing.T) {
	task := func(unverified bool) *attempt {
		a := &attempt{}
		a.rec.Tasks = []dedup.Task{{Handler: "h"}}
		if unverified {
			a.rec.Payload.Attributes = map[string]string{UnverifiedAttribute: "x"}
		}
		return a
	}
	h := On("gh", "*", (&runs{}).handle).Named("h").Concurrency(2).Rate(producer.Rate{Events: 2, Per: time.Hour})
	var c control
	c.configure(map[string]*Handler{"h": &h})
	first, second := task(false), task(false)
	if !c.start(first) || !c.start(second) {
		t.Fatal("two verified tasks do not start")
	}
	if c.start(task(true)) {
		t.Fatal("a third task starts")
	}
	for _, a := range []*attempt{first, second} {
		c.free(a) // neither occupied a worker: both tokens come back
	}
	if !c.start(task(true)) {
		t.Error("an unverified task does not start: the half that it did not use is lost")
	}
}

func TestUnverifiedEventIsNamedByTypeAndWithoutABodyByItsTarget(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		p := monitoredProducer()
		p.EmptyBody = true
		s := serve(t, p, nil, On("shop", "*", l.handle).Named("h"))
		for _, typ := range []string{"", "order", "order"} {
			a := forged("e1", "body")
			a.typ = typ
			s.wantStatus(a, 200)
		}
		for _, query := range []string{"?a=1", "?a=2", "?a=2"} {
			a := forged("e2", "")
			a.path = "/webhooks/shop" + query
			s.wantStatus(a, 200)
		}
		if got := len(l.got()); got != 4 {
			t.Errorf("%d events of 4", got)
		}
	})
}

func TestUnverifiedQuotaOutlivesAClockThatWasWrong(t *testing.T) {
	t.Parallel()
	monitoring(t, func(t *testing.T, l *tally) {
		ahead := 400 * 24 * time.Hour
		p, store := monitoredProducer(), memstore.New(memstore.Options{})
		open := func(late time.Duration) *site {
			p.MonitorUntil = time.Now().Add(late + 24*time.Hour)
			return serve(t, p, func(c *Config) {
				c.Store, c.Clock = store, func() time.Time { return time.Now().Add(late) }
			}, On("shop", "*", l.handle))
		}
		s := open(ahead)
		if err := s.rx.endpoints["shop"].monitor.quota.take(t.Context(), s.rx, unverifiedEvents, 1); err != nil {
			t.Fatal(err)
		}
		open(0).wantStatus(forged("e1", "forged"), 200)
		p.MonitorUntil = time.Now().Add(40 * 24 * time.Hour)
		c := s.rx.cfg
		c.Clock, c.Producers = time.Now, []producer.Producer{p}
		if _, err := s.rx.Replace(c); err == nil {
			t.Error("40 days are accepted")
		}
	})
}
