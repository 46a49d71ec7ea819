package httpserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dial serves a handler and returns a connection to it.
func dial(t *testing.T, h http.Handler, body time.Duration) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := New(h, Options{Body: body, Answer: time.Minute, Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func TestABodyThatNeverComesEndsItsConnection(t *testing.T) {
	t.Parallel()
	page := func(size int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		})
	}
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, row := range map[string]struct {
		h       http.Handler
		request string
	}{
		"OPTIONS *":       {page(1), "OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"},
		"in chunks":       {page(1), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"},
		"a long response": {page(1 << 20), "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"},
		"without TLS": {RequireTLS(page(1), true, local),
			"POST / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: http\r\nContent-Length: 1\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, row.h, 50*time.Millisecond)
			write(t, conn, row.request)
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
}

// one is a listener of one connection.
type one struct {
	conns chan net.Conn
}

func (l one) Accept() (net.Conn, error) {
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l one) Close() error { return nil }
func (one) Addr() net.Addr { return &net.TCPAddr{} }

func TestABodyMayComeSlowlyWithinItsLimit(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]time.Duration{"of the server": 0, "of the handler": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { bodyComesSlowly(t, own) })
		})
	}
}

func bodyComesSlowly(t *testing.T, own time.Duration) {
	limit := time.Hour
	if own > 0 {
		limit = time.Second
	}
	srv := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own > 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(own))
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "slow" {
			t.Errorf("%q, %v", body, err)
		}
		w.Header().Set("Connection", "close")
	}), Options{Body: limit, Answer: time.Minute, Log: slog.New(slog.DiscardHandler)})
	conn, end := net.Pipe()
	ln := one{make(chan net.Conn, 1)}
	ln.conns <- end
	go func() { _ = srv.Serve(ln) }()
	defer func() { _ = srv.Close() }()
	defer close(ln.conns)
	write(t, conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
	for _, part := range []string{"s", "l", "o", "w"} {
		time.Sleep(5 * time.Second)
		write(t, conn, part)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("%q, %v", text, err)
	}
}
