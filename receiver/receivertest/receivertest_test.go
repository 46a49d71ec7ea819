package receivertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
	"github.com/eyelet-dev/eyelet/verify"
)

const secret = "0123456789abcdef0123"

type order struct {
	Number string
	Total  int
}

// handled opens a receiver with one handler of all events, whose data it returns.
func handled(t *testing.T, p producer.Producer) (*receivertest.Receiver, func() []string) {
	t.Helper()
	var got []string
	rx := receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{p},
		Handlers: []receiver.Handler{receiver.On(p.Name, "*",
			func(_ context.Context, ev receiver.Event[[]byte]) error {
				got = append(got, ev.Type+" "+string(ev.Data))
				return nil
			}).Lane(everything{})},
	})
	return rx, func() []string { rx.Wait(); return got }
}

// everything is one lane, so that handlers run one after another.
type everything struct{}

func (everything) Extract(*producer.Delivery) (string, error) { return "all", nil }
func (everything) Consumes() []string                         { return nil }
func (everything) String() string                             { return "everything" }

// ownKeys are keys of which the test has no private half.
func ownKeys(t *testing.T) verify.KeySet {
	t.Helper()
	private, err := verify.GenerateKey(verify.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	key, err := verify.NewPublicKey("shop-1", "", private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return verify.StaticKeys(key)
}

func TestDeliverSignsAsTheProducerDoes(t *testing.T) {
	t.Parallel()
	strict := producer.Signed("strict", nil)
	strict.Nonce = producer.NonceUnique
	strict.Scheme = &verify.RFC9421{Keys: ownKeys(t), Label: "sig2", Tag: "hooks",
		Algs: []verify.Alg{verify.ECDSAP256SHA256}, Coverage: verify.Coverage{Required: []string{"@scheme"}}}
	basic := producer.Producer{Name: "basic", Scheme: verify.Basic("user", secret), Key: producer.JSON("id"),
		KeyRequired: true, Type: producer.Query("topic"), Contract: producer.Webhook}
	for _, row := range []struct {
		p       producer.Producer
		kind    string
		payload any
		want    string
	}{
		{preset.GitHub(secret), "push", map[string]string{"ref": "main"}, `push {"ref":"main"}`},
		{preset.GitHub(secret), "ping", json(`{"zen":"x"}`), `ping {"zen":"x"}`},
		{preset.Stripe(secret), "invoice.paid", order{Number: "1"},
			`invoice.paid {"id":"00000000-0000-4000-8000-000000000001","type":"invoice.paid","Number":"1","Total":0}`},
		{preset.Stripe(secret), "invoice.paid", `{"id":"evt_1","type":"invoice.paid"}`,
			`invoice.paid {"id":"evt_1","type":"invoice.paid"}`},
		{preset.With("shopify", secret), "orders/create", order{}, `orders/create {"Number":"","Total":0}`},
		{preset.Slack(secret), "", url.Values{"command": {"/deploy"}}, " command=%2Fdeploy"},
		{preset.With("gitlab", secret), "Push Hook", order{}, `Push Hook {"Number":"","Total":0}`},
		{producer.Signed("shop", ownKeys(t)), "order.paid", order{"1", 2},
			`order.paid {"type":"order.paid","Number":"1","Total":2}`},
		{strict, "order.paid", map[string]any{}, `order.paid {"type":"order.paid"}`},
		{basic, "a topic", "{}", `a topic {"id":"00000000-0000-4000-8000-000000000001"}`},
	} {
		t.Run(row.p.Name+" "+row.kind, func(t *testing.T) {
			t.Parallel()
			rx, got := handled(t, row.p)
			d := rx.Deliver(row.p.Name, row.kind, row.payload)
			if d.Code != "accepted" || d.Event == "" || d.Replayed() {
				t.Errorf("answered %d %s %s", d.Status, d.Code, d.Body)
			}
			if again := d.Again(); again.Code != "replayed" || !again.Replayed() || again.Event != d.Event ||
				again.Status != d.Status {
				t.Errorf("repeated: %d %s %s", again.Status, again.Code, again.Body)
			}
			if all := got(); len(all) != 1 || all[0] != row.want {
				t.Errorf("handled %q, want %q", all, row.want)
			}
		})
	}
}

func json(text string) []byte { return []byte(text) }

func TestStepRunsRetries(t *testing.T) {
	t.Parallel()
	var at []time.Time
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rx := receivertest.New(t, receiver.Config{
		Clock: func() time.Time { return start }, Attempts: 4,
		Producers: []producer.Producer{preset.Stripe(secret)},
		Handlers: []receiver.Handler{receiver.On("stripe", "*",
			func(_ context.Context, ev receiver.Event[order]) error {
				at = append(at, ev.Accepted)
				if ev.Attempt == 1 {
					return receiver.RetryAfter(time.Hour, errors.New("the printer is off"))
				}
				return receiver.Reject(fmt.Errorf("attempt %d", ev.Attempt))
			})},
	})
	rx.Deliver("stripe", "invoice.paid", nil)
	if dead := rx.Dead(); len(dead) > 0 || len(at) != 1 || !at[0].Equal(start) {
		t.Fatalf("after the first attempt: %v, %v", dead, at)
	}
	if rx.Step(59 * time.Minute); len(at) != 1 {
		t.Errorf("after 59 minutes: %d attempts", len(at))
	}
	rx.Step(2 * time.Minute) // RetryAfter adds some jitter
	dead := rx.Dead()
	if len(dead) != 1 || dead[0].Attempts != 2 || dead[0].Reason != "rejected" || dead[0].Err != "rejected: attempt 2" {
		t.Fatalf("after an hour: %v", dead)
	}
	if text := dead[0].String(); text != "stripe/* invoice.paid: rejected after 2 attempts: rejected: attempt 2" {
		t.Errorf("%q", text)
	}
}

func TestStepEndsWindows(t *testing.T) {
	t.Parallel()
	p := preset.GitHub(secret)
	p.Forgets = true // beyond the window
	rx, got := handled(t, p)
	d := rx.Deliver("github", "push", nil).Wait()
	rx.Step(p.Window - time.Second)
	if again := d.Again(); again.Code != "replayed" {
		t.Errorf("in the window: %s", again.Code)
	}
	rx.Step(time.Second)
	if again := d.Again(); again.Code != "accepted" {
		t.Errorf("after the window: %s", again.Code)
	}
	if n := len(got()); n != 2 {
		t.Errorf("handled %d times, want twice", n)
	}
}

// TestWaitIgnoresTasksBehindARetry returns although the second task of the lane is due: it waits
// for the first one.
func TestWaitIgnoresTasksBehindARetry(t *testing.T) {
	t.Parallel()
	var ran []string
	rx := receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{preset.Stripe(secret)},
		Handlers: []receiver.Handler{receiver.On("stripe", "*",
			func(_ context.Context, ev receiver.Event[order]) error {
				ran = append(ran, fmt.Sprint(ev.Data.Number, ".", ev.Attempt))
				if ev.Data.Number == "1" && ev.Attempt == 1 {
					return receiver.RetryAfter(time.Hour, errors.New("later"))
				}
				return nil
			}).Lane(everything{})},
	})
	rx.Deliver("stripe", "invoice.paid", order{Number: "1"}).Wait()
	rx.Deliver("stripe", "invoice.paid", order{Number: "2"}).Wait()
	rx.Step(2 * time.Hour)
	if order := strings.Join(ran, " "); order != "1.1 1.2 2.1" {
		t.Errorf("ran %s", order)
	}
}

