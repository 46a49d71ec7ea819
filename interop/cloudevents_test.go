package interop_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eyelet-dev/eyelet/producer"
)

// TestCloudEventsOfTheOfficialSDK compares what we read with random events that the SDK writes
// in each mode.
func TestCloudEventsOfTheOfficialSDK(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e, data := sdkEvent(t)
		batch := rapid.IntRange(0, 2).Draw(t, "mode")
		r, err := http.NewRequest(http.MethodPost, publicURL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		switch batch {
		case 0:
			err = cehttp.WriteRequest(t.Context(), binding.ToMessage(&e), r)
		case 1:
			err = cehttp.WriteRequest(binding.WithForceStructured(t.Context()), binding.ToMessage(&e), r)
		case 2:
			r, err = cehttp.NewHTTPRequestFromEvents(t.Context(), publicURL, []event.Event{e})
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		items, err := producer.SplitCloudEvents(&producer.Delivery{Request: r, Body: body})
		if err != nil || len(items) != 1 {
			t.Fatalf("mode %d: %d items, %v\n%s", batch, len(items), err, body)
		}
		compareWithSDK(t, e, data, items[0], r.Header.Get("Content-Type"))
	})
}

// sdkEvent generates an event. Attributes are printable ASCII without percent signs, quotes and
// outer white space, which the SDK does not encode as the binding requires.
func sdkEvent(t *rapid.T) (event.Event, string) {
	word := rapid.StringMatching(`[!#$&-Z^-~]([ !#$&-Z^-~]{0,20}[!#$&-Z^-~])?`)
	e := event.New()
	e.SetID(word.Draw(t, "id"))
	e.SetSource("/" + rapid.StringMatching(`[a-z0-9]{1,10}(/[a-z0-9]{1,5})?`).Draw(t, "source"))
	e.SetType(word.Draw(t, "type"))
	if rapid.Bool().Draw(t, "with subject") {
		e.SetSubject(word.Draw(t, "subject"))
	}
	if rapid.Bool().Draw(t, "with time") {
		e.SetTime(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0).UTC())
	}
	if rapid.Bool().Draw(t, "with extension") {
		e.SetExtension("shard", word.Draw(t, "shard"))
	}
	data, kind := fmt.Sprintf(`{"n":%d}`, rapid.Int().Draw(t, "n")), "application/json"
	if rapid.Bool().Draw(t, "binary data") {
		data, kind = string(rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "data")), "application/octet-stream"
	}
	if err := e.SetData(kind, []byte(data)); err != nil {
		t.Fatal(err)
	}
	return e, data
}

func compareWithSDK(t *rapid.T, e event.Event, data string, it producer.Item, kind string) {
	want := map[string]string{"id": e.ID(), "source": e.Source(), "datacontenttype": e.DataContentType()}
	if e.Subject() != "" {
		want["subject"] = e.Subject()
	}
	if !e.Time().IsZero() {
		want["time"] = e.Time().Format(time.RFC3339Nano)
	}
	for name, value := range e.Extensions() {
		want[name] = fmt.Sprint(value)
	}
	if diff := cmp.Diff(want, it.Attributes); diff != "" {
		t.Fatalf("attributes (-SDK +ours):\n%s", diff)
	}
	if it.Type != e.Type() || it.ID != producer.JoinID(e.Source(), e.ID()) {
		t.Fatalf("id %q, type %q", it.ID, it.Type)
	}
	_, got, err := producer.CloudEventData(kind, it.Body)
	if err != nil || string(got) != data {
		t.Fatalf("data %q, %v; want %q", got, err, data)
	}
}
