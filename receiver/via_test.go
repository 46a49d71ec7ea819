package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// It is recognized by the receiver's own name in Via, at any position and in any case, and
// refused before verification. Names of others, and its own name in a comment or protocol, are
// not a loop.
func TestLoopingDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, func(c *Config) { c.Via = "eyelet-7" })
		for _, way := range [][]string{
			{"1.1 eyelet-7"}, {"1.1 edge, HTTP/1.1 EYELET-7 (a, b)"}, {"1.0 a (x, 1.1 y), 2\teyelet-7"},
			{"1.1 edge", "1.1 eyelet-7"},
			{`1.1 a (\), 1.1 b), 1.1 eyelet-7`}, {",,1.1 eyelet-7,"},
		} {
			g := s.send(req{id: "k1", header: http.Header{"Via": way, "Sig": {"signature_mismatch"}}})
			t.Log(way)
			wantProblem(t, g, 400, "loop_detected")
		}
		for _, way := range [][]string{nil, {"1.1 eyelet-70"}, {"1.1 edge (eyelet-7)"}, {"1.1 a (x, 1.1 eyelet-7)"},
			{"eyelet-7 edge"}, {"eyelet-7"}, {""}} {
			if g := s.send(req{id: "k2",
				header: http.Header{"Via": way}}); g.status != p.WithDefaults().Accepted.Status {
				t.Errorf("%q: status %d", way, g.status)
			}
		}
	})
	s := serve(t, apiProducer(), nil)
	if g := s.send(req{id: "k1", header: http.Header{"Via": {"1.1 eyelet"}}}); g.status != 202 {
		t.Errorf("without a name: %d", g.status)
	}
}

// A handler can distinguish it from what any client could add.
func TestHandlersSeeWhatWasSigned(t *testing.T) {
	t.Parallel()
	got := make(chan Event[[]byte], 1)
	s := serve(t, apiProducer(), func(c *Config) {
		c.Handlers = []Handler{On("shop", "*",
			func(_ context.Context, ev Event[[]byte]) error { got <- ev; return nil })}
	})
	// White space around a value is not a part of it, and was not verified.
	r := s.request(req{id: "k1", header: http.Header{"X-User": {"\troot "}}})
	s.rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
	ev := <-got
	if !slices.Equal(ev.SignedFields, []string{"idempotency-key"}) || ev.Method != "POST" ||
		ev.Target != "/webhooks/shop" || ev.Header.Get("X-User") != "root" {
		t.Errorf("%q, %s %s, %v", ev.SignedFields, ev.Method, ev.Target, ev.Header)
	}
	if diff := cmp.Diff(map[string]string{"keyid": "k1"}, ev.Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestProofIsNotReadFromTheEvent(t *testing.T) {
	t.Parallel()
	read := map[string]string{"keyid": "mine", "signed_fields": "x-user", "signature_label": "mine",
		"form_member": "x", "source": "s"}
	id := verify.Identity{KeyID: "k", Label: "sig1",
		Covered: []string{"@method", "content-type", `x-list;key="a"`, "x-kind", "@body"}}
	for _, tt := range []struct {
		read  map[string]string
		id    verify.Identity
		whole bool
		want  map[string]string
	}{
		{read, id, true, map[string]string{"source": "s", "keyid": "k", "signed_fields": "content-type,x-kind",
			"signature_label": "sig1"}},
		{read, id, false, map[string]string{"source": "s", "keyid": "k", "signed_fields": "content-type,x-kind"}},
		{read, verify.Identity{}, true, map[string]string{"source": "s"}},
		{nil, verify.Identity{Covered: []string{"@body"}}, true, nil},
	} {
		if diff := cmp.Diff(tt.want, withProof(tt.read, tt.id, tt.whole, [5]string{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if read["keyid"] != "mine" {
		t.Error("the map of the event changed")
	}
}
