package receiver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestDataOfAForm: the record has the form as received. Records of earlier versions have the JSON
// and say nothing of a form.
func TestDataOfAForm(t *testing.T) {
	t.Parallel()
	const form = "payload=%7B%22n%22%3A1%7D"
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	if _, err := w.Write([]byte(form)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	asForm := map[string]string{formAttribute: "payload"}
	for name, tt := range map[string]struct {
		body, coding string
		attributes   map[string]string
		want         string
	}{
		"as received":                      {form, "", asForm, `{"n":1}`},
		"with a coding":                    {coded.String(), "gzip", asForm, `{"n":1}`},
		"the JSON of earlier versions":     {`{"n":1}`, "", nil, `{"n":1}`},
		"a form without a member, as is":   {form, "", nil, form},
		"a JSON body that is not the form": {`{"n":1}`, "", asForm, `{"n":1}`},
	} {
		rec := &dedup.Record{Tasks: make([]dedup.Task, 1), Payload: dedup.Payload{
			Body: []byte(tt.body), Attributes: tt.attributes,
			Header: http.Header{"Content-Encoding": {tt.coding}, "Content-Type": {"application/x-www-form-urlencoded"}},
		}}
		ev := eventOf(rec, 0)
		media := ""
		decode := func(contentType string, body []byte, v any) error {
			media = contentType
			return json.Unmarshal(body, v)
		}
		text, err := decodeEvent[[]byte](ev, decode)
		if err != nil || string(text.Data) != tt.want || string(text.Body) != tt.body || len(text.Attributes) != 0 {
			t.Errorf("%s: %q, %v", name, text.Data, err)
		}
		if tt.attributes == nil {
			continue
		}
		typed, err := decodeEvent[struct{ N int }](ev, decode)
		wantMedia := "application/json"
		if tt.body == tt.want {
			wantMedia = "application/x-www-form-urlencoded"
		}
		if err != nil || typed.Data.N != 1 || media != wantMedia {
			t.Errorf("%s: %+v of type %q, %v", name, typed.Data, media, err)
		}
		values, err := decodeEvent[url.Values](ev, decode)
		if err != nil || tt.body != tt.want && values.Data.Get("payload") != `{"n":1}` {
			t.Errorf("%s: %v, %v", name, values.Data, err)
		}
	}
}

// TestInlineFunctionsReadAForm: the request is the form, the event is the JSON in it.
func TestInlineFunctionsReadAForm(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.FormMember = "payload"
	runs := newCounter()
	s := inlineSite(t, p, nil, func(_ http.ResponseWriter, r *http.Request) {
		runs.add()
		ev, err := EventOf[order](r)
		if err != nil || ev.Data.Number != "A1" || r.PostFormValue("payload") != `{"Number":"A1"}` {
			t.Errorf("%+v, %v, %v", ev.Data, r.PostForm, err)
		}
	}, nil)
	a := toRoute("k1", "payload="+url.QueryEscape(`{"Number":"A1"}`))
	a.header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if g := s.send(a); g.status/100 != 2 || runs.count() != 1 {
		t.Errorf("%+v after %d runs", g, runs.count())
	}
}
