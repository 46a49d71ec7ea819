package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/receiver"
)

const (
	theProxy      = "10.0.0.5:40000"
	anUnknownPeer = "198.51.100.1:40001"
	getRequest    = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
)

// portOf accepts connections that seem to come from the peer.
type portOf struct {
	net.Listener
	peer string
}

type connOf struct {
	net.Conn
	peer net.Addr
}

func (p portOf) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return connOf{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.peer))}, nil
}

func (c connOf) RemoteAddr() net.Addr { return c.peer }

// serveProxied serves connections of a peer, and returns the address of the port. Responses are the
// client's address and the type of the address of the connection.
func serveProxied(t *testing.T, peer string, within time.Duration, config *tls.Config) (address string) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s %T", r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey))
		}),
		TLSConfig: config.Clone(), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
	}
	bounded := behindProxies(receiver.Listen(portOf{ln, peer}, receiver.Limits{}),
		func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, within)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if config != nil {
			_ = srv.ServeTLS(bounded, "", "")
		} else {
			_ = srv.Serve(bounded)
		}
	}()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return ln.Addr().String()
}

// sendProxied sends bytes and returns the response, or "" if the connection was closed without one.
func sendProxied(t *testing.T, address, head string, config *tls.Config) string {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	check(t, err)
	defer c.Close() //nolint:errcheck // nothing is lost
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, head) // it may be refused before it was read
	if config != nil {
		c = tls.Client(c, config)
	}
	_, _ = io.WriteString(c, getRequest)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close() //nolint:errcheck // read in full
	body, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

// proxyHeader returns a header of version 2.
func proxyHeader(t *testing.T, command proxyproto.ProtocolVersionAndCommand) string {
	t.Helper()
	from := netip.MustParseAddrPort("203.0.113.7:4711")
	h := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(from))
	h.Command = command
	var b bytes.Buffer
	if _, err := h.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestOnlyTrustedProxiesNameTheClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servertest.Issue(t, dir, 1)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	check(t, err)
	const v1, client = "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", "200 203.0.113.7:4711 receiver.connAddr"
	v2, local := proxyHeader(t, proxyproto.PROXY), proxyHeader(t, proxyproto.LOCAL)
	for _, config := range []*tls.Config{nil, {Certificates: []tls.Certificate{pair}}} {
		var trusting *tls.Config
		if config != nil {
			trusting = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the names do not matter here
		}
		proxy := serveProxied(t, theProxy, 2*time.Minute, config)
		silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", proxy) // it makes no other one wait
		check(t, err)
		defer silent.Close() //nolint:errcheck // nothing was sent
		unknown := serveProxied(t, anUnknownPeer, time.Minute, config)
		for _, c := range []struct{ name, address, head, want string }{
			{"version 1", proxy, v1, client},
			{"version 2", proxy, v2, client},
			{"a check of the proxy itself", proxy, local, "200 " + theProxy + " receiver.connAddr"},
			{"no header", proxy, "", ""},
			{"no address", proxy, "PROXY TCP4 x\r\n", ""},
			{"too long", proxy, "PROXY TCP4 " + strings.Repeat("1", 500), ""},
			{"an unknown peer", unknown, "", "200 " + anUnknownPeer + " receiver.connAddr"},
		} {
			if got := sendProxied(t, c.address, c.head, trusting); got != c.want {
				t.Errorf("%s, TLS %v: %q, want %q", c.name, config != nil, got, c.want)
			}
		}
		for _, head := range []string{v1, v2, local} {
			if got := sendProxied(t, unknown, head, trusting); got != "" && !strings.HasPrefix(got, "400 ") {
				t.Errorf("an unknown peer with %q, TLS %v: %q", head, config != nil, got)
			}
		}
	}
}

func TestASlowPROXYHeaderEnds(t *testing.T) {
	t.Parallel()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", serveProxied(t, theProxy, 50*time.Millisecond, nil))
	check(t, err)
	defer c.Close() //nolint:errcheck // the server closed it
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, "PROXY TCP4 203.0.")
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("read %d, %v; want the end", n, err)
	}
}
