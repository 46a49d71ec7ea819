package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// TestRefusalsOfKnownPeersAreNotHidden refuses many clients, then one that has sent an event.
func TestRefusalsOfKnownPeersAreNotHidden(t *testing.T) {
	t.Parallel()
	kept, log := &refusals{}, &syncBuffer{}
	rx := openQuiet(t, kept.add, log)
	send := func(peer, sig string) {
		r := httptest.NewRequest(http.MethodPost, "/webhooks/shop", strings.NewReader("{}"))
		r.RemoteAddr = peer + ":1"
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Sig": sig, "Idempotency-Key": `"a"`,
			"Signed-At": strconv.FormatInt(time.Now().Unix(), 10),
		} {
			r.Header.Set(name, value)
		}
		rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	send("203.0.113.9", "good")
	for i := range 2 * sampledLines {
		send(fmt.Sprintf("198.51.%d.1", i), "signature_mismatch")
	}
	send("203.0.113.9", "signature_mismatch")
	for i, f := range kept.all {
		if f.Known != (i == 2*sampledLines) {
			t.Errorf("refusal %d of %v: known is %t", i, f.Peer, f.Known)
		}
	}
	if n := strings.Count(log.String(), "peer=203.0.113.9"); n != 1 || len(kept.all) != 2*sampledLines+1 {
		t.Errorf("%d refusals, %d lines of the known peer in the log:\n%s", len(kept.all), n, log)
	}
}

// refusals collects what Config.Refused gets.
type refusals struct {
	mu  sync.Mutex
	all []Refused
}

func (k *refusals) add(_ context.Context, f Refused) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, f)
}

