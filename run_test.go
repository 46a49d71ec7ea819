package eyelet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

const secret = "a long secret"

type push struct{ Ref string }

// served is a receiver that runs.
type served struct {
	rx    *eyelet.Receiver
	url   string // of the endpoint
	ended chan error
}

// openAt opens a receiver with a logger whose lines go to lines.
func openAt(t *testing.T, dir string, lines io.Writer, parts ...eyelet.Part) *eyelet.Receiver {
	t.Helper()
	log := eyelet.Part(func(c *receiver.Config) { c.Logger = slog.New(slog.NewTextHandler(lines, nil)) })
	rx, err := eyelet.Open(dir, append(parts, log, eyelet.GitHub(secret))...)
	if err != nil {
		t.Fatal(err)
	}
	return rx
}

var acceptingAt = regexp.MustCompile(`at=(http://\S+)`)

// start runs a receiver and waits until it accepts deliveries.
func start(ctx context.Context, t *testing.T, dir, address string, parts ...eyelet.Part) *served {
	t.Helper()
	lines := make(lineWriter, 100)
	s := &served{rx: openAt(t, dir, lines, parts...), ended: make(chan error, 1)}
	go func() { s.ended <- eyelet.Run(ctx, address, s.rx) }()
	for {
		select {
		case line := <-lines:
			if m := acceptingAt.FindStringSubmatch(line); m != nil {
				s.url = m[1]
				return s
			}
		case err := <-s.ended:
			t.Fatal("it ended: ", err)
		case <-time.After(20 * time.Second):
			t.Fatal("it does not accept deliveries")
		}
	}
}

// lineWriter passes lines on, and drops them once it is full.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
	default:
	}
	return len(line), nil
}

