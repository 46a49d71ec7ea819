package receiver

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wires is a listener for connections in memory, with addresses chosen by the test.
type wires struct {
	accepted chan net.Conn
	ended    chan struct{}
	short    chan struct{} // one item for each Accept that has to fail for lack of descriptors
}

func newWires() *wires {
	return &wires{make(chan net.Conn, 64), make(chan struct{}), make(chan struct{}, 8)}
}

func (w *wires) Accept() (net.Conn, error) {
	select {
	case <-w.short:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	default:
	}
	select {
	case <-w.short:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	case c := <-w.accepted:
		return c, nil
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error   { close(w.ended); return nil }
func (w *wires) Addr() net.Addr { return &net.TCPAddr{} }

type wire struct {
	net.Conn
	peer net.Addr
}

func (w wire) RemoteAddr() net.Addr { return w.peer }

// far is the client's end of a connection.
type far struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

// dial opens a connection from an address.
func (w *wires) dial(t *testing.T, from string) *far {
	t.Helper()
	client, server := net.Pipe()
	w.accepted <- wire{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &far{t, client, bufio.NewReader(client)}
}

func (f *far) send(text string) {
	f.t.Helper()
	if _, err := io.WriteString(f, text); err != nil {
		f.t.Fatal("send:", err)
	}
}

// counted returns the bytes of incomplete heads.
func counted(ln *Listener) int64 {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.headBytes
}

// unverified returns how many connections have only unverified requests.
func unverified(ln *Listener) int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	conns, _ := ln.all.lines[stageUnverified].conns()
	return len(conns)
}

// begin sends a part of a head, and returns once the listener has counted it.
func (f *far) begin(ln *Listener, text string) {
	f.t.Helper()
	before := counted(ln)
	f.send(text)
	waitFor(f.t, func() bool { return counted(ln) == before+int64(len(text)) })
}

// answer returns the status of the next response, and whether it closes the connection.
func (f *far) answer() (status int, ends bool) {
	f.t.Helper()
	resp, err := http.ReadResponse(f.in, nil)
	if err != nil {
		f.t.Fatal("answer:", err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Close
}

// closed waits for the end of the connection.
func (f *far) closed() {
	f.t.Helper()
	if b, err := f.in.ReadByte(); err == nil {
		f.t.Fatalf("the connection is open and has %q", b)
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // net.Conn does not wrap it
		f.t.Fatal("the connection is still open")
	}
}

func delivery1(sig string) string {
	return "POST /webhooks/shop HTTP/1.1\r\nHost: h\r\nSig: " + sig + "\r\nType: t\r\nIdempotency-Key: k\r\n" +
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
}

// listening serves a handler through a Listener.
func listening(t *testing.T, l Limits, h http.Handler) (*wires, *Listener) {
	t.Helper()
	w := newWires()
	ln := Listen(w, l)
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return w, ln
}

// waitOpen waits for a number of open connections, and of closed ones by bound.
func waitOpen(t *testing.T, ln *Listener, open int, closed ClosedConnections) {
	t.Helper()
	waitFor(t, func() bool { got := ln.Stats(); return got.Open == open && got.Closed == closed })
}

func TestAtTheBoundTheConnectionThatWaitsLongestIsClosed(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, ln := listening(t, Limits{Connections: 3, PerAddress: 3}, s.rx.Handler())
	idle := w.dial(t, "192.0.2.1:1")
	idle.send(delivery1("good"))
	if status, _ := idle.answer(); status != http.StatusAccepted {
		t.Fatal(status)
	}
	head := w.dial(t, "192.0.2.2:1")
	head.begin(ln, "P")
	waitOpen(t, ln, 2, ClosedConnections{})
	silent := w.dial(t, "192.0.2.3:1")
	waitOpen(t, ln, 3, ClosedConnections{})
	for i, oldest := range []*far{idle, head, silent} {
		next := w.dial(t, "192.0.2.4:1")
		oldest.closed()
		waitOpen(t, ln, 3, ClosedConnections{Connections: uint64(i + 1)})
		if i == 2 {
			next.send(delivery1("good"))
			if status, _ := next.answer(); status != http.StatusAccepted {
				t.Error("the last one:", status)
			}
		}
	}
}

func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, ln := listening(t, Limits{Connections: 100, PerAddress: 2,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}, s.rx.Handler())
	other := w.dial(t, "192.0.2.2:1")
	other.begin(ln, "P")
	first := w.dial(t, "192.0.2.1:1")
	first.begin(ln, "P")
	w.dial(t, "192.0.2.1:2").begin(ln, "P")
	w.dial(t, "192.0.2.1:3").send("P")
	first.closed()
	waitFor(t, func() bool { return counted(ln) == 3 })
	waitOpen(t, ln, 3, ClosedConnections{PerAddress: 1})
	six := w.dial(t, "[2001:db8::1]:1")
	six.begin(ln, "P")
	w.dial(t, "[2001:db8::2]:1").begin(ln, "P")
	w.dial(t, "[2001:db8::3]:1").send("P")
	six.closed()
	w.dial(t, "[2001:db8:0:1::1]:1").send("P")
	waitOpen(t, ln, 6, ClosedConnections{PerAddress: 2})
	for range 10 {
		w.dial(t, "198.51.100.7:1").send("P")
	}
	waitOpen(t, ln, 16, ClosedConnections{PerAddress: 2})
	other.send(strings.TrimPrefix(delivery1("good"), "P"))
	if status, _ := other.answer(); status != http.StatusAccepted {
		t.Error("another address:", status)
	}
}

func TestAConnectionWithAVerifiedRequestIsNeverClosed(t *testing.T) {
	t.Parallel()
	running, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, apiProducer(), nil, Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
		close(running)
		<-finish
		return Response{}, nil
	}))
	w, ln := listening(t, Limits{Connections: 1, PerAddress: 1}, s.rx.Handler())
	busy := w.dial(t, "192.0.2.1:1")
	busy.send(delivery1("good"))
	<-running
	w.dial(t, "192.0.2.2:1").closed()
	waitOpen(t, ln, 1, ClosedConnections{Connections: 1})
	close(finish)
	if status, _ := busy.answer(); status/100 != 2 {
		t.Error(status)
	}
	next := w.dial(t, "192.0.2.2:2") // now it waits, and is closed for another
	busy.closed()
	next.send(delivery1("good"))
	if status, _ := next.answer(); status/100 != 2 {
		t.Error(status)
	}
}

