package receiver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// unicodeSpaces are characters that net/http lets pass in field values and that are white space to Go's unicode tables
// and not to HTTP.
var unicodeSpaces = []string{
	"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
	"\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
}

// signedRequest returns a delivery to the endpoint shop that is signed over the given fields too.
func signedRequest(t *testing.T, with verify.Signer, body string, fields map[string]string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/shop", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	with.Components = []string{"@method", "@target-uri", "content-digest"}
	for name, value := range fields {
		r.Header.Set(name, value)
		with.Components = append(with.Components, strings.ToLower(name))
	}
	if err := with.Sign(r, []byte(body), time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

// sendSigned sends the request to the receiver with its fields changed, and returns the status.
func (s signedSite) sendSigned(r *http.Request, body string, change func(http.Header)) int {
	s.t.Helper()
	other := r.Clone(s.t.Context())
	other.Body = http.NoBody
	change(other.Header)
	w := httptest.NewRecorder()
	in := httptest.NewRequest(http.MethodPost, "/webhooks/shop", strings.NewReader(body))
	in.Header, in.Host = other.Header, "hooks.example"
	s.rx.Handler().ServeHTTP(w, in)
	return w.Code
}

func TestOneCapturedDeliveryRunsOnceHoweverItsFieldsAreSpelt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields map[string]string
		change func(*producer.Producer)
	}{
		"key and type in fields": {
			map[string]string{"X-Event-Id": "e1", "X-Type": "paid", "Content-Type": "application/json"},
			func(p *producer.Producer) { p.Key, p.Type = producer.Header("X-Event-Id"), producer.Header("X-Type") },
		},
		"CloudEvents in binary mode": {
			map[string]string{
				"Ce-Id": "e1", "Ce-Source": "/shop", "Ce-Type": "paid", "Ce-Specversion": "1.0", "Content-Type": "application/json",
			},
			func(p *producer.Producer) {
				p.Key, p.Type, p.Split = nil, nil, producer.SplitCloudEvents
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := newCounter()
			s := serveSigned(t, c.change, countingOn(runs))
			const body = `{"n":1}`
			r := signedRequest(t, s.ed, body, c.fields)
			if status := s.sendSigned(r, body, func(http.Header) {}); status != 202 {
				t.Fatalf("status %d", status)
			}
			runs.await(t)
			for field := range c.fields {
				for _, space := range unicodeSpaces {
					for _, spelt := range []string{r.Header.Get(field) + space, space + r.Header.Get(field)} {
						if status := s.sendSigned(r, body, func(h http.Header) { h.Set(field, spelt) }); status != 400 && status != 401 {
							t.Errorf("%s: %q: status %d", field, spelt, status)
						}
					}
				}
				if status := s.sendSigned(r, body, func(h http.Header) { h.Set(field, "\t"+r.Header.Get(field)+" ") }); status != 202 {
					t.Errorf("%s with optional white space: status %d", field, status)
				}
			}
			if n := len(s.records()); n != 1 || runs.count() != 1 {
				t.Errorf("%d records, %d runs", n, runs.count())
			}
		})
	}
}

// What is kept and what handlers get are the values that were verified. HTTP/1 takes the white space off before we see
// it; other transports may not.
func TestHandlersGetTheFieldValuesThatWereVerified(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	s := serveSigned(t, func(p *producer.Producer) { p.Key = producer.Header("X-Event-Id") },
		On("shop", "*", func(_ context.Context, ev Event[[]byte]) error { seen <- ev.Header; return nil }))
	const body = `{"n":1}`
	r := signedRequest(t, s.ed, body, map[string]string{"X-Event-Id": "e1", "Content-Type": "application/json", "X-Account": "mine"})
	status := s.sendSigned(r, body, func(h http.Header) {
		h.Set("X-Event-Id", "\te1 ")
		h.Set("X-Account", "  mine")
	})
	if status != 202 {
		t.Fatalf("status %d", status)
	}
	if h := <-seen; h.Get("X-Event-Id") != "e1" || h.Get("X-Account") != "mine" {
		t.Errorf("%q", h)
	}
}
