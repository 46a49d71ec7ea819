package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

func quiet(*testing.T) *slog.Logger { return slog.New(slog.DiscardHandler) }

// stripeWorld is a receiver that was served for a day, of whose events each tenth was dropped.
func stripeWorld(t *testing.T, events int) (*world, *stripe) {
	t.Helper()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s)
	w.served()
	w.rx.Step(24 * time.Hour)
	for i := range events {
		e := s.add(i, w.clock().Add(-time.Hour+time.Duration(i)*40*time.Minute/time.Duration(events)))
		if i%10 != 3 {
			w.deliver(e)
		}
	}
	return w, s
}

func githubWorld(t *testing.T, events int) (*world, *github) {
	t.Helper()
	g := newGitHub(t)
	w := newWorld(t, githubProducer(), g)
	g.world, g.now = w, w.clock
	w.served()
	for i := range events {
		g.send(fmt.Sprint("guid-", i), fmt.Appendf(nil, `{"ref":"refs/heads/%d"}`, i), i%10 == 3, false)
	}
	w.rx.Step(time.Hour)
	return w, g
}

// size is how many events happen, of which a tenth is dropped: 10,000 with EYELET_LONG.
func size() int {
	if os.Getenv("EYELET_LONG") != "" {
		return 10_000
	}
	return 1000
}

func TestWhatNeverCameIsFetchedWithinOneInterval(t *testing.T) {
	t.Parallel()
	n := size()
	w, s := stripeWorld(t, n)
	if p := w.compare(Request{}); p.Missed != n/10 || p.Listed != n || len(s.asked) != n/100 {
		t.Errorf("missed %d of %d, with %d requests", p.Missed, p.Listed, len(s.asked))
	}
	w.once(n)
	if len(w.fetch) != n/10 || w.seen["missed fetched"] != n/10 || w.seen["compared "] != 1 {
		t.Errorf("%d handlers saw a fetched event; observed %v", len(w.fetch), w.seen)
	}
	w.rx.Step(15 * time.Minute)
	if p := w.compare(Request{}); p.Missed != 0 {
		t.Errorf("the next comparison misses %d", p.Missed)
	}
	if p := w.compare(Request{Since: 20 * time.Hour}); p.Missed != 0 || p.Listed != n {
		t.Errorf("a long comparison misses %d of %d", p.Missed, p.Listed)
	}
	w.once(n)
}

func TestWhatNeverCameIsSentAgainWithinOneInterval(t *testing.T) {
	t.Parallel()
	n := size()
	w, g := githubWorld(t, n)
	if p := w.compare(Request{}); p.Missed != n/10 || p.Asked != n/10 {
		t.Errorf("missed %d, asked %d", p.Missed, p.Asked)
	}
	w.once(n)
	if len(w.fetch) != 0 {
		t.Errorf("%d of the events that were sent again count as fetched", len(w.fetch))
	}
	posts := len(g.all)
	w.rx.Step(15 * time.Minute)
	if p := w.compare(Request{}); p.Missed+p.Asked+p.GivenUp != 0 || len(g.all) != posts {
		t.Errorf("the next comparison: %+v", p)
	}
}

// A process dies before or after each of its requests and notes; the next one continues.
func TestNothingIsDoubledAtAnyKillPoint(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for steps := 1; ; steps++ {
			w, s := stripeWorld(t, 40)
			s.pages = 10
			lived := w.compareIn(steps, after)
			w.rx.Step(leaseTime)
			w.compare(Request{})
			w.once(40)

			w, g := githubWorld(t, 40)
			g.pages = 10
			lived = w.compareIn(steps, after) && lived
			w.rx.Step(15 * time.Minute) // a request that may have been sent is sent again after the grace
			w.compare(Request{})
			w.rx.Step(15 * time.Minute)
			w.compare(Request{})
			w.once(40)
			if lived {
				break
			}
		}
	}
}

