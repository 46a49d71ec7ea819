package receiver_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestAnEventIsADuplicateAfterItsProducerIsConfiguredOtherwise has a sender with several
// credentials, and each pair of configurations that verify one or two of them, before and after a
// reload or a restart.
func TestAnEventIsADuplicateAfterItsProducerIsConfiguredOtherwise(t *testing.T) {
	t.Parallel()
	forms := []string{
		"{body}", "{timestamp}.{body}", "{id}.{timestamp}.{body}", "{header:X-Event-Id}.{body}", "rfc9421", "bearer",
		"{jcs}",
	}
	var signers []combined
	configured := map[string]verify.Scheme{}
	for i, form := range forms {
		s := combinedScheme(t, form, i)
		configured[form] = s.scheme
		for k, other := range signers {
			configured["any "+form+", "+forms[k]] = verify.Any{s.scheme, other.scheme}
			if form == "bearer" {
				configured["all bearer, "+forms[k]] = verify.All{other.scheme, s.scheme}
			}
		}
		signers = append(signers, s)
	}
	single := func(name string) bool { return slices.Contains(forms, name) }
	isShort := os.Getenv("EYELET_LONG") == "" // a quarter of the pairs of combinations
	for before, old := range configured {
		for after, scheme := range configured {
			if isShort && !single(before) && !single(after) && (len(before)+len(after))%4 != 0 {
				continue
			}
			for _, how := range []string{"reload", "restart"} {
				if how == "restart" && !single(before) && !single(after) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", how, before, after), func(t *testing.T) {
					t.Parallel()
					r := &renaming{target: "/webhooks/own", signers: signers}
					synctest.Test(t, func(t *testing.T) { r.run(t, ownOf(old), ownOf(scheme), how == "restart") })
				})
			}
		}
	}
}

// ownOf is a producer of webhooks whose events are named by their identifiers.
func ownOf(scheme verify.Scheme) producer.Producer {
	return producer.Producer{
		Name: "own", Scheme: scheme, Key: producer.Header("X-Event-Id"), Contract: producer.Webhook, SignsURL: true,
	}
}

// TestTheScopeOfAnEventMayBeConfiguredOtherwise changes what else belongs to the name of an event:
// the query, the principal, and the form of the content.
func TestTheScopeOfAnEventMayBeConfiguredOtherwise(t *testing.T) {
	t.Parallel()
	key, signer := ed25519Pair(t)
	signer.Components = []string{"@method", "@target-uri", "content-digest", "content-type", "x-event-id"}
	sign := combined{nil, func(h http.Header) { h.Del("Signature"); h.Del("Signature-Input") }, signer.Sign}
	rfc := func(principal string) verify.Scheme {
		k := key
		k.Principal = principal
		return &verify.RFC9421{Keys: verify.StaticKeys(k)}
	}
	form := func(text string, n int) combined { return combinedScheme(t, text, n) }
	strong, timed, plain := form("{id}.{timestamp}.{body}", 1), form("{timestamp}.{body}", 2), form("{body}", 3)
	typed := form("{header:Content-Type}.{body}", 6)
	jcs, timedJCS := form("{jcs}", 4), form("{timestamp}.{jcs}", 5)
	scoped := func(scheme verify.Scheme) producer.Producer {
		p := ownOf(scheme)
		p.QueryScope = true
		return p
	}
	unnamed := func(scheme verify.Scheme) producer.Producer {
		p := ownOf(scheme)
		p.Key = producer.BodyDigest()
		return p
	}
	anyForm := verify.Any{jcs.scheme, timed.scheme}
	either := func(principal string) verify.Scheme { return verify.Any{rfc(principal), strong.scheme} }
	for name, c := range map[string]struct {
		one, other producer.Producer
		// reload means that a restart forgets what only the other configuration knows.
		reload, back bool
	}{
		"the query counts":            {one: ownOf(rfc("")), other: scoped(rfc(""))},
		"one scheme covers it":        {one: ownOf(timed.scheme), other: scoped(rfc(""))},
		"the query counts alone":      {one: scoped(either("")), other: scoped(rfc(""))},
		"a key has a principal":       {one: ownOf(rfc("")), other: ownOf(rfc("alice")), reload: true},
		"one of two has a principal":  {one: ownOf(either("alice")), other: ownOf(rfc("alice"))},
		"the new one has a principal": {one: ownOf(strong.scheme), other: scoped(rfc("alice")), reload: true},
		"a principal is renamed":      {one: ownOf(rfc("alice")), other: ownOf(rfc("bob")), reload: true, back: true},
		"content is in a form":        {one: unnamed(plain.scheme), other: unnamed(jcs.scheme), reload: true},
		"timed content is in a form":  {one: unnamed(timed.scheme), other: unnamed(timedJCS.scheme), reload: true},
		"a field is signed too":       {one: ownOf(plain.scheme), other: ownOf(typed.scheme)},
		"named content is in a form":  {one: ownOf(plain.scheme), other: ownOf(anyForm)},
	} {
		for _, how := range []string{"reload", "restart", "reload back", "restart back"} {
			before, after := c.one, c.other
			if strings.HasSuffix(how, "back") {
				before, after = after, before
			}
			if c.reload && (how == "restart back" || c.back && how == "restart") {
				continue
			}
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				r := &renaming{
					target: "/webhooks/own?t=a", signers: []combined{sign, strong, timed, plain, typed, jcs, timedJCS},
				}
				synctest.Test(t, func(t *testing.T) { r.run(t, before, after, strings.HasPrefix(how, "restart")) })
			})
		}
	}
}