// push delivers a push and returns the status.
func (s *served) push(t *testing.T, id, ref string) int {
	t.Helper()
	unsigned := preset.Unsigned{URL: s.url, Type: "push", ID: id, Body: []byte(`{"ref":"` + ref + `"}`)}
	r, _, err := unsigned.SignedBy(preset.GitHub(secret), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestRunFinishesRunningWork ends the context while a handler runs: a delivery is then refused for
// now, the handler finishes, and the store is closed last, with its outcome.
func TestRunFinishesRunningWork(t *testing.T) {
	t.Parallel()
	running, finish, dir := make(chan string), make(chan struct{}), t.TempDir()
	onPush := eyelet.On("github", "push", func(_ context.Context, ev eyelet.Event[push]) error {
		running <- ev.Data.Ref
		<-finish
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	s := start(ctx, t, dir, "127.0.0.1:0", onPush)
	if status := s.push(t, "1", "refs/heads/main"); status != http.StatusOK {
		t.Fatalf("the push is answered %d", status)
	}
	if ref := <-running; ref != "refs/heads/main" {
		t.Errorf("pushed to %q", ref)
	}
	cancel()
	for s.rx.Ready(t.Context()) == nil {
		time.Sleep(time.Millisecond)
	}
	if status := s.push(t, "2", "refs/heads/late"); status != http.StatusServiceUnavailable {
		t.Errorf("while it stops, a push is answered %d", status)
	}
	close(finish)
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if err := s.rx.Store.Health(t.Context()); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("the store is open: %v", err)
	}
	again := openAt(t, dir, io.Discard, onPush)
	defer again.Close() //nolint:errcheck // the test is over
	var states []dedup.State
	for rec, err := range again.Store.List(t.Context(), dedup.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, rec.State())
	}
	if len(states) != 1 || states[0] != dedup.Done {
		t.Errorf("events after the next start: %v, want one that is done", states)
	}
}

// TestRunEndsAtSIGTERM signals the test itself, so it does not run beside others.
func TestRunEndsAtSIGTERM(t *testing.T) { //nolint:paralleltest // see above
	s := start(t.Context(), t, t.TempDir(), "127.0.0.1:0")
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func TestRunRefusesPlainHTTPBeyondThisMachine(t *testing.T) {
	t.Parallel()
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:8080", "nowhere"} {
		rx := openAt(t, t.TempDir(), io.Discard)
		err := eyelet.Run(t.Context(), address, rx)
		if err == nil || !strings.Contains(err.Error(), "without TLS") {
			t.Errorf("at %q: %v", address, err)
		}
		if err := rx.Store.Health(t.Context()); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("at %q: the store is open: %v", address, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := start(ctx, t, t.TempDir(), "0.0.0.0:0", func(c *receiver.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	cancel()
	if err := <-s.ended; err != nil {
		t.Error("behind a proxy: ", err)
	}
}

func TestRunReportsAPortThatIsInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rx := openAt(t, t.TempDir(), io.Discard)
	if err := eyelet.Run(t.Context(), ln.Addr().String(), rx); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	if err := rx.Close(); err != nil {
		t.Error("a second close: ", err)
	}
}

// TestOpenReportsEveryMistake opens nothing: the folder can be used afterwards.
func TestOpenReportsEveryMistake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := eyelet.Open(dir, eyelet.GitHub(""), eyelet.Stripe("whsec_1"), eyelet.Stripe("whsec_2"),
		eyelet.On("gitlab", "*", func(context.Context, eyelet.Event[[]byte]) error { return nil }))
	if err == nil {
		t.Fatal("it opens")
	}
	for _, want := range []string{`"github"`, `"stripe": the name is used twice`, `unknown producer "gitlab"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not report %s", err, want)
		}
	}
	store := eyelet.Part(func(c *receiver.Config) { c.Store = memstore.New(memstore.Options{}) })
	if _, err := eyelet.Open(dir, store, eyelet.GitHub(secret)); err == nil {
		t.Error("a store of a part is ignored")
	}
	if err := openAt(t, dir, io.Discard).Close(); err != nil {
		t.Error(err)
	}
}

var listeningAt = regexp.MustCompile(`msg=listening at=(\S+)`)

// TestServeServesAProgramWithRoutesOfItsOwn, with TLS and without, and ends as Run does.
func TestServeServesAProgramWithRoutesOfItsOwn(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for scheme, config := range map[string]*tls.Config{"http": nil, "https": secure.TLS.Clone()} {
		ctx, cancel := context.WithCancel(t.Context())
		lines := make(lineWriter, 100)
		rx := openAt(t, t.TempDir(), lines, eyelet.Handle(receiver.Inline("github", "*")))
		mux := http.NewServeMux()
		mux.Handle("POST /orders", rx.Verified("github")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ev, err := receiver.EventOf[push](r)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, ev.Data.Ref+" over "+r.Proto)
		})))
		ended := make(chan error, 1)
		srv := &http.Server{Addr: "127.0.0.1:0", Handler: mux, TLSConfig: config, ReadHeaderTimeout: time.Minute}
		go func() { ended <- eyelet.Serve(ctx, srv, rx) }()
		var address []string
		for address == nil {
			select {
			case line := <-lines:
				address = listeningAt.FindStringSubmatch(line)
			case err := <-ended:
				t.Fatal("it ended: ", err)
			}
		}
		unsigned := preset.Unsigned{URL: scheme + "://" + address[1] + "/orders", Type: "push", ID: "1",
			Body: []byte(`{"ref":"main"}`)}
		r, _, err := unsigned.SignedBy(preset.GitHub(secret), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		res, err := secure.Client().Do(r.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasPrefix(string(body), "main over HTTP/") {
			t.Errorf("%d %q %v", res.StatusCode, body, err)
		}
		_ = res.Body.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := rx.Store.Health(t.Context()); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("the store is open: %v", err)
		}
	}
}

// TestServeRefusesRoutesThatAreNotThere: an Inline handler without its route.
func TestServeRefusesRoutesThatAreNotThere(t *testing.T) {
	t.Parallel()
	rx := openAt(t, t.TempDir(), io.Discard, eyelet.Handle(receiver.Inline("github", "*")))
	srv := &http.Server{Addr: "127.0.0.1:0", Handler: http.NewServeMux(), ReadHeaderTimeout: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a server that should not begin
	defer cancel()
	if err := eyelet.Serve(ctx, srv, rx); err == nil || !strings.Contains(err.Error(), `Verified("github")`) {
		t.Error(err)
	}
	if err := rx.Store.Health(t.Context()); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("the store is open: %v", err)
	}
}
