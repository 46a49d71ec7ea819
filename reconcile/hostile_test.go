package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refused stops a comparison at its nth request.
func refused(n int) func(int, http.ResponseWriter) bool {
	return func(i int, w http.ResponseWriter) bool {
		if i == n {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return i == n
	}
}

func TestAComparisonThatContinuesHasNoErrorOfBefore(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 40)
	s.pages, s.refuse = 10, refused(2)
	if p, err := w.reconciler(w.store).Compare(t.Context(), Request{}, nil); err == nil || p.Error == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	p, err := w.reconciler(w.store).Compare(t.Context(), Request{}, func(p Progress) {
		if !p.Ended.IsZero() {
			t.Errorf("it has ended before its end: %+v", p)
		}
	})
	if err != nil || p.Error != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// The clock was a year ahead during a comparison, whose process died in the next one.
func TestAClockThatWasAheadSilencesNoComparison(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 10)
	right := w.clock
	w.clock = func() time.Time { return right().Add(365 * 24 * time.Hour) }
	w.compare(Request{})
	w.compareIn(2, true)
	w.clock = right
	if p := w.compare(Request{Since: time.Minute}); p.Missed != 0 {
		t.Errorf("missed %d within a minute", p.Missed)
	}
	s.add(13, w.clock())
	w.rx.Step(time.Hour)
	if p := w.compare(Request{}); p.Missed != 2 {
		t.Errorf("missed %d, want that of before and that of after: %+v", p.Missed, p)
	}
}

func TestARequestThatMayHaveBeenSentCounts(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 10)
	posts := 0
	g.refuse = func(_ int, rw http.ResponseWriter) bool {
		asks := strings.HasPrefix(g.asked[len(g.asked)-1], "POST")
		if asks {
			posts++
			rw.WriteHeader(http.StatusBadGateway)
		}
		return asks
	}
	for range 12 {
		_, _ = w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
		w.rx.Step(15 * time.Minute)
	}
	if posts != maxAsks || w.seen["missed given_up"] != 1 {
		t.Errorf("asked %d times; observed %v", posts, w.seen)
	}
}

// A short comparison does not see what arrived before.
func TestAShortComparisonAsksForNothingThatItCannotSee(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 10)
	w.compare(Request{})
	posts := len(g.all)
	w.rx.Step(5 * time.Hour)
	if p := w.compare(Request{Since: time.Hour}); p.Asked != 0 || len(g.all) != posts {
		t.Errorf("%+v", p)
	}
	w.once(10)
}

// A person asked for it, and the process that saw that died before the page of the first sending.
func TestWhatArrivedIsKnownToTheNextProcess(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 10)
	g.send("guid-3", []byte(`{"ref":"refs/heads/3"}`), false, true)
	g.pages, g.refuse = 4, refused(2)
	_, _ = w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
	if p := w.compare(Request{}); p.Missed+p.Asked != 0 || p.Listed != 11 {
		t.Errorf("%+v", p)
	}
}

// An Answer handler may reject an event: that is the verdict on it.
func TestARejectedEventIsSettledBySendingItAgain(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 1)
	g.send("guid-3", []byte(`{"ref":"refs/heads/3"}`), true, false)
	g.all[1].StatusCode = http.StatusUnprocessableEntity
	w.rx.Step(time.Hour)
	for range 3 {
		w.compare(Request{})
		g.all[len(g.all)-1].StatusCode = http.StatusUnprocessableEntity
		w.rx.Step(15 * time.Minute)
	}
	if len(g.all) != 3 {
		t.Errorf("%d sendings, want 3", len(g.all))
	}
}

func TestPagesInACircleEnd(t *testing.T) {
	t.Parallel()
	w, g := githubWorld(t, 20)
	g.respond = func(r *http.Response) {
		r.Header.Set("Link", fmt.Sprintf(`<%s?cursor=%d>; rel="next"`, hook, 19-len(g.asked)%2))
	}
	_, err := w.reconciler(w.store).Compare(t.Context(), Request{}, nil)
	if err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("%v after %d requests", err, len(g.asked))
	}
}

func TestAWaitThatOverflowsIsADay(t *testing.T) {
	t.Parallel()
	r := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"9223372037"}}}
	if got := limit(r, time.Now()); got != 24*time.Hour {
		t.Errorf("a wait of %s", got)
	}
}

// The year of a time in JSON has four digits.
func TestAnItemOfNoTimeStopsNothing(t *testing.T) {
	t.Parallel()
	w, s := stripeWorld(t, 1)
	s.pages = 1
	s.add(77, time.Unix(999_999_999_999_999_999, 0))
	if p := w.compare(Request{}); p.Unusable != 1 || p.Listed != 1 {
		t.Errorf("%+v", p)
	}
}

// A malformed response may quote the request.
func TestAnErrorQuotesNoAnswer(t *testing.T) {
	t.Parallel()
	err := error(&sendError{"api.github.test", fmt.Errorf("malformed HTTP response %q: %w", token, errKilled)})
	if strings.Contains(err.Error(), token) || !errors.Is(err, errKilled) {
		t.Error(err)
	}
}