// renaming is a producer that is configured otherwise while its events are known.
type renaming struct {
	target  string
	signers []combined

	rx       *receiver.Receiver
	clock    *deduptest.Clock
	captured []message
}

// run delivers events before and after a reload or a restart with another producer.
func (r *renaming) run(t *testing.T, before, after producer.Producer, restarts bool) {
	clock, ran := deduptest.NewClock(), &runs{all: map[string]int{}, each: map[string]int{}}
	config := receiver.Config{
		Store: memstore.New(memstore.Options{Clock: clock}), Clock: clock.Now,
		Handlers: []receiver.Handler{ran.handler("own", "*")}, Producers: []producer.Producer{before},
	}
	r.clock, r.rx = clock, opened(t, config)
	r.send(t, "e1", `{"n": 1}`, "new")
	r.send(t, "e2", `{"n": 2}`, "new")
	r.send(t, "sha256:17", `{"n": 17}`, "new")
	config.Producers = []producer.Producer{after}
	if restarts {
		r.restart(t, config)
	} else {
		r.rx = replaced(t, r.rx, config)
	}
	clock.Advance(time.Minute)
	for range 2 {
		r.send(t, "e1", `{"n": 1}`, "known")
		r.send(t, "e2", `{"n": 2}`, "known")
		r.send(t, "sha256:17", `{"n": 17}`, "known")
	}
	for _, msg := range r.captured[:3] {
		for _, s := range r.signers {
			stripped := msg.clone()
			s.remove(stripped.header)
			give(r.rx, stripped)
		}
	}
	synctest.Wait()
	r.send(t, "e3", `{"n": 3}`, "new")
	want := 4
	switch class := after.Class(); { // else it may be a replay
	case class == producer.ClassIDSigned, class == producer.ClassTimeSigned && after.Key != producer.BodyDigest():
		r.send(t, "e4", `{"n": 1}`, "new")
		want++
	}
	if ran.all["*"] != want {
		t.Errorf("%d runs, want %d", ran.all["*"], want)
	}
	if after.QueryScope && !before.QueryScope {
		r.target = "/webhooks/own?t=b"
		r.send(t, "e1", `{"n": 1}`, "new")
	}
}

func (r *renaming) restart(t *testing.T, config receiver.Config) {
	t.Helper()
	if err := r.rx.Close(); err != nil {
		t.Fatal(err)
	}
	config.URL = publicBase
	next, err := receiver.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	r.rx = next
}

// send delivers an event with all credentials.
func (r *renaming) send(t *testing.T, id, body, want string) {
	t.Helper()
	req := request(http.MethodPost, r.target, body, "X-Event-Id", id)
	for _, s := range r.signers {
		if err := s.sign(req, []byte(body), r.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	r.captured = append(r.captured, message{method: req.Method, target: r.target,
		header: req.Header.Clone(), body: []byte(body)})
	w := answer(r.rx, req)
	got := "new"
	if w.Header().Get("Idempotency-Replayed") != "" {
		got = "known"
	}
	if w.Code != http.StatusOK || got != want {
		t.Errorf("%s, %s: %d, %s, want %s: %s", id, body, w.Code, got, want, w.Body)
	}
	synctest.Wait()
}

// TestASignatureOfBeforeAReloadHasNoOtherIdentifier captures deliveries of two credentials, whose
// signed content names the event, and sends them under another identifier after one credential was
// removed, of which the signature has a time.
func TestASignatureOfBeforeAReloadHasNoOtherIdentifier(t *testing.T) {
	t.Parallel()
	plain, timed := combinedScheme(t, "{body}", 1), combinedScheme(t, "{timestamp}.{body}", 2)
	for name, c := range map[string]struct {
		ahead    time.Duration // the clock of the sender
		stripped bool          // the first delivery comes without the other credential
	}{
		"the clocks agree":             {},
		"the sender's clock is ahead":  {ahead: 30 * time.Second},
		"another credential was first": {stripped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, ran := deduptest.NewClock(), &runs{all: map[string]int{}, each: map[string]int{}}
			store, err := badgerstore.Open(t.TempDir(),
				badgerstore.Options{Clock: clock, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			config := receiver.Config{
				Store: store, Clock: clock.Now, Handlers: []receiver.Handler{ran.handler("own", "*")},
				Producers: []producer.Producer{ownOf(verify.Any{plain.scheme, timed.scheme})},
			}
			rx := opened(t, config)
			send := func(at time.Time, change func(http.Header)) string {
				req := post("own", `{"n": 1}`, "X-Event-Id", "e1")
				for _, s := range []combined{plain, timed} {
					if err := s.sign(req, []byte(`{"n": 1}`), at); err != nil {
						t.Fatal(err)
					}
				}
				change(req.Header)
				return answer(rx, req).Body.String()
			}
			first := clock.Now().Add(c.ahead)
			send(first, func(h http.Header) {
				if c.stripped {
					timed.remove(h)
					h.Del("X-Time")
				}
			})
			config.Producers = []producer.Producer{ownOf(timed.scheme)}
			rx = replaced(t, rx, config)
			clock.Advance(time.Second)
			other := func(h http.Header) { h.Set("X-Event-Id", "e2") }
			if got := send(first, other); !strings.Contains(got, "quarantined") {
				t.Error("the captured delivery:", got)
			}
			if got := send(clock.Now().Add(c.ahead), other); !strings.Contains(got, "accepted") {
				t.Error("another event with the same body:", got)
			}
		})
	}
}
