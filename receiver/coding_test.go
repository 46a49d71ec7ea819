package receiver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/eyelet-dev/eyelet/producer"
)

func coded(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if coding == "deflate" {
		w = zlib.NewWriter(&b)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCodingOf(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		lines []string
		want  string
		ok    bool
	}{
		{nil, "", true},
		{[]string{""}, "", true},
		{[]string{"identity"}, "", true},
		{[]string{"UTF-8"}, "", true},
		{[]string{"utf8", "gzip"}, "gzip", true},
		{[]string{"ISO-8859-1, 8bit"}, "", true},
		{[]string{"utf-8-gzip"}, "", false},
		{[]string{"GZip"}, "gzip", true},
		{[]string{"x-gzip"}, "gzip", true},
		{[]string{"identity, deflate"}, "deflate", true},
		{[]string{"gzip, gzip"}, "", false},
		{[]string{"gzip", "deflate"}, "", false},
		{[]string{"br"}, "", false},
		{[]string{"gzip;q=1"}, "", false},
	} {
		if got, ok := codingOf(http.Header{"Content-Encoding": row.lines}); got != row.want || ok != row.ok {
			t.Errorf("%q: %q, %v", row.lines, got, ok)
		}
	}
}

func TestCodedDeliveryIsStoredAsReceivedAndHandledDecoded(t *testing.T) {
	t.Parallel()
	const plain = `{"type":"order.paid","id":"from the body","n":7}`
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Type = producer.JSON("type")
		for _, coding := range []string{"gzip", "deflate", "identity"} {
			body := plain
			if coding != "identity" {
				body = coded(t, coding, plain)
			}
			seen := make(chan Event[struct{ N int }], 1)
			s := serve(t, p, nil, On("shop", "order.*", func(_ context.Context, ev Event[struct{ N int }]) error {
				seen <- ev
				return nil
			}).Lane(producer.JSON("id")))
			a := req{id: "k1", body: body, header: http.Header{"Content-Encoding": {coding}}}
			if g := s.send(a); g.status/100 != 2 || g.replayed() {
				t.Fatalf("%s: %+v", coding, g)
			}
			ev := <-seen
			if ev.Data.N != 7 || string(ev.Body) != body || ev.Header.Get("Content-Encoding") != coding ||
				ev.Type != "order.paid" {
				t.Errorf("%s: %+v", coding, ev)
			}
			if g := s.send(a); !g.replayed() {
				t.Errorf("%s: %+v", coding, g)
			}
			if rec := s.records()[0]; string(rec.Payload.Body) != body || rec.Tasks[0].Lane == "" {
				t.Errorf("%s: stored %q in lane %q", coding, rec.Payload.Body, rec.Tasks[0].Lane)
			}
		}
	})
}

func TestItemsOfACodedBatchAreStoredDecoded(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
		var items []producer.Item
		for word := range strings.FieldsSeq(string(d.Body)) {
			items = append(items, producer.Item{ID: word, Body: []byte(word)})
		}
		return items, nil
	}
	words := make(chan string, 2)
	s := serve(t, p, nil, On("shop", "*",
		func(_ context.Context, ev Event[[]byte]) error { words <- string(ev.Data); return nil }))
	a := req{body: coded(t, "gzip", "one two"), header: http.Header{"Content-Encoding": {"gzip"}}}
	if g := s.send(a); g.status != 200 {
		t.Fatalf("%+v", g)
	}
	if got := <-words + <-words; got != "onetwo" && got != "twoone" {
		t.Errorf("%q", got)
	}
}

// An item is forwarded and exported with its fields.
func TestItemOfACloudEventsBatchHasTheSingleEventType(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Split = func(d *producer.Delivery) ([]producer.Item, error) {
		return []producer.Item{{ID: string(d.Body), Body: d.Body}}, nil
	}
	kinds := make(chan string, 1)
	s := serve(t, p, nil, On("shop", "*",
		func(_ context.Context, ev Event[any]) error { return nil }).With(func(Next) Next {
		return func(_ context.Context, ev Event[any]) (*Response, error) {
			kinds <- strings.Join(ev.Header["Content-Type"], "|")
			return nil, nil
		}
	}))
	for sent, want := range map[string]string{
		"application/cloudevents-batch+json":               "application/cloudevents+json",
		"Application/CloudEvents-Batch+JSON;charset=utf-8": "application/cloudevents+json;charset=utf-8",
		"application/json":                                 "application/json",
		"application/cloudevents+json":                     "application/cloudevents+json",
	} {
		if g := s.send(req{body: strings.ReplaceAll(sent, " ", ""),
			header: http.Header{"Content-Type": {sent}}}); g.status != 200 {
			t.Fatalf("%+v", g)
		}
		if got := <-kinds; got != want {
			t.Errorf("an item of %q is stored as %q", sent, got)
		}
	}
}

