package receiver

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// retiring serves an endpoint that ends at the returned time, with a settable clock.
func retiring(t *testing.T, p producer.Producer) (*site, *atomic.Int64, time.Time, *counter) {
	t.Helper()
	end := time.Now().Add(time.Minute).Truncate(time.Second)
	p.Retire = end
	var ahead atomic.Int64
	runs := newCounter()
	s := serve(t, p, func(c *Config) {
		c.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}, On("shop", "*", func(context.Context, Event[[]byte]) error { runs.add(); return nil }))
	return s, &ahead, end, runs
}

// See row R047 of the requirements.
func TestARetiringEndpointAnnouncesItsEnd(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		p.Deprecated = time.Unix(1_700_000_000, 0)
		s, _, end, _ := retiring(t, p)
		for name, a := range map[string]req{
			"new": {id: `"k"`}, "again": {id: `"k"`}, "unsigned": {id: `"k"`, header: http.Header{"Sig": nil}},
			"method": {method: http.MethodPut, id: `"k"`},
			"early":  {id: `"k"`, header: http.Header{"Early-Data": {"1"}}},
		} {
			g := s.send(a)
			if g.status == http.StatusGone {
				t.Errorf("%s: 410 before the end", name)
			}
			sunset, err := http.ParseTime(g.header.Get("Sunset"))
			if err != nil || !sunset.Equal(end) || !strings.HasSuffix(g.header.Get("Sunset"), " GMT") {
				t.Errorf("%s: Sunset is %q", name, g.header.Get("Sunset"))
			}
			if got := g.header.Get("Deprecation"); got != "@1700000000" {
				t.Errorf("%s: Deprecation is %q", name, got)
			}
		}
		for _, rec := range s.records() {
			if rec.Response.Header.Get("Sunset") != "" || rec.Response.Header.Get("Deprecation") != "" {
				t.Error("the announcement is stored with an event")
			}
		}
	})
}

func TestTheDeprecationIsNeverAfterTheEnd(t *testing.T) {
	t.Parallel()
	s, _, end, _ := retiring(t, apiProducer())
	if got, want := s.send(req{id: `"k"`}).header.Get("Deprecation"), "@"+strconv.FormatInt(end.Unix(),
		10); got != want {
		t.Errorf("without a date of its own it is %q, want %q", got, want)
	}
	p := apiProducer()
	p.Deprecated = end
	if g := serve(t, p, nil).send(req{id: `"k"`}); g.header.Get("Deprecation") == "" || g.header.Get("Sunset") != "" {
		t.Errorf("deprecated without an end: header is %v", g.header)
	}
	p.Retire, p.Deprecated = end, end.Add(time.Second)
	found := ""
	for _, err := range p.Check() {
		found += err.Error()
	}
	if !strings.Contains(found, "deprecated after it is retired") {
		t.Errorf("errors are %q", found)
	}
}

func TestAnEndpointThatStaysAnnouncesNothing(t *testing.T) {
	t.Parallel()
	g := serve(t, apiProducer(), nil).send(req{id: `"k"`})
	if g.header.Get("Sunset") != "" || g.header.Get("Deprecation") != "" {
		t.Errorf("header is %v", g.header)
	}
}

// See row R046: every request gets 410, even a known duplicate. Nothing is verified and nothing
// is stored.
func TestARetiredEndpointIsGone(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s, ahead, _, runs := retiring(t, p)
		if g := s.send(req{id: `"known"`}); g.status >= 300 {
			t.Fatalf("before the end: %d %s", g.status, g.body)
		}
		runs.await(t)
		ahead.Store(int64(time.Minute)) // exactly at the end
		// With keep-alive the server reads the body before it responds. Else it may close the
		// connection while the body is being written.
		staying := &http.Client{Transport: &http.Transport{}}
		defer staying.CloseIdleConnections()
		for name, a := range map[string]req{
			"known": {id: `"known"`}, "new": {id: `"new"`}, "unsigned": {id: `"u"`, header: http.Header{"Sig": nil}},
			"a scheme that panics": {id: `"p"`, header: http.Header{"Sig": {"panic"}}}, "get": {method: http.MethodGet},
			"no media type": {id: `"m"`, header: http.Header{"Content-Type": nil}},
			"a body":        {id: `"l"`, body: strings.Repeat("x", 64<<10)},
		} {
			g, err := s.tryWith(staying, a)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			wantProblem(t, g, http.StatusGone, codeEndpointRetired)
			if g.header.Get("Sunset") != "" || g.header.Get("Retry-After") != "" {
				t.Errorf("%s: header is %v", name, g.header)
			}
		}
		if n := len(s.records()); n != 1 {
			t.Errorf("%d records, want the one from before", n)
		}
		if strings.Contains(s.log.String(), "panic while receiving") {
			t.Error("the scheme ran after the end")
		}
		if runs.count() != 1 {
			t.Errorf("the handler ran %d times", runs.count())
		}
	})
}

func TestOnlyARetiredEndpointAnswers410(t *testing.T) {
	t.Parallel()
	for _, row := range problems {
		if (row.Status == http.StatusGone) != (row.Code == codeEndpointRetired) {
			t.Errorf("%s is %d", row.Code, row.Status)
		}
	}
}

func TestThePolicyAnnouncesTheEnd(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.Retire = time.Date(2037, 1, 31, 0, 0, 0, 0, time.UTC)
	p.Deprecated = time.Date(2036, 12, 1, 0, 0, 0, 0, time.UTC)
	s := serve(t, p, nil)
	for _, path := range []string{"/policy", "/policy?format=json"} {
		g := s.send(req{method: http.MethodGet, path: path})
		if !strings.Contains(g.body, "2037-01-31T00:00:00Z") || !strings.Contains(g.body, "2036-12-01T00:00:00Z") ||
			!strings.Contains(g.body, string(codeEndpointRetired)) {
			t.Errorf("%s does not announce it", path)
		}
	}
}

// See row R169: the policy describes what happens after a 2xx that is sent before a target has
// the event.
func TestThePolicyDescribesTheService(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), func(c *Config) { c.Attempts, c.BackoffCap = 7, 5*time.Minute })
	for _, path := range []string{"/policy", "/policy?format=json"} {
		body := s.send(req{method: http.MethodGet, path: path}).body
		for _, words := range []string{"in memory, and lost when the process ends", "7", "full jitter", "up to 5 min"} {
			if !strings.Contains(body, words) {
				t.Errorf("%q is not in %s", words, path)
			}
		}
	}
}