// Each process dies after a few steps, and the comparison still reaches its end.
func TestAComparisonContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 1000)
	s.pages = 20
	lives := 0
	for ; !w.compareIn(4+lives%3, lives%2 == 0); lives++ {
		w.rx.Step(leaseTime)
	}
	w.once(1000)
	if pages := len(s.asked); lives < 10 || pages > 3*len(s.events)/20 {
		t.Errorf("%d lives read %d pages", lives, pages)
	}
	w, g := githubWorld(t, 400)
	for lives = 0; !w.compareIn(12+lives%3, lives%2 == 0); lives++ {
		w.rx.Step(leaseTime)
	}
	w.rx.Step(15 * time.Minute)
	w.compare(Request{})
	w.once(400)
	if lists := len(g.asked); lives < 5 || lists > 80 {
		t.Errorf("%d lives sent %d requests", lives, lists)
	}
}

func TestWebhookAndListInEachOrderAreOneEvent(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s)
	w.served()
	w.rx.Step(time.Hour)
	first := s.add(1, w.clock().Add(-30*time.Minute))
	w.deliver(first)
	second := s.add(2, w.clock().Add(-30*time.Minute))
	if p := w.compare(Request{}); p.Missed != 1 {
		t.Errorf("missed %d, want the second", p.Missed)
	}
	if d := w.deliver(second); !d.Replayed() {
		t.Errorf("the webhook after the list is answered %s", d.Code)
	}
	w.once(2)
	for i := 3; i < 40; i++ { // at once
		e := s.add(i, w.clock().Add(-20*time.Minute))
		var wait sync.WaitGroup
		wait.Go(func() { w.deliver(e) })
		wait.Go(func() { w.compare(Request{}) })
		wait.Wait()
	}
	w.compare(Request{})
	w.once(39)
}

func TestOnlyWhatTheEndpointSubscribesToIsTakenIn(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	p := stripeProducer()
	p.Source.Types = []string{"invoice.paid", "invoice.sent"}
	w := newWorld(t, p, s)
	w.served()
	w.rx.Step(time.Hour)
	for i := range 4 {
		s.add(i, w.clock().Add(-30*time.Minute))
	}
	s.events[3].Live = false            // of the other mode
	s.events[2].Type = "customer.added" // not subscribed to
	s.events[1].Created = w.clock().Unix()
	if got := w.compare(Request{}); got.Missed != 1 || got.OnTheWay != 1 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(s.asked[0], "types%5B%5D=invoice.paid&types%5B%5D=invoice.sent") {
		t.Errorf("the request does not name the types: %s", s.asked[0])
	}
	w.once(1)
}

// What may have been accepted and forgotten, or run by an older endpoint, is not taken in.
func TestOldEventsAreNotTakenIn(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s) // the window is 4 days
	s.add(1, w.clock().Add(-time.Hour))   // an older endpoint may have run it
	if p := w.compare(Request{}); p.Missed != 0 {
		t.Errorf("missed %d from before the first start", p.Missed)
	}
	_, err := w.reconciler(w.store).Compare(t.Context(), Request{Since: 2 * time.Hour}, nil)
	if !errors.Is(err, ErrTooFar) || !strings.Contains(err.Error(), "this store serves the producer since") {
		t.Errorf("since before the first start: %v", err)
	}
	adopt := w.clock().Add(-2 * time.Hour)
	if p := w.compare(Request{AdoptBefore: adopt}); p.Missed != 1 {
		t.Errorf("adopted %d", p.Missed)
	}
	w.once(1)
	w.rx.Step(5 * 24 * time.Hour) // nothing was compared meanwhile
	s.add(2, w.clock().Add(-95*time.Hour-30*time.Minute))
	s.add(3, w.clock().Add(-94*time.Hour))
	p := w.compare(Request{})
	if p.Missed != 1 || p.Unknown.IsZero() {
		t.Errorf("missed %d, and what is older is unknown before %v", p.Missed, p.Unknown)
	}
	_, err = w.reconciler(w.store).Compare(t.Context(), Request{Since: 96 * time.Hour}, nil)
	if !errors.Is(err, ErrTooFar) || !strings.Contains(err.Error(), "a window of 96h") {
		t.Errorf("since beyond the window: %v", err)
	}
	w.once(2)
	_, err = w.reconciler(w.store).Compare(t.Context(),
		Request{Since: 96 * time.Hour, AdoptBefore: w.clock().Add(-200 * time.Hour)}, nil)
	if !errors.Is(err, ErrTooFar) {
		t.Errorf("adopting lifts the bound of the window: %v", err)
	}
}

