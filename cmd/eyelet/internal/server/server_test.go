package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestAServerRemovesOnlyItsOwnStateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := newState(dir), newState(dir)
	check(t, errors.Join(first.write("127.0.0.1:1"), second.write("127.0.0.1:2")))
	first.remove()
	address, token, err := opsapi.ReadState(dir, opsapi.TokenFile)
	if err != nil || address != "127.0.0.1:2" || token != second.token {
		t.Errorf("the files of the other server: %q, %v", address, err)
	}
	second.remove()
	if _, _, err := opsapi.ReadState(dir, opsapi.TokenFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files are left behind: %v", err)
	}
}

// The page offers the handlers of an event's producer to run it.
func TestThePageKnowsTheHandlersOfAProducer(t *testing.T) {
	t.Parallel()
	do := func(context.Context, receiver.Event[[]byte]) error { return nil }
	s := &Server{Options: Options{Log: NewLog(io.Discard, "text", slog.LevelInfo)}, state: newState(t.TempDir())}
	s.store = memstore.New(memstore.Options{})
	g := &generation{Options: s.Options}
	g.Receiver.Handlers = []receiver.Handler{receiver.On("shop", "order.*", do), receiver.On("bank", "*", do),
		receiver.On("shop", "*", do).Named("all")}
	if got := s.pageOptions(g).Handlers("shop"); !slices.Equal(got, []string{"shop/order.*", "all"}) {
		t.Errorf("got %q", got)
	}
}

// Otherwise a duplicate that waited for the first delivery gets no response.
func TestAResponseMayTakeAsLongAsADuplicateWaits(t *testing.T) {
	t.Parallel()
	written := func(answer, wait time.Duration) time.Duration {
		o := Options{Log: NewLog(io.Discard, "text", slog.LevelInfo)}
		o.Receiver.AnswerTimeout, o.Receiver.InFlightWait = answer, wait
		return httpserver.New(nil, o.httpOptions()).WriteTimeout
	}
	base := written(0, 0)
	for _, row := range []struct{ answer, wait, more time.Duration }{
		{0, -1, 0}, {0, 5 * time.Minute, 5 * time.Minute},
		{time.Minute, 5 * time.Minute, 6*time.Minute - receiver.DefaultAnswerTimeout},
	} {
		if got := written(row.answer, row.wait); got != base+row.more {
			t.Errorf("in_flight_wait %s, answer_timeout %s: %s, want %s", row.wait, row.answer, got, base+row.more)
		}
	}
}

func TestAPanicIsLoggedAsAnError(t *testing.T) {
	t.Parallel()
	log := &servertest.Buffer{}
	s := &Server{Options: Options{Log: NewLog(log, "text", slog.LevelInfo)}}
	site := httptest.NewUnstartedServer(http.NotFoundHandler())
	site.Config = s.newHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }), nil)
	site.Start()
	defer site.Close()
	if res, err := http.Get(site.URL); err == nil {
		_ = res.Body.Close()
		t.Fatal("the page was answered")
	}
	for range 500 { // the client sees the end of the connection first
		if strings.Contains(log.String(), "level=ERROR") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if text := log.String(); !strings.Contains(text, "a bug") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log is\n%s", text)
	}
}

func TestConnectionErrorsOfClientsAreNotLoggedAsErrors(t *testing.T) {
	t.Parallel()
	log := &servertest.Buffer{}
	s := &Server{Options: Options{Log: NewLog(log, "text", slog.LevelInfo)}}
	s.newHTTPServer(nil, nil).ErrorLog.Print("http: TLS handshake error from 192.0.2.1: EOF")
	if log.String() != "" {
		t.Errorf("the log is %q", log.String())
	}
}

func TestOwnHosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		configured, host string
		want             bool
	}{
		{"127.0.0.1", "127.0.0.1:8081", true}, {"127.0.0.1", "[::1]:8081", true}, {"127.0.0.1", "localhost", true},
		{"127.0.0.1", "eyelet.internal", false}, {"127.0.0.1", "10.0.0.1", false}, {"127.0.0.1", "", false},
		{"eyelet.internal", "EYELET.internal:8081", true}, {"eyelet.internal", "10.0.0.1:8081", false},
		{"", "10.0.0.1:8081", true}, {"", "evil.example", false}, {"0.0.0.0", "10.0.0.1:8081", true},
		{"0.0.0.0", "evil.example", false},
		{"", "", false},
	} {
		if got := ownHost(tt.configured, tt.host); got != tt.want {
			t.Errorf("host %q on %q: %v", tt.host, tt.configured, got)
		}
	}
}

// servedBy is a generation with the ports of a configuration.
func servedBy(c *config.Settings) *generation {
	return newGeneration(Options{
		Loopback: httpserver.IsLoopback(c.Listen), InsecureHTTP: c.InsecureHTTP,
		Receiver: receiver.Config{TrustedProxies: c.TrustedProxies},
	})
}

func TestDeliveriesWithoutTLSAreAcceptedFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	c, err := config.Source{}.Parse("eyelet.yaml",
		[]byte("listen: 0.0.0.0:8080\ntrusted_proxies: [192.0.2.0/24, \"2001:db8::1\"]\n"))
	check(t, err)
	h := servedBy(c).requireTLS(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "in")
	}))
	for peer, want := range map[string]int{
		"192.0.2.9:1": 200, "[2001:db8::1]:1": 200, "127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:192.0.2.9]:1": 200,
		"198.51.100.1:1": 403, "[2001:db8::2]:1": 403, "": 403, "pipe": 403,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %q: status %d, want %d", peer, w.Code, want)
		}
	}
}

// TestDeliveriesThatAProxyReceivedWithoutTLSAreRefused: the proxy reports it in the last value of
// X-Forwarded-Proto. Other clients are not asked.
func TestDeliveriesThatAProxyReceivedWithoutTLSAreRefused(t *testing.T) {
	t.Parallel()
	const proxies = "trusted_proxies: [192.0.2.0/24]\n"
	for _, tt := range []struct {
		config, peer string
		said         []string
		want         int
	}{
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"http"}, 403},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"HTTPS"}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", nil, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{""}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"https, http"}, 403},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"http", "https"}, 200},
		{"listen: 0.0.0.0:8080\n", "192.0.2.9:1", []string{"ws"}, 403},
		{"listen: 0.0.0.0:8080\n", "198.51.100.1:1", []string{"https"}, 403},
		{"listen: 0.0.0.0:8080\n", "127.0.0.1:1", []string{"http"}, 200}, // not a trusted proxy
		{"listen: 127.0.0.1:8080\n", "192.0.2.9:1", []string{"http"}, 403},
		{"listen: 0.0.0.0:8080\ninsecure_http: true\n", "192.0.2.9:1", []string{"http"}, 200},
	} {
		c, err := config.Source{}.Parse("eyelet.yaml", []byte(tt.config+proxies))
		check(t, err)
		h := servedBy(c).requireTLS(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "in")
		}))
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-Proto"] = tt.said
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%q from %s saying %q: status %d, want %d", tt.config, tt.peer, tt.said, w.Code, tt.want)
		}
	}
}

// TestFewProcessorsRunFourGoroutines changes the number for the whole process, so it does not run
// beside others.
func TestFewProcessorsRunFourGoroutines(t *testing.T) { //nolint:paralleltest // see above
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "2")
	if raiseProcs(); runtime.GOMAXPROCS(0) != 2 {
		t.Errorf("%d, although the environment says 2", runtime.GOMAXPROCS(0))
	}
	t.Setenv("GOMAXPROCS", "")
	if raiseProcs(); runtime.GOMAXPROCS(0) != leastProcs {
		t.Errorf("%d, want %d", runtime.GOMAXPROCS(0), leastProcs)
	}
	runtime.GOMAXPROCS(8)
	if raiseProcs(); runtime.GOMAXPROCS(0) != 8 {
		t.Errorf("%d, want 8", runtime.GOMAXPROCS(0))
	}
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
