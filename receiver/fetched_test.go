package receiver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
	"github.com/eyelet-dev/eyelet/verify"
)

func fetchedFrom() producer.Producer {
	p := preset.Stripe("whsec_000102030405060708090a0b0c0d0e0f")
	p.Source.Token, p.Source.Types = "token", []string{"*"}
	return p
}

func listed(id string) producer.Listed {
	return producer.Listed{ID: id, Type: "invoice.paid", Time: time.Now(), From: "api.stripe.test",
		Body: []byte(`{"id": "` + id + `", "type": "invoice.paid", "account": "a1"}`)}
}

func TestAFetchedEventHasTheClaimOfItsDelivery(t *testing.T) {
	t.Parallel()
	var events []receiver.Event[map[string]any]
	h := receiver.On("stripe", "invoice.*", func(_ context.Context, ev receiver.Event[map[string]any]) error {
		events = append(events, ev)
		return nil
	})
	p := fetchedFrom()
	p.Rate = producer.Rate{Events: 2, Per: time.Hour}
	rx := receivertest.New(t, receiver.Config{Producers: []producer.Producer{p},
		Handlers: []receiver.Handler{h.Named("pay").Lane(producer.JSON("account"))}, Workers: 1})
	fresh, event, err := rx.TakeIn(t.Context(), "stripe", listed("evt_1"), true)
	if err != nil || !fresh || event != "" {
		t.Errorf("a dry run: %t %q, %v", fresh, event, err)
	}
	fresh, event, err = rx.TakeIn(t.Context(), "stripe", listed("evt_1"), false)
	if err != nil || !fresh || event == "" {
		t.Fatalf("%t %q, %v", fresh, event, err)
	}
	fresh, again, err := rx.TakeIn(t.Context(), "stripe", listed("evt_1"), false)
	if err != nil || fresh || again != event {
		t.Errorf("again: %t %q, %v", fresh, again, err)
	}
	rx.Deliver("stripe", "invoice.paid", map[string]any{"id": "evt_2", "type": "invoice.paid", "account": "a1"})
	rx.Wait()
	if len(events) != 2 || !events[0].Fetched || events[1].Fetched || events[0].Data["id"] != "evt_1" {
		t.Fatalf("handlers saw %+v", events)
	}
	one, other := events[0], events[1]
	if one.Principal != other.Principal || one.Endpoint != other.Endpoint || one.Target != other.Target {
		t.Errorf("the fetched event differs: %+v", one)
	}
	if len(one.Attributes) != len(other.Attributes) || one.SignedFields != nil {
		t.Errorf("attributes %v, signed %v", one.Attributes, one.SignedFields)
	}
	a, err := rx.Store.Get(t.Context(), event)
	b, err2 := rx.Store.Get(t.Context(), other.EventID)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if a.Payload.Attributes[receiver.FetchedAttribute] != "api.stripe.test" ||
		b.Payload.Attributes[receiver.FetchedAttribute] != "" {
		t.Errorf("the records are marked %v and %v", a.Payload.Attributes, b.Payload.Attributes)
	}
	if a.Tasks[0].Lane == "" || a.Tasks[0].Lane != b.Tasks[0].Lane || a.Window != b.Window {
		t.Errorf("lanes %q and %q, windows %s and %s", a.Tasks[0].Lane, b.Tasks[0].Lane, a.Window, b.Window)
	}
	_, _, err = rx.TakeIn(t.Context(), "stripe", listed("evt_3"), false) // of the same quota
	if wait := receiver.Wait(err); err == nil || wait <= 0 {
		t.Errorf("beyond the rate: %v, wait %s", err, wait)
	}
}

func TestAListedItemThatIsNotTheEventIsRefused(t *testing.T) {
	t.Parallel()
	p := fetchedFrom()
	p.MaxBody = 200
	rx := receivertest.New(t, receiver.Config{Producers: []producer.Producer{p}})
	for name, change := range map[string]func(*producer.Listed){
		"not JSON":           func(l *producer.Listed) { l.Body = []byte("{") },
		"another identifier": func(l *producer.Listed) { l.ID = "evt_9" },
		"too long":           func(l *producer.Listed) { l.Body = append(l.Body, strings.Repeat(" ", 200)...) },
	} {
		l := listed("evt_1")
		change(&l)
		if fresh, _, err := rx.TakeIn(t.Context(), "stripe", l, false); verify.CodeOf(err) == "" || fresh {
			t.Errorf("%s: %t, %v", name, fresh, err)
		}
	}
	for _, name := range []string{"other", ""} {
		if _, _, err := rx.TakeIn(t.Context(), name, listed("evt_1"), false); err == nil {
			t.Errorf("producer %q takes in an event", name)
		}
	}
}

func TestAnAnswerHandlerRefusesToFetch(t *testing.T) {
	t.Parallel()
	h := receiver.Answer("stripe", "*", func(context.Context, receiver.Event[[]byte]) (receiver.Response, error) {
		return receiver.Response{}, nil
	})
	store := memstore.New(memstore.Options{})
	defer store.Close() //nolint:errcheck // it never fails
	c := receiver.Config{Store: store, Producers: []producer.Producer{fetchedFrom()}, Handlers: []receiver.Handler{h}}
	if _, err := receiver.Open(c); err == nil || !strings.Contains(err.Error(), "an Answer handler responds") {
		t.Errorf("with an Answer handler: %v", err)
	}
	lane := receiver.On("stripe", "*", func(context.Context, receiver.Event[[]byte]) error { return nil }).
		Lane(producer.Header("X-Tenant"))
	c.Handlers = []receiver.Handler{lane}
	if _, err := receiver.Open(c); err == nil || !strings.Contains(err.Error(), "a condition reads x-tenant") {
		t.Errorf("with a lane of a field: %v", err)
	}
}

// Beyond its window an event is remembered as its deliveries are: if their signature has no time.
func TestAFetchedEventIsRememberedAsItsDeliveryIs(t *testing.T) {
	t.Parallel()
	timeless := producer.Producer{
		Name: "shop", Contract: producer.Webhook, Key: producer.JSON("id"), Type: producer.JSON("type"),
		Fingerprint: producer.FingerprintNone, Source: fetchedFrom().Source,
		Scheme: &verify.HMAC{
			Headers: []string{"X-Sig"}, Encoding: verify.Hex, Secrets: verify.Secrets("a secret that is long enough"),
		},
	}
	for want, p := range map[verify.Code]producer.Producer{"quarantined": timeless, "accepted": fetchedFrom()} {
		rx := receivertest.New(t, receiver.Config{Producers: []producer.Producer{p}})
		payload := func(id string) map[string]string { return map[string]string{"id": id, "type": "invoice.paid"} }
		rx.Deliver(p.Name, "invoice.paid", payload("evt_2"))
		if fresh, _, err := rx.TakeIn(t.Context(), p.Name, listed("evt_1"), false); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		rx.Step(10 * 24 * time.Hour)
		if d := rx.Deliver(p.Name, "invoice.paid", payload("evt_1")); d.Code != want {
			t.Errorf("%s: the delivery after the window is %s, want %s", p.Name, d.Code, want)
		}
		fresh, _, err := rx.TakeIn(t.Context(), p.Name, listed("evt_2"), false)
		if err != nil || fresh != (want == "accepted") {
			t.Errorf("%s: the list after the window brings a new event: %t, %v", p.Name, fresh, err)
		}
		for rec, err := range rx.Store.List(t.Context(), dedup.Filter{Quarantined: true, ID: "evt_2"}) {
			t.Errorf("%s: the list quarantines %v, %v", p.Name, rec.Key, err)
		}
	}
}
