package replay_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/replay"
)

func stored(body string) dedup.Record {
	return dedup.Record{
		Event: "E1", Key: dedup.Key{Principal: "shop", Endpoint: "shop", ID: "order-1"},
		Accepted: time.Date(2026, 6, 28, 10, 10, 0, 5e8, time.FixedZone("", 7200)),
		Payload: dedup.Payload{
			Producer: "shop", Endpoint: "shop", Type: "order.paid", Method: "PUT", Target: "/webhooks/shop?a=%2f&b",
			Header: http.Header{
				"X-Two": {"1", "2"}, "Content-Type": {"application/json"}, "X-Empty": {""}, "X-Bytes": {"caf\xe9"},
			},
			Body: []byte(body),
		},
		Tasks: []dedup.Task{{Handler: "a", Attempt: 2, State: dedup.Done},
			{Handler: "b", Attempt: 16, State: dedup.Dead}},
	}
}

func TestAnExportIsTheDeliveryByteForByte(t *testing.T) {
	t.Parallel()
	rec, err := replay.Export(stored("{\r\n\x00\xff}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# producer: shop\n# now: 1782634200\n# event: E1\n# id: order-1\n# type: order.paid\n" +
		"# accepted: 2026-06-28T08:10:00.5Z\n# attempt: 16\n" +
		"PUT /webhooks/shop?a=%2f&b HTTP/1.1\r\nContent-Type: application/json\r\nX-Bytes: caf\xe9\r\nX-Empty: \r\n" +
		"X-Two: 1\r\nX-Two: 2\r\n\r\n{\r\n\x00\xff}\n"
	if diff := cmp.Diff(want, string(rec.Bytes())); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
}

func TestAnExportHoldsNoCredentials(t *testing.T) {
	t.Parallel()
	r := stored("{}")
	for _, name := range []string{"Authorization", "cookie", "Proxy-Authorization"} {
		r.Payload.Header[name] = []string{"s3cret"}
	}
	rec, err := replay.Export(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rec.Bytes()), "s3cret") {
		t.Errorf("export:\n%s", rec.Bytes())
	}
}

func TestTheLengthOfABatchIsNotThatOfItsEvent(t *testing.T) {
	t.Parallel()
	for length, want := range map[string]bool{"2": true, "200": false} {
		r := stored("{}")
		r.Payload.Header.Set("Content-Length", length)
		rec, err := replay.Export(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(rec.Bytes()), "Content-Length"); got != want {
			t.Errorf("Content-Length %s of a body of 2 bytes: exported %v", length, got)
		}
	}
}

func TestANoteThatDoesNotFitALineIsOmitted(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a\nb", " a", "a\x00", "a\x7f", "a\r"} {
		r := stored("{}")
		r.Key.ID, r.Payload.Type = id, id
		rec, err := replay.Export(r)
		if err != nil {
			t.Errorf("id %q: %v", id, err)
			continue
		}
		if rec.Note("id") != "" || rec.Note("type") != "" || rec.Note("event") != "E1" {
			t.Errorf("id %q: notes are %+v", id, rec.Notes)
		}
	}
}

func TestAnInvalidHeadIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*dedup.Payload){
		"line break in a field":    func(p *dedup.Payload) { p.Header.Set("X-Two", "1\r\nCookie: a=b") },
		"space in the target":      func(p *dedup.Payload) { p.Target = "/a b" },
		"no method":                func(p *dedup.Payload) { p.Method = "" },
		"name that is not a token": func(p *dedup.Payload) { p.Header["X Two"] = []string{"1"} },
	} {
		r := stored("{}")
		spoil(&r.Payload)
		if rec, err := replay.Export(r); err == nil {
			t.Errorf("%s: exported as\n%s", name, rec.Bytes())
		}
	}
}

func TestADroppedBodyCannotBeExported(t *testing.T) {
	t.Parallel()
	r := stored("")
	r.DropBody = true
	r.Tasks = r.Tasks[:1]
	if _, err := replay.Export(r); !errors.Is(err, dedup.ErrNoPayload) {
		t.Errorf("error is %v", err)
	}
}

// TestExportsParseAsTheSameRequestOrAreRefused tries hostile identifiers, types, targets and
// fields: an export is never another request than the stored one, and no value becomes a line of
// its own.
func TestExportsParseAsTheSameRequestOrAreRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := stored(rapid.StringN(0, 40, -1).Draw(t, "body"))
		r.Key.ID = rapid.String().Draw(t, "id")
		r.Payload.Type = rapid.SampledFrom([]string{"", "a b", "a\nb", " a", "\x7f", "ok"}).Draw(t, "type")
		r.Payload.Header["X-Any"] = []string{rapid.String().Draw(t, "value")}
		r.Payload.Target = "/" + rapid.String().Draw(t, "target")
		rec, err := replay.Export(r)
		if err != nil {
			return
		}
		back, err := httpfile.Parse("x", rec.Bytes())
		if err != nil {
			t.Fatalf("it cannot be read: %v\n%q", err, rec.Bytes())
		}
		if string(back.Body) != string(r.Payload.Body) || back.Target != r.Payload.Target ||
			back.Method != http.MethodPut ||
			back.Header().Get("X-Any") != r.Payload.Header.Get("X-Any") || len(back.Fields) != 6 {
			t.Fatalf("it is another request: %q", rec.Bytes())
		}
		if id := back.Note("id"); id != "" && id != r.Key.ID || back.Note("event") != "E1" {
			t.Fatalf("notes are %+v", back.Notes)
		}
	})
}

func TestFieldsOfTheOriginal(t *testing.T) {
	t.Parallel()
	rec, err := replay.Export(stored("{}"))
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		replay.FieldOriginalEvent: {"E1"}, replay.FieldOriginalAccepted: {"2026-06-28T08:10:00.5Z"},
		replay.FieldOriginalAttempt: {"16"},
	}
	if diff := cmp.Diff(want, replay.Original(rec)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if got := replay.Original(recording(t, "# now: 1\nPOST / HTTP/1.1\n\n")); len(got) != 0 {
		t.Errorf("a recording without notes has %v", got)
	}
}