// Events that were named, or kept, in another way cannot be recognised.
func TestAnotherNameOrWindowIsABound(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s)
	w.served()
	w.rx.Step(10 * time.Hour)
	since := func() time.Time {
		w.Helper()
		r := w.reconciler(w.store)
		if err := r.found(t.Context()); err != nil {
			t.Fatal(err)
		}
		st, err := r.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at, _ := r.bound(&st, w.clock())
		return at
	}
	before := since()
	w.p.Window = 3 * time.Hour
	since()
	w.rx.Step(time.Hour)
	w.p.Window = 10 * 24 * time.Hour
	if got, want := since(), w.clock().Add(-3*time.Hour); !got.Equal(want) || !got.After(before) {
		t.Errorf("after a longer window the bound is %v, want %v", got, want)
	}
	w.p.Key = githubProducer().Key
	if got := since(); !got.Equal(w.clock()) {
		t.Errorf("after another key the bound is %v, want %v", got, w.clock())
	}
}

func TestTheStoreServedTheProducerBeforeItWasCompared(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s)
	w.deliver(s.add(1, w.clock()))
	w.rx.Step(2 * time.Hour)
	s.add(2, w.clock().Add(-time.Hour))
	if p := w.compare(Request{}); p.Missed != 1 {
		t.Errorf("missed %d", p.Missed)
	}
	w.once(2)
}

// A short comparison by hand does not hide what was not compared, nor does a long grace.
func TestEveryEventIsComparedSooner(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	p := stripeProducer()
	p.Source.Grace = time.Hour
	w := newWorld(t, p, s)
	w.compare(Request{})
	w.rx.Step(10 * time.Hour)
	s.add(1, w.clock().Add(-5*time.Hour))
	s.add(2, w.clock().Add(-50*time.Minute))
	if p := w.compare(Request{Since: 2 * time.Hour}); p.Missed != 0 || p.OnTheWay != 1 {
		t.Errorf("%+v", p)
	}
	if p := w.compare(Request{}); p.Missed != 1 || p.OnTheWay != 1 {
		t.Errorf("%+v", p)
	}
	w.rx.Step(30 * time.Minute)
	if p := w.compare(Request{}); p.Missed != 1 {
		t.Errorf("%+v", p)
	}
	w.once(2)
}

// A page that the vendor no longer has is not asked for again and again.
func TestAComparisonBeginsAgainWhereItsPageIsGone(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 40)
	s.pages = 10
	s.refuse = func(n int, rw http.ResponseWriter) bool {
		if n > 2 {
			rw.WriteHeader(http.StatusBadRequest)
		}
		return n > 2
	}
	if _, err := w.reconciler(w.store).Compare(t.Context(), Request{}, nil); err == nil {
		t.Error("a page is gone, and there is no error")
	}
	s.refuse = nil
	before := len(s.asked)
	if p := w.compare(Request{}); p.Listed != 40 || strings.Contains(s.asked[before], "starting_after") {
		t.Errorf("the next comparison lists %d, and begins with %s", p.Listed, s.asked[before])
	}
	w.once(40)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 40)
	if p := w.compare(Request{DryRun: true}); p.Missed != 4 {
		t.Errorf("missed %d", p.Missed)
	}
	w.once(36)
	g, h := githubWorld(t, 40)
	if p := g.compare(Request{DryRun: true}); p.Missed != 4 || p.Asked != 0 || len(h.all) != 40 {
		t.Errorf("%+v", p)
	}
	if p := w.compare(Request{}); p.Missed != 4 || len(s.asked) != 2 {
		t.Errorf("after the dry run %d are missed", p.Missed)
	}
}

