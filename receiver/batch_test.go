package receiver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// batches has the presets whose deliveries hold several events. In the form of an event %s is its
// identifier, as a member or as nothing.
var batches = map[string]struct {
	settings          preset.Settings
	batch, event, id  string
	attempt, attempt2 string // a member that differs between attempts
	media             string
}{
	"hubspot": {
		preset.Settings{Secrets: []string{secret17}}, "[%s]",
		`{%s"subscriptionId":2,"occurredAt":3,"subscriptionType":"tea"%s}`, "eventId",
		`,"attemptNumber":0`, `,"attemptNumber":1`, "",
	},
	"line": {
		preset.Settings{Secrets: []string{secret17}}, `{"destination":"U","events":[%s]}`, `{%s"type":"tea"%s}`,
		"webhookEventId", `,"deliveryContext":{"isRedelivery":false}`, `,"deliveryContext":{"isRedelivery":true}`, "",
	},
	"okta": {
		preset.Settings{Secrets: []string{secret17}}, `{"data":{"events":[%s]}}`, `{%s"eventType":"tea"%s}`, "uuid",
		"", "", "",
	},
	"xero": {
		preset.Settings{Secrets: []string{secret17}}, `{"events":[%s]}`,
		`{%s"tenantId":"t","eventCategory":"TEA","eventType":"CREATE","eventDateUtc":"d"%s}`, "resourceId", "", "", "",
	},
	"twilio-event-streams": {
		preset.Settings{Secrets: []string{secret17}}, "[%s]", `{%s"type":"tea"%s}`, "id", "", "", "",
	},
	"azure-event-grid": {
		preset.Settings{Query: "code", Secrets: []string{secret17}}, "[%s]",
		`{%s"eventType":"tea"%s}`, "id", "", "", "",
	},
	"cloudevents": {
		preset.Settings{Secrets: []string{secret17}, Batch: true}, "[%s]",
		`{%s"specversion":"1.0","source":"/s","type":"tea"%s}`, "id", "", "", producer.MediaCloudEventBatch,
	},
}

// The items with an identifier and those without run once, however a retry groups and orders them.
// An item that cannot be read is quarantined with its position and its reason.
func TestABatchLosesNoGoodEvent(t *testing.T) {
	t.Parallel()
	for _, p := range preset.All() {
		_, tested := batches[p.Name]
		// By item, by a key not here, by a credential of each item, and without identifiers.
		signs := slices.Contains([]string{"adyen", "sendgrid", "graph", "mandrill"}, p.Name)
		if splits := openPreset(t, p.Name, sampled()[p.Name]).Split != nil; splits && !tested && !signs {
			t.Errorf("no batch of %s", p.Name)
		}
	}
	for name := range batches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { losesNoGoodEvent(t, name) })
		})
	}
}

func losesNoGoodEvent(t *testing.T, name string) {
	b := batches[name]
	p := openPreset(t, name, b.settings)
	var mu sync.Mutex
	var handled []string
	store := memstore.New(memstore.Options{})
	rx := opened(t, receiver.Config{Store: store, Producers: []producer.Producer{p}, Handlers: []receiver.Handler{
		receiver.On(name, "*", func(_ context.Context, ev receiver.Event[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			handled = append(handled, string(ev.Body))
			return nil
		}),
	}})
	send := func(items ...string) {
		t.Helper()
		body := fmt.Sprintf(b.batch, strings.Join(items, ","))
		r, signed, err := preset.Unsigned{
			URL: publicBase + "/webhooks/" + name, Body: []byte(body), MediaType: b.media,
		}.SignedBy(p, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m := message{method: http.MethodPost, target: r.URL.RequestURI(), header: r.Header, body: signed}
		if w := answer(rx, m.request()); w.Code != 200 {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
		synctest.Wait()
	}
	event := func(id, attempt string) string {
		if id != "" {
			id = fmt.Sprintf("%q:%s,", b.id, id)
		}
		return fmt.Sprintf(b.event, id, attempt)
	}
	good, last := event(`"1"`, b.attempt), event(`"2"`, b.attempt)
	without, empty, null := event("", b.attempt), event(`""`, b.attempt), event("null", b.attempt)
	twice := event(fmt.Sprintf(`"3",%q:"4"`, b.id), b.attempt)
	send(good, without, "17", twice, empty, without, null, last)
	want := []string{good, without, empty, without, null, last}
	slices.Sort(want)
	slices.Sort(handled)
	if !slices.Equal(handled, want) {
		t.Fatalf("handled %q, want %q", handled, want)
	}
	before := recordsOf(t, store)
	var notes []string
	for _, rec := range before {
		if rec.QuarantineReason != "" {
			notes = append(notes, rec.QuarantineReason+" "+rec.Note)
		}
	}
	slices.Sort(notes)
	if len(notes) != 2 || !strings.Contains(notes[0], `malformed ambiguous field: "item 4, `+b.id) ||
		!strings.Contains(notes[1], `malformed event malformed: "item 3": not an object`) {
		t.Errorf("quarantined %q", notes)
	}
	again := strings.NewReplacer(b.attempt+"}", b.attempt2+"}")
	send(again.Replace(without), again.Replace(last), twice)
	send(again.Replace(null), again.Replace(without), again.Replace(without), again.Replace(good),
		again.Replace(empty), "17")
	if after := recordsOf(t, store); len(after) != len(before) || len(handled) != len(want) {
		t.Errorf("%d events after a retry, want %d; %q", len(after), len(before), handled[len(want):])
	}
}