func TestUnsupportedCodingsAreRefused(t *testing.T) {
	t.Parallel()
	bomb := coded(t, "gzip", strings.Repeat("\x00", 8<<20)) // about 1,000 to 1
	rows := []struct {
		name, coding, body string
		status             int
		code               string
	}{
		{"bomb", "gzip", bomb, 413, "body_too_large"},
		{"deflate bomb", "deflate", coded(t, "deflate", strings.Repeat("\x00", 8<<20)), 413, "body_too_large"},
		{"one byte too many", "gzip", coded(t, "gzip", strings.Repeat("x", 1<<20+1)), 413, "body_too_large"},
		{"not gzip", "gzip", "{}", 400, "event_malformed"},
		{"cut", "gzip", bomb[:len(bomb)/900], 400, "event_malformed"},
		{"another checksum", "gzip", coded(t, "gzip", "{}")[:20] + "xxxxxxxx", 400, "event_malformed"},
		{"more behind it", "deflate", coded(t, "deflate", "{}") + "{}", 400, "event_malformed"},
		{"unknown", "br", "{}", 415, "content_coding_unsupported"},
		{"two", "gzip, gzip", "{}", 415, "content_coding_unsupported"},
	}
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil, mustNotRun(t))
		for _, row := range rows {
			t.Log(row.name)
			g := s.send(req{id: "k1", body: row.body, header: http.Header{"Content-Encoding": {row.coding}}})
			wantProblem(t, g, row.status, row.code)
			if row.status == 415 && g.header.Get("Accept-Encoding") != "gzip, deflate, identity" {
				t.Errorf("%v", g.header)
			}
			// Nothing is decoded before verification.
			g = s.send(req{id: "k1", body: row.body,
				header: http.Header{"Content-Encoding": {row.coding}, "Sig": {"signature_mismatch"}}})
			if row.status != 415 {
				wantProblem(t, g, 401, "signature_invalid")
			}
		}
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
		full := req{id: "k1", body: coded(t, "gzip", strings.Repeat("x", 1<<20)),
			header: http.Header{"Content-Encoding": {"gzip"}}}
		s2 := serve(t, p, nil)
		if g := s2.send(full); g.status/100 != 2 {
			t.Errorf("exactly the limit: %+v", g)
		}
	})
}

func TestDecodingMakesNoMoreThanTheLimit(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	bomb := []byte(coded(t, "gzip", strings.Repeat("\x00", 64<<20)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodedBody(http.Header{"Content-Encoding": {"gzip"}}, bomb, 1<<20)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errInflates) {
		t.Fatal(err)
	}
	// Without the limit it would be more than the 64 MiB of the bomb.
	if made := after.TotalAlloc - before.TotalAlloc; made > 8<<20 {
		t.Errorf("%d bytes for a limit of 1 MiB", made)
	}
}

func TestReadAtMostIsExact(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1, 100_000} {
		for _, n := range []int64{0, 1, limit - 1, limit, limit + 1, 2*limit + 1} {
			want := strings.Repeat("x", int(max(0, n)))
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(want), "bytes": iotest.OneByteReader(strings.NewReader(want)),
				"late end": iotest.DataErrReader(strings.NewReader(want)),
			} {
				got, err := readAtMost(r, limit)
				if int64(len(want)) > limit {
					if !errors.Is(err, errInflates) || got != nil {
						t.Errorf("%s: %d bytes of %d within %d, %v", name, len(got), n, limit, err)
					}
				} else if err != nil || string(got) != want || int64(cap(got)) > limit+1 {
					t.Errorf("%s: %d bytes of %d within %d, %v", name, len(got), n, limit, err)
				}
			}
		}
	}
	if got, err := readAtMost(iotest.ErrReader(io.ErrUnexpectedEOF), 10); !errors.Is(err, io.ErrUnexpectedEOF) ||
		got != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzDecodedBody(f *testing.F) {
	f.Add("gzip", []byte(coded(f, "gzip", "{}")))
	f.Add("deflate", []byte(coded(f, "deflate", "{}")))
	f.Add("gzip", []byte(coded(f, "gzip", strings.Repeat("\x00", 1<<16))))
	f.Add("identity", []byte("{}"))
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		plain, err := decodedBody(http.Header{"Content-Encoding": {coding}}, body, 1<<10)
		if one, ok := codingOf(http.Header{"Content-Encoding": {coding}}); err == nil &&
			(!ok || one != "" && len(body) > 0 && len(plain) > 1<<10) {
			t.Errorf("%q: %d bytes", coding, len(plain))
		}
	})
}

func TestRequestWithoutBodyAndTypeIsRefused(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil)
		bare := req{id: "k1", header: http.Header{"Content-Type": nil}}
		wantProblem(t, s.send(bare), 400, "body_missing")
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
		unsigned := bare
		unsigned.header = http.Header{"Content-Type": nil, "Sig": nil}
		wantProblem(t, s.send(unsigned), 401, "signature_missing")
		if g := s.send(req{id: "k1"}); g.status/100 != 2 {
			t.Errorf("a type and no body: %+v", g)
		}
		p.EmptyBody = true
		if g := serve(t, p, nil).send(bare); g.status/100 != 2 {
			t.Errorf("a ping: %+v", g)
		}
	})
}