func TestDeadListsQuarantinedDeliveries(t *testing.T) {
	t.Parallel()
	rx := receivertest.New(t, receiver.Config{Producers: []producer.Producer{preset.GitHub(secret)}})
	rx.Deliver("github", "push", "{}")
	if d := rx.Deliver("github", "push", "{}"); d.Status != http.StatusOK || d.Code != "quarantined" {
		t.Errorf("the same body under another identifier: %d %s", d.Status, d.Code)
	}
	if dead := rx.Dead(); len(dead) != 1 || dead[0].Reason == "" || dead[0].Type != "push" || dead[0].Attempts != 0 {
		t.Errorf("%+v", dead)
	}
}

func TestSendTakesAnyRequest(t *testing.T) {
	t.Parallel()
	rx, got := handled(t, preset.GitHub(secret))
	r := rx.Request("github", "push", nil)
	r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	if d := rx.Send("github", r); d.Status != http.StatusUnauthorized || d.Code != "signature_mismatch" {
		t.Errorf("%d %s", d.Status, d.Code)
	}
	if all := got(); len(all) > 0 {
		t.Errorf("handled %q", all)
	}
}

// failing is a test that is expected to fail: Fatal ends its function with a panic.
type failing struct{ testing.TB }

type fatal string

func (failing) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }
func (failing) Fatal(args ...any)                 { panic(fatal(fmt.Sprint(args...))) }

