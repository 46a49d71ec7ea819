package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/verify"
)

// unicodeSpaces are characters that net/http accepts in field values. They are white space to
// Go's unicode tables, but not to HTTP.
var unicodeSpaces = []string{
	"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
	"\u2008",
	"\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
}

// signedRequest returns a delivery to the endpoint shop whose signature also covers the given
// fields.
func signedRequest(t *testing.T, with verify.Signer, body string, fields map[string]string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/webhooks/shop",
		strings.NewReader(body))
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

// sendSigned sends the request with changed fields, and returns the status.
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

func TestCapturedDeliveryRunsOnceHoweverItsFieldsAreWritten(t *testing.T) {
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
				"Ce-Id": "e1", "Ce-Source": "/shop", "Ce-Type": "paid", "Ce-Specversion": "1.0",
				"Content-Type": "application/json",
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
					for _, value := range []string{r.Header.Get(field) + space, space + r.Header.Get(field)} {
						if status := s.sendSigned(r, body,
							func(h http.Header) { h.Set(field, value) }); status != 400 && status != 401 {
							t.Errorf("%s: %q: status %d", field, value, status)
						}
					}
				}
				if status := s.sendSigned(r, body,
					func(h http.Header) { h.Set(field, "\t"+r.Header.Get(field)+" ") }); status != 202 {
					t.Errorf("%s with optional white space: status %d", field, status)
				}
			}
			if n := len(s.records()); n != 1 || runs.count() != 1 {
				t.Errorf("%d records, %d runs", n, runs.count())
			}
		})
	}
}

// The stored values, which handlers get, are the verified ones. net/http strips white space over
// HTTP/1; other transports may not.
func TestHandlersGetTheFieldValuesThatWereVerified(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	s := serveSigned(t, func(p *producer.Producer) { p.Key = producer.Header("X-Event-Id") },
		On("shop", "*", func(_ context.Context, ev Event[[]byte]) error { seen <- ev.Header; return nil }))
	const body = `{"n":1}`
	r := signedRequest(t, s.ed, body,
		map[string]string{"X-Event-Id": "e1", "Content-Type": "application/json", "X-Account": "mine"})
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

// wantOneRun sends one delivery, and then every other split of its signed bytes, and wants one
// run.
func wantOneRun(t *testing.T, p producer.Producer, first func() *http.Request, body string,
	splits func(yield func(*http.Request, string))) {
	t.Helper()
	runs := newCounter()
	s := serve(t, p, func(c *Config) {
		c.Clock = func() time.Time { return time.Unix(1_700_000_000, 0) }
	}, Answer(p.Name, "*", func(context.Context, Event[[]byte]) (Response, error) {
		runs.add()
		return Response{},
			nil
	}))
	send := func(r *http.Request, body string) int {
		in := httptest.NewRequest(http.MethodPost, r.URL.RequestURI(), strings.NewReader(body))
		in.Header, in.Host = r.Header, "hooks.example"
		w := httptest.NewRecorder()
		s.rx.Handler().ServeHTTP(w, in)
		return w.Code
	}
	r := first()
	signer, ok := p.Scheme.(interface {
		Sign(*http.Request, []byte, time.Time) error
	})
	if !ok {
		t.Fatal("the scheme cannot sign")
	}
	if err := signer.Sign(r, []byte(body), time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	if status := send(r, body); status != 200 {
		t.Fatalf("status %d", status)
	}
	tried := 0
	splits(func(moved *http.Request, rest string) {
		tried++
		for name, lines := range r.Header {
			if moved.Header[name] == nil {
				moved.Header[name] = lines
			}
		}
		send(moved, rest)
	})
	if tried == 0 || runs.count() != 1 {
		t.Errorf("%d runs after %d splits", runs.count(), tried)
	}
}

func post(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestBytesThatMoveBetweenSignedPartsRunNothingAgain(t *testing.T) {
	t.Parallel()
	const body = `12{"event_id":"e1","type":"paid","n":[1,2,3]}`
	t.Run("square, a query", func(t *testing.T) {
		t.Parallel()
		const plain = `{"event_id":"e1","type":"paid","n":[1,2,3]}`
		p := preset.Square("", "0123456789abcdef")
		runs := newCounter()
		s := serve(t, p, nil, On("square", "*", func(context.Context, Event[[]byte]) error { runs.add(); return nil }))
		for i := range len(plain) {
			url := "https://hooks.example/webhooks/square?src=a" + plain[:i]
			in := httptest.NewRequest(http.MethodPost, "/webhooks/square", strings.NewReader(plain[i:]))
			in.RequestURI, in.Host = strings.TrimPrefix(url, "https://hooks.example"), "hooks.example"
			in.URL.RawQuery = "src=a" + plain[:i]
			mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
			mac.Write([]byte("https://hooks.example/webhooks/square?src=a" + plain))
			in.Header.Set("Content-Type", "application/json")
			in.Header.Set("X-Square-Hmacsha256-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			w := httptest.NewRecorder()
			s.rx.Handler().ServeHTTP(w, in)
			if w.Code != 400 {
				t.Errorf("%d bytes moved: status %d", i, w.Code)
			}
		}
		if runs.count() != 0 || len(s.records()) != 0 {
			t.Errorf("%d runs, %d records", runs.count(), len(s.records()))
		}
	})
	t.Run("datatrans", func(t *testing.T) {
		t.Parallel()
		p := preset.Datatrans(strings.Repeat("0a", 32))
		p.Tolerance = verify.Tolerance{Past: 60 * 366 * 24 * time.Hour}
		p.Window = 100 * 366 * 24 * time.Hour
		url := "https://hooks.example/webhooks/datatrans"
		wantOneRun(t, p, func() *http.Request { return post(t, url) }, body, func(yield func(*http.Request, string)) {
			const stamp = "1700000000000"
			whole := stamp + body
			for cut := 1; cut <= len(stamp)+2; cut++ {
				mac := hmac.New(sha256.New, bytes.Repeat([]byte{10}, 32))
				mac.Write([]byte(whole))
				r := post(t, url)
				r.Header.Set("Datatrans-Signature", "t="+whole[:cut]+",s0="+hex.EncodeToString(mac.Sum(nil)))
				yield(r, whole[cut:])
			}
		})
	})
}