func TestUnverifiedRequestsAreClosedAfterIdleConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, ln := listening(t, Limits{Connections: 2, PerAddress: 2}, s.rx.Handler())
	half := w.dial(t, "192.0.2.1:1")
	half.send(strings.TrimSuffix(delivery1("good"), "}"))
	waitFor(t, func() bool { return unverified(ln) == 1 })
	waits := w.dial(t, "192.0.2.2:1")
	waitOpen(t, ln, 2, ClosedConnections{})
	again := w.dial(t, "192.0.2.3:1")
	waits.closed()
	again.send(strings.TrimSuffix(delivery1("good"), "}"))
	waitFor(t, func() bool { return unverified(ln) == 2 })
	last := w.dial(t, "192.0.2.4:1")
	half.closed()
	last.send(delivery1("good"))
	if status, _ := last.answer(); status != http.StatusAccepted {
		t.Error(status)
	}
}

func TestOtherHandlersKeepTheirConnections(t *testing.T) {
	t.Parallel()
	running, finish := make(chan struct{}), make(chan struct{})
	ln := (*Listener)(nil)
	w, ln := listening(t, Limits{Connections: 1, PerAddress: 1},
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ln.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(running)
				<-finish
			})).ServeHTTP(rw, r)
		}))
	busy := w.dial(t, "192.0.2.1:1")
	busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	<-running
	w.dial(t, "192.0.2.2:1").closed()
	close(finish)
	if status, _ := busy.answer(); status != http.StatusOK {
		t.Error(status)
	}
	waitOpen(t, ln, 1, ClosedConnections{Connections: 1})
}

func TestBytesOfHeadsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, ln := listening(t, Limits{Connections: 100, PerAddress: 100, HeadBytes: 3000}, s.rx.Handler())
	const begun = "POST /webhooks/shop HTTP/1.1\r\nHost: h\r\nX: "
	idle := w.dial(t, "192.0.2.9:1")
	idle.send(delivery1("good"))
	if status, _ := idle.answer(); status != http.StatusAccepted {
		t.Fatal(status)
	}
	first := w.dial(t, "192.0.2.1:1")
	first.begin(ln, begun+strings.Repeat("x", 1400))
	w.dial(t, "192.0.2.2:1").begin(ln, begun+strings.Repeat("x", 1400))
	waitOpen(t, ln, 3, ClosedConnections{})
	last := w.dial(t, "192.0.2.3:1")
	last.send(begun + strings.Repeat("x", 1000))
	first.closed()
	waitOpen(t, ln, 3, ClosedConnections{HeadBytes: 1})
	last.send("\r\nSig: good\r\nType: t\r\nIdempotency-Key: k2\r\nContent-Type: application/json\r\n" +
		"Content-Length: 2\r\n\r\n{}")
	if status, _ := last.answer(); status != http.StatusAccepted {
		t.Error(status)
	}
	for range 20 { // complete heads do not count
		idle.send(delivery1("good"))
		if status, _ := idle.answer(); status != http.StatusAccepted {
			t.Fatal(status)
		}
	}
	waitOpen(t, ln, 3, ClosedConnections{HeadBytes: 1})
	idle.begin(ln, begun) // the head after them does
}

func TestAcceptClosesAConnectionWhenDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, ln := listening(t, Limits{Connections: 100, PerAddress: 100}, s.rx.Handler())
	oldest := w.dial(t, "192.0.2.1:1")
	waitOpen(t, ln, 1, ClosedConnections{})
	w.dial(t, "192.0.2.2:1")
	waitOpen(t, ln, 2, ClosedConnections{})
	w.short <- struct{}{}
	next := w.dial(t, "192.0.2.3:1") // wakes Accept, whose next call fails
	w.dial(t, "192.0.2.4:1")
	oldest.closed()
	waitOpen(t, ln, 3, ClosedConnections{Descriptors: 1})
	next.send(delivery1("good"))
	if status, _ := next.answer(); status != http.StatusAccepted {
		t.Error(status)
	}
}

func TestTheFourthRefusalInARowEndsTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	w, _ := listening(t, Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")}},
		s.rx.Handler())
	ends := func(c *far, sig string) bool {
		c.send(delivery1(sig))
		_, end := c.answer()
		return end
	}
	c := w.dial(t, "192.0.2.1:1")
	for i, sig := range []string{"signature_mismatch", "signature_malformed", "key_unknown", "good",
		"signature_mismatch", "digest_mismatch", "signature_mismatch"} {
		if ends(c, sig) {
			t.Fatalf("delivery %d (%s) closed the connection", i, sig)
		}
	}
	if !ends(c, "signature_mismatch") {
		t.Error("the fourth refusal in a row did not close the connection")
	}
	c.closed()
	checks := w.dial(t, "192.0.2.2:1")
	for i := range maxRefusals {
		checks.send("HEAD /webhooks/shop HTTP/1.1\r\nHost: hooks.example\r\n\r\n")
		if status, end := checks.answer(); status != http.StatusOK || end != (i == maxRefusals-1) {
			t.Errorf("check %d of the URL: %d, closed %v", i, status, end)
		}
	}
	proxy := w.dial(t, "198.51.100.7:1")
	for range 6 {
		if ends(proxy, "signature_mismatch") {
			t.Fatal("the connection of a proxy was closed, which many clients share")
		}
	}
}

func TestTheFourthRefusalEndsAConnectionOfHTTP2(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	srv := httptest.NewUnstartedServer(s.rx.Handler())
	ln := Listen(srv.Listener, Limits{})
	srv.Listener, srv.EnableHTTP2 = ln, true
	srv.StartTLS()
	defer srv.Close()
	dialed := make(chan struct{}, 16)
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed <- struct{}{}
		c := transport.TLSClientConfig.Clone()
		c.NextProtos = []string{"h2"}
		return (&tls.Dialer{Config: c}).DialContext(ctx, network, addr)
	}
	defer transport.CloseIdleConnections()
	s.srv.URL = srv.URL
	for i := range 8 {
		resp, err := (&http.Client{Transport: transport}).Do(s.request(req{id: "k",
			header: http.Header{"Sig": {"signature_mismatch"}}}))
		if err != nil {
			t.Fatal(i, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusUnauthorized {
			t.Fatal(resp.Proto, resp.Status)
		}
	}
	if n := len(dialed); n != 2 {
		t.Errorf("%d connections for 8 refusals, want 2", n)
	}
}

func TestDefaultConnectionsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	if n := DefaultConnections(); n < 1 || n > maxConnections {
		t.Errorf("%d", n)
	}
	for descriptors, want := range map[int]int{1 << 20: 8192, 20_000: 8192, 4096: 1792, 1024: 256, 300: 75, 8: 2,
		0: 1} {
		if got := connectionsOf(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}
