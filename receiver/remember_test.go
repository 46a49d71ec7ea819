package receiver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// later is a receiver of one producer with a settable clock for its store, which counts runs.
type later struct {
	*site
	clock *deduptest.Clock
	runs  *counter
	kept  dedup.Store
}

// laterSite runs a test in a bubble.
func laterSite(t *testing.T, p producer.Producer, f func(l *later)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		l := &later{clock: deduptest.NewClock(), runs: newCounter()}
		l.kept = memstore.New(memstore.Options{Clock: l.clock})
		l.site = serve(t, p, func(c *Config) { c.Store = l.kept },
			On(p.Name, "*", func(context.Context, Event[[]byte]) error { l.runs.add(); return nil }))
		f(l)
	})
}

// ran waits for a run and its outcome, with which the window begins.
func (l *later) ran() {
	l.t.Helper()
	l.runs.await(l.t)
	synctest.Wait()
}

// runTwice sends a delivery and, after 60 days, again. It runs each time.
func (l *later) runTwice(a req) {
	l.t.Helper()
	for range 2 {
		l.send(a)
		l.ran()
		l.clock.Advance(60 * 24 * time.Hour)
	}
}

// quarantined lists the quarantined records, newest first, with their bodies.
func (l *later) quarantined() (out []dedup.Record) {
	l.t.Helper()
	for rec, err := range l.kept.List(l.t.Context(), dedup.Filter{Quarantined: true, Body: true}) {
		if err != nil {
			l.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

// timeless is a webhook producer that signs the identifier but no time.
func timeless() producer.Producer {
	p := webhookProducer()
	p.Scheme = testScheme{covered: []string{"delivery-id"}}
	p.EventTime = producer.JSON("at")
	return p
}

var noTime = http.Header{"Signed-At": nil}

func TestACapturedDeliveryDoesNotRunAgainAfterTheWindow(t *testing.T) {
	t.Parallel()
	laterSite(t, timeless(), func(l *later) {
		a := req{id: "e1", typ: "paid", body: `{"amount":1}`, header: noTime}
		l.send(a)
		l.ran()
		l.clock.Advance(60 * 24 * time.Hour)
		for range 2 {
			if g := l.send(a); g.status != 200 || g.replayed() {
				l.t.Errorf("after the window: %+v", g)
			}
		}
		quarantined := l.quarantined()
		if len(quarantined) != 1 || quarantined[0].QuarantineReason != "seen_before" ||
			string(quarantined[0].Payload.Body) != a.body {
			l.t.Fatalf("quarantined: %+v", quarantined)
		}
		if n := l.runs.count(); n != 1 {
			l.t.Errorf("%d runs", n)
		}
		// An operator can reopen it.
		if _, err := l.kept.Reopen(l.t.Context(), quarantined[0].Event); err != nil {
			l.t.Fatal(err)
		}
		l.ran()
		l.send(req{id: "e2", typ: "paid", body: `{"amount":2}`, header: noTime})
		l.ran()
	})
}

func TestEventFromBeforeTheRememberedDaysIsQuarantined(t *testing.T) {
	t.Parallel()
	laterSite(t, timeless(), func(l *later) {
		body := func(at time.Time) string { return fmt.Sprintf(`{"at":%q}`, at.Format(time.RFC3339)) }
		began := l.clock.Now()
		l.send(req{id: "young", body: body(began.Add(-500 * 24 * time.Hour)),
			header: noTime}) // a young store accepts any age
		l.ran()
		l.clock.Advance(100 * 24 * time.Hour)
		if g := l.send(req{id: "old", body: body(began.Add(-24 * time.Hour)), header: noTime}); g.status != 200 {
			l.t.Errorf("%+v", g)
		}
		if quarantined := l.quarantined(); len(quarantined) != 1 ||
			quarantined[0].QuarantineReason != "too_old_to_tell" || quarantined[0].Key.ID != "old" ||
			len(quarantined[0].Payload.Body) == 0 {
			l.t.Fatalf("quarantined: %+v", quarantined)
		}
		l.send(req{id: "late", body: body(began.Add(50 * 24 * time.Hour)),
			header: noTime}) // late, but within the remembered days
		l.ran()
		if n := l.runs.count(); n != 2 {
			l.t.Errorf("%d runs", n)
		}
	})
}

func TestSeenEventIsRefusedUnderTheAPIContract(t *testing.T) {
	t.Parallel()
	p := timeless()
	p.Contract = producer.API
	laterSite(t, p, func(l *later) {
		a := req{id: "e1", body: `{}`, header: noTime}
		l.send(a)
		l.ran()
		l.clock.Advance(60 * 24 * time.Hour)
		wantProblem(l.t, l.send(a), 401, "signature_reused")
		if n := len(l.quarantined()); n != 0 {
			l.t.Errorf("%d quarantined", n)
		}
	})
}

func TestWithoutMemoryAWindowEnds(t *testing.T) {
	t.Parallel()
	p := timeless()
	p.Forgets = true
	laterSite(t, p, func(l *later) {
		a := req{id: "e1", body: `{}`, header: noTime}
		l.runTwice(a)
	})
}

func TestASignedTimeNeedsNoMemory(t *testing.T) {
	t.Parallel()
	laterSite(t, timeless(), func(l *later) {
		a := req{id: "e1", body: `{}`} // signed now, with the key
		l.runTwice(a)
	})
}

func TestAPurgedEventIsNotRemembered(t *testing.T) {
	t.Parallel()
	laterSite(t, timeless(), func(l *later) {
		a := req{id: "e1", body: `{}`, header: noTime}
		l.send(a)
		l.ran()
		for rec, err := range l.kept.List(l.t.Context(), dedup.Filter{}) {
			if err != nil {
				l.t.Fatal(err)
			}
			if err := l.kept.Purge(l.t.Context(), rec.Event); err != nil {
				l.t.Fatal(err)
			}
		}
		l.clock.Advance(60 * 24 * time.Hour)
		l.send(a)
		l.ran()
	})
}

func TestAnItemOfABatchThatWasSeenBeforeIsQuarantinedAlone(t *testing.T) {
	t.Parallel()
	p := timeless()
	p.Split = func(d *producer.Delivery) (items []producer.Item, err error) {
		for line := range strings.FieldsSeq(string(d.Body)) {
			items = append(items, producer.Item{ID: line, Body: []byte(line)})
		}
		return items, nil
	}
	laterSite(t, p, func(l *later) {
		l.send(req{body: "a b", header: noTime})
		l.runs.await(l.t)
		l.ran()
		l.clock.Advance(60 * 24 * time.Hour)
		if g := l.send(req{body: "b c", header: noTime}); g.status != 200 {
			l.t.Errorf("%+v", g)
		}
		l.ran()
		if quarantined := l.quarantined(); len(quarantined) != 1 || quarantined[0].Key.ID != "b" ||
			quarantined[0].QuarantineReason != "seen_before" {
			l.t.Errorf("quarantined: %+v", quarantined)
		}
	})
}
