package receiver

import (
	"net/http"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

const day = 24 * time.Hour

// signed sends a body signed by the producer p, whose secret may differ from the receiver's;
// fields alternate names and values.
func (l *later) signed(p producer.Producer, body string, fields ...string) got {
	l.t.Helper()
	a := req{body: body, header: http.Header{"Sig": nil, "Signed-At": nil}}
	r := l.request(a)
	signer, ok := p.Scheme.(interface {
		Sign(*http.Request, []byte, time.Time) error
	})
	if !ok {
		l.t.Fatalf("%T cannot sign", p.Scheme)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	public := r.Clone(l.t.Context())
	public.URL.Scheme, public.URL.Host = "https", "hooks.example"
	if err := signer.Sign(public, []byte(body), time.Now()); err != nil {
		l.t.Fatal(err)
	}
	a.header = public.Header
	a.header["Sig"] = nil
	return l.send(a)
}

// reasons counts the quarantined records by reason.
func (l *later) reasons() map[string]int {
	l.t.Helper()
	out := map[string]int{}
	for _, rec := range l.quarantined() {
		out[rec.QuarantineReason]++
	}
	return out
}

func TestRazorpayBytesThatRepeat(t *testing.T) {
	t.Parallel()
	older, newer := preset.Razorpay("the old secret of 17"), preset.Razorpay("the new secret of 17")
	laterSite(t, preset.Razorpay("the new secret of 17", "the old secret of 17"), func(l *later) {
		const body, late = `{"event":"payment.captured","created_at":1,"id":1}`, `{"event":"payment.captured",` +
			`"created_at":1,"id":2}`
		l.signed(older, body, "X-Razorpay-Event-Id", "a")
		l.ran()
		l.clock.Advance(6 * day)
		if g := l.signed(newer, body, "X-Razorpay-Event-Id", "a"); g.status != 200 || !g.replayed() {
			l.t.Errorf("by hand, with the new secret: %+v", g)
		}
		if g := l.signed(newer, body, "X-Razorpay-Event-Id", "b"); g.status != 200 || g.replayed() {
			l.t.Errorf("under another identifier: %+v", g)
		}
		l.signed(newer, late, "X-Razorpay-Event-Id", "c") // was never accepted, whatever its time
		l.ran()
		l.clock.Advance(54 * day)
		if g := l.signed(newer, body, "X-Razorpay-Event-Id", "a"); g.status != 200 || g.replayed() {
			l.t.Errorf("after the window: %+v", g)
		}
		l.signed(newer, body, "X-Razorpay-Event-Id", "d")
		if got := l.reasons(); got["same_bytes"] != 1 || got["seen_before"] != 1 || len(got) != 2 {
			l.t.Errorf("quarantined: %v", got)
		}
		if n := l.runs.count(); n != 2 {
			l.t.Errorf("%d runs, want 2", n)
		}
	})
}

func TestGitHubBodiesThatOccurAgainAfterTheWindow(t *testing.T) {
	t.Parallel()
	p := preset.GitHub("the secret of 17")
	laterSite(t, p, func(l *later) {
		const dispatch = `{"workflow":"a.yml","inputs":null,"ref":"refs/heads/main"}`
		const push = `{"ref":"refs/heads/main","after":"1"}`
		send := func(body, kind, id string) got {
			return l.signed(p, body, "X-GitHub-Event", kind, "X-GitHub-Delivery", id)
		}
		for _, id := range []string{"a", "b", "c"} {
			send(dispatch, "workflow_dispatch", "dispatch-"+id)
			l.ran()
			l.clock.Advance(10 * day)
		}
		send(push, "push", "push-a")
		l.ran()
		l.clock.Advance(10 * day)
		send(push, "push", "push-b")
		send(push, "workflow_dispatch", "push-c")
		if got := l.reasons(); got["seen_before"] != 1 || len(got) != 1 {
			l.t.Errorf("quarantined: %v", got)
		}
		if n := l.runs.count(); n != 4 {
			l.t.Errorf("%d runs, want 4", n)
		}
	})
}

func TestATwilioCallDoesNotRunAgainAfterTheWindow(t *testing.T) {
	t.Parallel()
	p := preset.Twilio("the token of 17")
	laterSite(t, p, func(l *later) {
		send := func(token string) got {
			a := req{path: "/webhooks/twilio?CallSid=CA1&Digits=1", header: http.Header{"Sig": nil, "Signed-At": nil}}
			r := l.request(a)
			r.URL.Scheme, r.URL.Host = "https", "hooks.example"
			r.Header.Set("I-Twilio-Idempotency-Token", token)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if err := p.Scheme.(interface {
				Sign(*http.Request, []byte, time.Time) error
			}).Sign(r, nil, time.Now()); err != nil {
				l.t.Fatal(err)
			}
			a.header = r.Header
			a.header["Sig"] = nil
			return l.send(a)
		}
		for _, token := range []string{"a", "b"} { // the same key pressed twice in one call
			if g := send(token); g.status != 200 {
				l.t.Fatalf("%+v", g)
			}
			l.ran()
		}
		l.clock.Advance(10 * day)
		send("c")
		if got := l.reasons(); got["seen_before"] != 1 || l.runs.count() != 2 {
			l.t.Errorf("%d runs, quarantined: %v", l.runs.count(), got)
		}
	})
}

func TestAPurgedGitHubDeliveryRunsAgain(t *testing.T) {
	t.Parallel()
	p := preset.GitHub("the secret of 17")
	laterSite(t, p, func(l *later) {
		const push = `{"ref":"refs/heads/main","after":"1"}`
		l.signed(p, push, "X-GitHub-Event", "push", "X-GitHub-Delivery", "a")
		l.ran()
		l.clock.Advance(day)
		for rec, err := range l.kept.List(l.t.Context(), dedup.Filter{}) {
			if err != nil {
				l.t.Fatal(err)
			}
			if err := l.kept.Purge(l.t.Context(), rec.Event); err != nil {
				l.t.Fatal(err)
			}
		}
		l.clock.Advance(10 * day)
		l.signed(p, push, "X-GitHub-Event", "push", "X-GitHub-Delivery", "b")
		l.ran()
	})
}