func TestAnEventThatNeverArrivesIsAskedForFiveTimes(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 10)
	g.lose = func(string) bool { return true }
	asked, gaveUp := 0, 0
	for range 9 {
		p := w.compare(Request{})
		asked, gaveUp = asked+p.Asked, gaveUp+p.GivenUp
		w.rx.Step(15 * time.Minute)
	}
	if asked != maxAsks || gaveUp != 1 || w.seen["missed given_up"] != 1 || w.seen["missed asked"] != 1 {
		t.Errorf("asked %d times, gave up %d; observed %v", asked, gaveUp, w.seen)
	}
	w.rx.Step(5 * 24 * time.Hour)
	w.compare(Request{})
	if notes, err := w.reconciler(w.store).loadAsked(t.Context()); err != nil || len(notes) != 0 {
		t.Errorf("%d notes are left, %v", len(notes), err)
	}
}

// The status in the list decides, even about an event that the store knows.
func TestAnEventWithoutAnAnswerIsAskedForAndSettled(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 5)
	i := 0
	for ; g.all[i].GUID != "guid-1"; i++ {
	}
	g.all[i].StatusCode = 504                                       // the answer did not arrive
	g.send("guid-3", []byte(`{"ref":"refs/heads/3"}`), false, true) // a person asked for the one that was lost
	if p := w.compare(Request{}); p.Asked != 1 {
		t.Errorf("asked %d times", p.Asked)
	}
	w.rx.Step(15 * time.Minute)
	if p := w.compare(Request{}); p.Asked != 0 {
		t.Errorf("asked %d times again", p.Asked)
	}
	w.once(5)
}

func TestWhatTheListNoLongerKeepsIsUnknown(t *testing.T) {
	t.Parallel()
	w, _ := githubWorld(t, 5)
	w.compare(Request{})
	w.rx.Step(80 * time.Hour)
	p := w.compare(Request{})
	if want := p.Until.Add(-72 * time.Hour); !p.Unknown.Equal(want) {
		t.Errorf("unknown before %v, want %v", p.Unknown, want)
	}
	if p := w.compare(Request{}); !p.Unknown.IsZero() {
		t.Errorf("still unknown before %v", p.Unknown)
	}
}

func TestOneProcessComparesAtATime(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 40)
	s.pages = 10
	other := w.reconciler(w.store)
	s.refuse = func(n int, _ http.ResponseWriter) bool {
		if n == 1 {
			if _, err := other.Compare(t.Context(), Request{}, nil); !errors.Is(err, ErrBusy) {
				t.Errorf("a second process: %v", err)
			}
		}
		return false
	}
	w.compare(Request{})
	s.refuse = nil
	if p, err := other.Compare(t.Context(), Request{}, nil); err != nil || p.Missed != 0 {
		t.Errorf("after the first one: %+v, %v", p, err)
	}
}

// A comparison that continues days later takes in nothing that may be forgotten by then.
func TestTheBoundMovesWithTime(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 40)
	s.pages = 10
	w.compareIn(4, true)
	w.rx.Step(5 * 24 * time.Hour)
	if p := w.compare(Request{}); p.Listed != 40 || len(s.asked) < 4 {
		t.Errorf("%+v after %d requests", p, len(s.asked))
	}
	w.once(37) // with that of the first page
}

func TestAListThatLagsIsComparedAgain(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	w := newWorld(t, stripeProducer(), s)
	w.served()
	w.rx.Step(time.Hour)
	w.compare(Request{})
	s.add(1, w.clock().Add(-20*time.Minute)) // the list did not have it
	w.rx.Step(15 * time.Minute)
	if p := w.compare(Request{}); p.Missed != 1 {
		t.Errorf("missed %d", p.Missed)
	}
}

// Events that were accepted under another configuration have names that a list does not have.
func TestRecordsOfAnotherConfigurationAreABound(t *testing.T) {
	t.Parallel()
	s := newStripe(t)
	p := stripeProducer()
	p.Key, p.Source.Token = producer.BodyDigest(), ""
	w := newWorld(t, p, s)
	w.deliver(s.add(1, w.clock()))
	w.rx.Step(2 * time.Hour)
	w.p = stripeProducer()
	r := w.reconciler(w.store)
	if err := r.found(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := r.load(t.Context()); err != nil || !st.First.Equal(w.clock()) {
		t.Errorf("the store serves the producer since %v, want %v; %v", st.First, w.clock(), err)
	}
}
