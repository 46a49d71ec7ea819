package producer

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/verify"
)

func binaryEvent(header ...string) *Delivery {
	all := []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/s", "ce-type", "t"}
	return delivery(hook, "data", append(all, header...)...)
}

func TestBinaryModeDecodesFieldValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Euro%20%E2%82%AC": "Euro €", `"a b"`: "a b", `"a \"b\" %25"`: `a "b" %`, "%2541": "%41", "a%22b": `a"b`,
		"plain": "plain", "a+b": "a+b",
		`"a\\"`: `a\`, "ä": "ä",
	} {
		items, err := SplitCloudEvents(binaryEvent("Ce-Subject", value))
		if err != nil || items[0].Attributes["subject"] != want {
			t.Errorf("%s: %v, %v; want %q", value, items, err, want)
		}
	}
	for _, value := range []string{"%C0%A0", "%zz", "%4", "%", "%4\x11", `"a`, `"a"b`, `"a\`, "\xff", "%ff"} {
		if _, err := SplitCloudEvents(binaryEvent("Ce-Subject", value)); verify.CodeOf(err) != verify.EventMalformed {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestMalformedCloudEventsAreRefused(t *testing.T) {
	t.Parallel()
	structured := func(body string) *Delivery {
		return delivery(hook, body, "Content-Type", "Application/CloudEvents+JSON; charset=utf-8")
	}
	batch := func(body string) *Delivery { return delivery(hook, body, "Content-Type", MediaCloudEventBatch) }
	const good = `{"specversion":"1.0","id":"1","source":"/s","type":"t"`
	cases := []struct {
		name string
		d    *Delivery
		code verify.Code
	}{
		{"batch", batch(`[` + good + `},` + strings.Replace(good, `"1",`, `"2",`, 1) + `}]`), ""},
		{"binary id twice", binaryEvent("Ce-Id", "1"), verify.AmbiguousField},
		{"two media types", binaryEvent("Content-Type", "application/json", "Content-Type", MediaCloudEvent),
			verify.AmbiguousField},
		{"structured id twice", structured(good + `,"id":"2"}`), verify.AmbiguousField},
		{"structured id under an escape", structured(good + `,"\u0069d":"2"}`), verify.AmbiguousField},
		{"structured data twice", structured(good + `,"data":1,"data":2}`), verify.AmbiguousField},
		{"a batch with a bad one", batch(`[` + good + `},{}]`), verify.EventMalformed},
		{"deep data", structured(good + `,"data":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`),
			verify.EventMalformed},
	}
	for _, c := range cases {
		items, err := SplitCloudEvents(c.d)
		if n := len(items); err == nil && items[n-1].Err != nil {
			items, err = nil, items[n-1].Err
		}
		if verify.CodeOf(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err != nil && items != nil {
			t.Errorf("%s: events beside an error", c.name)
		}
	}
}

func TestIdempotencyKeyIdentifiesACloudEventIfSigned(t *testing.T) {
	t.Parallel()
	d := binaryEvent("Idempotency-Key", `"k1"`)
	if items, err := SplitCloudEvents(d); err != nil || items[0].ID != "k1" {
		t.Errorf("under a scheme that covers nothing: %v, %v", items, err)
	}
	d.Identity.Covered = []string{"@method"}
	if items, err := SplitCloudEvents(d); err != nil || items[0].ID != "/s:1" {
		t.Errorf("unsigned: %v, %v", items, err)
	}
	d.Identity.Covered = []string{"idempotency-key"}
	if items, err := SplitCloudEvents(d); err != nil || items[0].ID != "k1" {
		t.Errorf("signed: %v, %v", items, err)
	}
	d.Request.Header.Add("Idempotency-Key", `"k2"`)
	if _, err := SplitCloudEvents(d); verify.CodeOf(err) != verify.AmbiguousField {
		t.Errorf("two keys: %v", err)
	}
}

func TestSourceAndIDTogetherIdentifyAnEvent(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, pair := range [][2]string{{"/a", "1"}, {"/b", "1"}, {"/a:1", "1"}, {"/a", "1:1"}, {"/a%3A1", "1"}} {
		d := delivery(hook, "", "ce-specversion", "1.0", "ce-type", "t",
			"ce-source", strings.ReplaceAll(pair[0], "%", "%25"), "ce-id", pair[1])
		items, err := SplitCloudEvents(d)
		if err != nil {
			t.Fatal(err)
		}
		ids[items[0].ID] = true
	}
	if len(ids) != 5 {
		t.Errorf("5 events have %d identifiers: %v", len(ids), ids)
	}
}

// FuzzCloudEvent checks what holds for every input: a typed error, or complete events.
func FuzzCloudEvent(f *testing.F) {
	f.Add("application/cloudevents+json",
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1]},"ext":true}`, "", "")
	f.Add("application/cloudevents+json",
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AA=="}`, "", "")
	f.Add("application/cloudevents-batch+json", `[{"specversion":"1.0","id":"1","source":"/s","type":"t"}]`, "", "")
	f.Add("application/json", `{}`, "Euro%20%E2%82%AC", `"a \"b\""`)
	f.Add("", "", "%C0%A0", `"`)
	f.Fuzz(func(t *testing.T, kind, body, id, subject string) {
		d := delivery(hook, body)
		d.Request.Header = http.Header{
			"Content-Type": {kind}, "Ce-Specversion": {"1.0"}, "Ce-Id": {id}, "Ce-Subject": {subject},
			"Ce-Source": {"/s"}, "Ce-Type": {"t"},
		}
		items, err := SplitCloudEvents(d)
		if err != nil {
			if verify.CodeOf(err) == "" || items != nil {
				t.Fatalf("%v beside %v", items, err)
			}
			return
		}
		for _, it := range items {
			if it.ID == "" || it.Type == "" || it.Attributes["id"] == "" || it.Attributes["source"] == "" ||
				!bytes.Contains(d.Body, it.Body) {
				t.Fatalf("item %+v", it)
			}
			if _, _, err := CloudEventData(kind, it.Body); err != nil {
				t.Fatalf("its data: %v", err)
			}
		}
	})
}

// TestCloudEventIsParsedOncePerDelivery: extractors share the result for one request and body.
func TestCloudEventIsParsedOncePerDelivery(t *testing.T) {
	t.Parallel()
	p := Producer{Name: "cloudevents", Key: CloudEventID(), Type: CloudEventType(), Attributes: CloudEventAttributes}
	d := binaryEvent()
	items, err := p.Items(d)
	if err != nil {
		t.Fatal(err)
	}
	first := d.parsed
	if again, err := p.Items(d); err != nil || d.parsed != first || !cmp.Equal(items, again) {
		t.Errorf("parsed again: %v, %v", again, err)
	}
	other := *d
	other.Request = binaryEvent("ce-subject", "another").Request
	if got, err := p.Items(&other); err != nil || got[0].Attributes["subject"] != "another" {
		t.Errorf("another request: %v, %v", got, err)
	}
	other = *d
	other.Body = []byte("atad")
	if got, err := p.Items(&other); err != nil || string(got[0].Body) != "atad" {
		t.Errorf("another body: %v, %v", got, err)
	}
	bad := delivery(hook, `{`, "Content-Type", MediaCloudEvent)
	for range 2 { // a refusal is shared too
		if _, err := p.Items(bad); verify.CodeOf(err) != verify.EventMalformed {
			t.Error(err)
		}
	}
}