// failure runs a function and returns the text with which it failed.
func failure(f func()) (text string) {
	defer func() {
		if reason, ok := recover().(fatal); ok {
			text = string(reason)
		}
	}()
	f()
	return ""
}

func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	token := producer.Producer{Name: "token", Scheme: onlyTheSender{}, Key: producer.Header("Id")}
	late := preset.Stripe(secret)
	late.Tolerance = verify.Tolerance{Past: time.Nanosecond, Future: time.Nanosecond}
	late.MediaTypes = []string{"text/plain"}
	store := memstore.New(memstore.Options{})
	github := []producer.Producer{preset.GitHub(secret)}
	own := receivertest.New(failing{t}, receiver.Config{Store: store, Producers: github})
	rx := receivertest.New(failing{t}, receiver.Config{Producers: append(github, late, token)})
	for want, f := range map[string]func(){
		`there is no producer "gitlab"`:                   func() { rx.Deliver("gitlab", "push", nil) },
		`the type of the payload is "b", want "a"`:        func() { rx.Deliver("stripe", "a", `{"type":"b"}`) },
		"the delivery was refused: 415":                   func() { rx.Deliver("stripe", "a", nil) },
		"cannot be encoded: json: unsupported type: chan": func() { rx.Deliver("github", "push", make(chan int)) },
		"make the request yourself":                       func() { rx.Deliver("token", "", nil) },
		"Step needs the store of New":                     func() { own.Step(time.Second) },
		"unknown producer":                                func() { unknownHandler(t) },
	} {
		if text := failure(f); !strings.Contains(text, want) {
			t.Errorf("it fails with %q, want %s", text, want)
		}
	}
}

// onlyTheSender is a scheme without a method Sign, as those of tokens are.
type onlyTheSender struct{}

func (onlyTheSender) Verify(*http.Request, func() ([]byte, error)) (verify.Identity, error) {
	return verify.Identity{}, nil
}

func unknownHandler(t *testing.T) {
	receivertest.New(failing{t}, receiver.Config{
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{receiver.On("gitlab", "*",
			func(context.Context, receiver.Event[[]byte]) error { return nil })},
	})
}

// TestWaitWaitsForObservations observes slowly: an attempt is recorded before it is observed.
func TestWaitWaitsForObservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, waitWaitsForObservations)
}

func waitWaitsForObservations(t *testing.T) {
	attempts := 0
	rx := receivertest.New(t, receiver.Config{
		Producers: []producer.Producer{preset.Stripe(secret)},
		Handlers: []receiver.Handler{receiver.On("stripe", "*",
			func(context.Context, receiver.Event[order]) error { return nil })},
		Observe: func(_ context.Context, o receiver.Observation) {
			if o.Kind == receiver.KindAttempt {
				time.Sleep(time.Second)
				attempts++
			}
		},
	})
	rx.Deliver("stripe", "invoice.paid", nil).Wait()
	if attempts != 1 {
		t.Errorf("%d attempts are observed, want 1", attempts)
	}
}
