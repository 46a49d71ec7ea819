package echocore_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

const secret = "0123456789abcdef0123"

// open returns a receiver for GitHub.
func open(t *testing.T, change func(*receiver.Config)) *receiver.Receiver {
	t.Helper()
	store := memstore.New(memstore.Options{})
	c := receiver.Config{
		Store: store, Producers: []producer.Producer{preset.GitHub(secret)}, Logger: slog.New(slog.DiscardHandler),
		Handlers: []receiver.Handler{receiver.On("github", "push",
			func(context.Context, receiver.Event[[]byte]) error { return nil })},
	}
	if change != nil {
		change(&c)
	}
	rx, err := receiver.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return rx
}

// wire sends a signed delivery octet for octet and returns the response.
func wire(t *testing.T, srv *httptest.Server, method, target, body string, declared string) string {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	send := method + " " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-GitHub-Event: push\r\n" +
		"X-GitHub-Delivery: 1\r\n" +
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(mac.Sum(nil)) +
		"\r\nContent-Length: " + declared + "\r\n\r\n" + body
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Log(err)
	}
	return string(answer)
}

type answered struct{ method, target, status string }

// check sends a delivery and compares the status of its response, which is returned.
func (row answered) check(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	answer := wire(t, srv, row.method, row.target, "{}", "2")
	if !strings.HasPrefix(answer, "HTTP/1.1 "+row.status) {
		t.Errorf("%s %s: %.80q, want %s", row.method, row.target, answer, row.status)
	}
	return answer
}

func TestMountedEndpointsAnswerAsTheyDoWithoutEcho(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e := a.echo()
		e.Use(a.recovers)
		e.Mount(open(t, nil))
		srv := httptest.NewServer(e)
		defer srv.Close()
		for _, row := range []answered{
			{"POST", "/webhooks/github", "200"},
			{"POST", "/webhooks/github?x=1", "200"},
			{"POST", "http://evil.example/webhooks/github", "200"},
			{"GET", "/policy", "200"},
			{"HEAD", "/policy", "200"},
			{"POST", "/policy", "405"},
			{"GET", "/webhooks/github", "405"},
			{"TRACE", "/webhooks/github", "405"},
			{"FROBNICATE", "/webhooks/github", "405"},
			{"POST", "/webhooks/github/", "404"},
			{"POST", "/webhooks//github", "404"},
			{"POST", "//webhooks/github", "404"},
			{"POST", "/webhooks/%67ithub", "404"},
			{"POST", "/webhooks/x/../github", "404"},
			{"POST", "/webhooks/", "404"},
			{"POST", "/webhooks/other", "404"},
			{"POST", "/policy/", "404"},
		} {
			answer := row.check(t, srv)
			if row.status == "405" && row.target != "/policy" && !strings.Contains(answer, "\r\nAllow: POST\r\n") {
				t.Errorf("%s %s: no Allow: %q", row.method, row.target, answer)
			}
		}
	})
}

func TestHandlerServesOneEndpointAtAnyPath(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e := a.echo()
		e.Route("", "/in/:tenant", a.handler(open(t, nil), "github"))
		srv := httptest.NewServer(e)
		defer srv.Close()
		first := wire(t, srv, "POST", "/in/a", "{}", "2")
		again := wire(t, srv, "POST", "/in/b", "{}", "2")
		if !strings.HasPrefix(first, "HTTP/1.1 200") || strings.Contains(first, "Idempotency-Replayed") ||
			!strings.Contains(again, "Idempotency-Replayed: true") {
			t.Errorf("%q, %q", first, again)
		}
	})
}

func TestDeadlinesReachTheConnectionThroughEcho(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e := a.echo()
		e.Mount(open(t, func(c *receiver.Config) { c.BodyTimeout = 50 * time.Millisecond }))
		srv := httptest.NewServer(e)
		defer srv.Close()
		if answer := wire(t, srv, "POST", "/webhooks/github", "{", "2"); !strings.HasPrefix(answer, "HTTP/1.1 408") {
			t.Errorf("%q", answer)
		}
	})
}