// openQuiet opens a receiver in memory with a log, and closes it when the test ends.
func openQuiet(t *testing.T, refused func(context.Context, Refused), log io.Writer) *Receiver {
	t.Helper()
	store := memstore.New(memstore.Options{})
	p := apiProducer()
	p.MaxBody = 5000
	rx, err := Open(Config{
		Store: store, Producers: []producer.Producer{p}, URL: "https://hooks.example", Refused: refused,
		Logger: slog.New(slog.NewTextHandler(log, nil)), RetryAfter: time.Nanosecond, // always "1": no jitter
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rx.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return rx
}

func TestARefusedRequestIsReportedAfterItsAnswer(t *testing.T) {
	t.Parallel()
	kept := &refusals{}
	w := httptest.NewRecorder()
	rx := openQuiet(t, func(ctx context.Context, f Refused) {
		if !w.Flushed || w.Code != f.Response.Status || w.Body.String() != string(f.Response.Body) {
			t.Errorf("status %d was not answered yet: %d, %q", f.Response.Status, w.Code, w.Body)
		}
		kept.add(ctx, f)
	}, io.Discard)
	for _, tt := range []struct {
		name, target string
		body         io.Reader
		length       int64
		sig          string
		want         Refused
		url          string
	}{
		{name: "a bad signature", target: "/webhooks/shop?k=v", sig: "signature_mismatch",
			body: strings.NewReader("{}"), length: 2, url: "https://hooks.example/webhooks/shop?k=v",
			want: Refused{Endpoint: "shop", Code: verify.SignatureMismatch, BodyRead: BodyUnread, Declared: 2}},
		{name: "no identifier", target: "/webhooks/shop", sig: "good", body: strings.NewReader("{}"), length: -1,
			url: "https://hooks.example/webhooks/shop",
			want: Refused{Endpoint: "shop", Code: codeKeyMissing, BodyRead: BodyWhole, Declared: -1,
				Body: []byte("{}")}},
		{name: "a body that is cut off", target: "/webhooks/shop", sig: "good", length: 9,
			body: io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(io.ErrUnexpectedEOF)),
			url:  "https://hooks.example/webhooks/shop",
			want: Refused{Endpoint: "shop", Code: codeBodyCut, BodyRead: BodyPartial, Declared: 9, Body: []byte("{}")}},
		{name: "an unknown path", target: "/webhooks/shp?k=v", body: strings.NewReader("{}"), length: 2,
			url: "/webhooks/shp?k=v", want: Refused{Code: codeNotFound, BodyRead: BodyUnread, Declared: 2}},
	} {
		r := httptest.NewRequest(http.MethodPost, tt.target, tt.body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sig", tt.sig)
		r.Header.Set("Signed-At", strconv.FormatInt(time.Now().Unix(), 10))
		r.ContentLength, r.RemoteAddr = tt.length, "203.0.113.9:1"
		*w, kept.all = *httptest.NewRecorder(), nil
		rx.Handler().ServeHTTP(w, r)
		if len(kept.all) != 1 {
			t.Errorf("%s: status %d, %d refusals", tt.name, w.Code, len(kept.all))
			continue
		}
		got := kept.all[0]
		if got.Endpoint != tt.want.Endpoint || publicCode(got.Code) != publicCode(tt.want.Code) ||
			got.BodyRead != tt.want.BodyRead || got.Declared != tt.want.Declared ||
			!bytes.Equal(got.Body, tt.want.Body) ||
			got.Peer.String() != "203.0.113.9" || got.Request.URL.String() != tt.url || got.Time.IsZero() ||
			got.Request.RequestURI != tt.target || got.Request.Body != http.NoBody {
			t.Errorf("%s: %+v, URL %s", tt.name, got, got.Request.URL)
		}
	}
}

func TestAPanicOfRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	log := &syncBuffer{}
	rx := openQuiet(t, func(context.Context, Refused) { panic("secret-text") }, log)
	for range 3 {
		w := httptest.NewRecorder()
		rx.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks/shop", http.NoBody))
		if w.Code != http.StatusUnauthorized {
			t.Error("status", w.Code)
		}
	}
	text := log.String()
	if strings.Count(text, "Config.Refused panicked") != 1 || strings.Contains(text, "secret-text") {
		t.Error(text)
	}
}

// flushless panics like the response of a router whose writer cannot flush.
type flushless struct{ *httptest.ResponseRecorder }

func (flushless) Flush() { panic("flushing is not supported") }

func TestAWriterThatCannotFlushStillReports(t *testing.T) {
	t.Parallel()
	kept := &refusals{}
	rx := openQuiet(t, kept.add, io.Discard)
	rx.Handler().ServeHTTP(flushless{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	if len(kept.all) != 1 {
		t.Error(len(kept.all), "refusals")
	}
}

func TestTheLineOfADeliveryNamesItsClient(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*http.Request){
		"code=signature_missing peer=203.0.113.9 method=POST path=/webhooks/shop size=2": func(*http.Request) {
		},
		"code=method_not_allowed peer=203.0.113.9 method=GET path=/webhooks/shop size=2": func(r *http.Request) {
			r.Method = http.MethodGet
		},
		"code=early_data peer=203.0.113.9 method=POST path=/webhooks/shop size=2 status=425": func(r *http.Request) {
			r.Header.Set("Early-Data", "1")
		},
		"code=content_coding_unsupported peer=203.0.113.9 method=POST path=/webhooks/shop": func(r *http.Request) {
			r.Header.Set("Content-Encoding", "br")
		},
		"code=body_too_large peer=203.0.113.9 method=POST path=/webhooks/shop": func(r *http.Request) {
			r.ContentLength = 1 << 40
		},
		"peer=203.0.113.9 method=POST path=* code=not_found": func(r *http.Request) { r.RequestURI = "*" },
		"peer=203.0.113.9 method=POST path=h/webhooks/shop code=not_found": func(r *http.Request) {
			r.RequestURI = "gopher://u:s3cret@h/webhooks/shop?key=s3cret"
		},
	} {
		log := &syncBuffer{}
		rx := openQuiet(t, nil, log)
		r := httptest.NewRequest(http.MethodPost, "/webhooks/shop?key=s3cret", strings.NewReader("{}"))
		r.RemoteAddr = "203.0.113.9:1"
		change(r)
		rx.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if text := log.String(); !strings.Contains(text, want) || strings.Contains(text, "s3cret") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// randomRefused returns a request that is refused, the same for the same seed.
func randomRefused(seed uint64) *http.Request {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	body := strings.Repeat("x", rng.IntN(7000))
	r := httptest.NewRequest(pick("POST", "POST", "POST", "GET", "PUT", "HEAD"),
		pick("/webhooks/shop", "/webhooks/shop?a=b", "/webhooks/shp", "/", "/webhooks/"), strings.NewReader(body))
	r.RemoteAddr = pick("192.0.2.1:1", "[2001:db8::1]:2", "pipe")
	if rng.IntN(4) == 0 {
		r.ContentLength = -1
	}
	for range rng.IntN(4) {
		r.Header.Add(pick("Sig", "Early-Data", "Content-Encoding", "Component", "Content-Type"),
			pick("good", "1", "gzip", "key_unknown", "signature_mismatch", "coverage_insufficient", "\x1b[31m"))
	}
	return r
}

// TestRefusedCostsNothing: responses do not depend on Config.Refused, and without it a refused
// delivery makes no more allocations (TestAllocationsOfADelivery has the bound).
func TestRefusedCostsNothing(t *testing.T) {
	t.Parallel()
	kept := &refusals{}
	with, without := openQuiet(t, kept.add, io.Discard), openQuiet(t, nil, io.Discard)
	refused := 0
	for seed := range uint64(10_000) {
		var got [2]*httptest.ResponseRecorder
		for i, rx := range []*Receiver{with, without} {
			got[i] = httptest.NewRecorder()
			rx.Handler().ServeHTTP(got[i], randomRefused(seed))
			got[i].Header().Del("Date")
		}
		if got[0].Code >= http.StatusBadRequest {
			refused++
		}
		if got[0].Code != got[1].Code || !bytes.Equal(got[0].Body.Bytes(), got[1].Body.Bytes()) ||
			headerText(got[0].Header()) != headerText(got[1].Header()) {
			t.Fatalf("seed %d: %d %v %q, without %d %v %q", seed, got[0].Code, got[0].Header(), got[0].Body,
				got[1].Code, got[1].Header(), got[1].Body)
		}
	}
	if refused != len(kept.all) || refused < 9000 {
		t.Errorf("%d of 10000 were refused, %d reported", refused, len(kept.all))
	}
}

// headerText returns the fields in order.
func headerText(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b) // a strings.Builder takes everything
	return b.String()
}
