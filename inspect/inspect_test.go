package inspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/inspect"
)

// claim stores an event with one task.
func claim(t *testing.T, store dedup.Store, id, typ string, body []byte) dedup.Record {
	t.Helper()
	got, err := store.Claim(context.Background(), dedup.Claim{
		Key: dedup.Key{Principal: "shop", Endpoint: "shop", ID: id},
		Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Type: typ, KeyField: `"` + id + `"`, Method: "POST",
			Target: "/webhooks/shop", Body: body},
		Response: dedup.Response{Status: 202},
		Tasks:    []dedup.NewTask{{Handler: "h"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Record
}

func get(t *testing.T, store dedup.Store, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	inspect.API(store).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

func newStore(t *testing.T) dedup.Store {
	t.Helper()
	store := memstore.New(memstore.Options{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestAListHasALineForEachMatchingEvent(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for i := range 5 {
		claim(t, store, fmt.Sprintf("k%d", i), []string{"order.paid", "order.sent", "quote"}[i%3], []byte("{}"))
	}
	tests := map[string][]string{
		"/events":                            {"k4", "k3", "k2", "k1", "k0"},
		"/events?limit=2":                    {"k4", "k3"},
		"/events?limit=0":                    {"k4", "k3", "k2", "k1", "k0"},
		"/events?type=order.*&limit=9":       {"k4", "k3", "k1", "k0"},
		"/events?type=quote&id=k2":           {"k2"},
		"/events?state=dead,done":            nil,
		"/events?state=dead&state=pending":   {"k4", "k3", "k2", "k1", "k0"},
		"/events?producer=shop&endpoint=x":   nil,
		"/events?handler=h&since=7d&limit=1": {"k4"},
		"/events?quarantined=true":           nil,
	}
	for target, want := range tests {
		w := get(t, store, target)
		if w.Code != 200 || w.Header().Get("Content-Type") != inspect.NDJSON {
			t.Errorf("%s: status %d, type %s: %s", target, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		var got []string
		for s := bufio.NewScanner(w.Body); s.Scan(); {
			var e inspect.Event
			if err := json.Unmarshal(s.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
}

func TestAListWithTextSaysHowFarItLooked(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := claim(t, store, "k1", "order.paid", []byte(`{"total": 4711}`))
	second := claim(t, store, "k2", "order.paid", []byte(`{"total": 12}`))
	for query, want := range map[string]inspect.Searched{
		"text=4711":          {Records: 2, Back: &first.Accepted},
		"text=total&limit=1": {Records: 1, Back: &second.Accepted, Before: second.Seq},
	} {
		var last struct{ Searched *inspect.Searched }
		lines := strings.Split(strings.TrimSpace(get(t, store, "/events?"+query).Body.String()), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 {
			t.Fatalf("%s: %v in %q", query, err, lines)
		}
		if diff := cmp.Diff(&want, last.Searched); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if text := get(t, store, "/events").Body.String(); strings.Contains(text, "searched") {
		t.Errorf("a list without text says %s", text)
	}
}

func TestTheFieldsOfALine(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	rec := claim(t, store, "k", "order.paid", []byte("{}"))
	var line map[string]any
	if err := json.Unmarshal(get(t, store, "/events").Body.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	when, err := time.Parse(time.RFC3339, fmt.Sprint(line["accepted"]))
	if err != nil || !when.Equal(rec.Accepted) || !strings.HasSuffix(fmt.Sprint(line["accepted"]), "Z") {
		t.Errorf("accepted is %v (%v)", line["accepted"], err)
	}
	tasks, ok := line["tasks"].([]any)
	if !ok || len(tasks) != 1 {
		t.Fatalf("tasks are %v", line["tasks"])
	}
	for name, want := range map[string]any{
		"id": "k", "event": rec.Event, "producer": "shop", "endpoint": "shop", "type": "order.paid", "state": "pending",
		"attempt": 0.0, "status": 202.0,
	} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"stat=dead":           `parameter "stat": unknown`,
		"state=gone":          `parameter "state": "gone" is not a state: pending, running, done or dead`,
		"limit=-1":            `parameter "limit": "-1" is not a number of events`,
		"since=-1h":           `parameter "since": "-1h" is not a past duration, such as 1h`,
		"type=a&type=b":       `parameter "type" is given twice`,
		"before=x":            `parameter "before": "x" is not a seq of a list`,
		"quarantined=perhaps": `parameter "quarantined": "perhaps" is neither true nor false`,
		"limit=1&limit=2":     `parameter "limit" is given twice`,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inspect.ParseFilter(q); err == nil || err.Error() != want {
			t.Errorf("%s: error is %v, want %s", query, err, want)
		}
	}
	if w := get(t, newStore(t), "/events?limit=x"); w.Code != 400 {
		t.Errorf("status is %d, want 400", w.Code)
	}
}

func TestDetailsHoldTheBodyAsTextOrBytes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, body := range []string{`{"a":"ü"}`, "\xff\x00\xfe", ""} {
		rec := claim(t, store, "k"+body, "t", []byte(body))
		w := get(t, store, "/events/"+rec.Event)
		var d inspect.Detail
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if got := d.Text + string(d.Base64); got != body {
			t.Errorf("body is %q, want %q", got, body)
		}
		if d.KeyField != `"`+d.ID+`"` || d.Target != "/webhooks/shop" || d.Response == nil || d.Response.Status != 202 {
			t.Errorf("details are %+v", d)
		}
	}
}

// broken is a store that fails in the middle of a list.
type broken struct{ dedup.Store }

func (b broken) List(context.Context, dedup.Filter) iter.Seq2[dedup.Record, error] {
	return func(yield func(dedup.Record, error) bool) {
		if yield(dedup.Record{Key: dedup.Key{ID: "k"}}, nil) {
			yield(dedup.Record{}, errors.New("disk gone"))
		}
	}
}

func (b broken) Get(context.Context, string) (dedup.Record, error) {
	return dedup.Record{}, &dedup.ErrUnavailable{Reason: "disk gone"}
}

func TestAnIncompleteListEndsWithAnError(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(get(t, broken{}, "/events").Body.String()), "\n")
	if len(lines) != 2 || lines[1] != `{"error":"disk gone"}` {
		t.Errorf("lines are %q", lines)
	}
	if w := get(t, broken{}, "/events/x"); w.Code != 503 {
		t.Errorf("status is %d, want 503", w.Code)
	}
}
