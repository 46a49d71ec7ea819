package receiver

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
)

// wire sends text octet for octet and returns everything until the connection ends, which it
// must. With shut it closes its half after sending.
func (s *site) wire(send string, shut bool) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, send); err != nil {
		s.t.Fatal(err)
	}
	if shut {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Errorf("the connection is still open after %q", answer)
	}
	return string(answer)
}

// head is the head of a delivery, with more lines and without the empty one.
func head(target string, lines ...string) string {
	return "POST " + target + " HTTP/1.1\r\nHost: hooks.example\r\nSig: good\r\nIdempotency-Key: k1\r\n" +
		"Delivery-Id: k1\r\n" +
		fmt.Sprintf("Signed-At: %d\r\n", time.Now().Unix()) + strings.Join(append(lines, ""), "\r\n")
}

func parseAnswer(t *testing.T, answer string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		t.Fatalf("%v in %q", err, answer)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestCutBodyIsNeverAccepted(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, nil, mustNotRun(t))
		for name, send := range map[string]string{
			"short of its length":        head("/webhooks/shop", "Content-Length: 20", "", "0123456789"),
			"chunked, no last chunk":     head("/webhooks/shop", "Transfer-Encoding: chunked", "", "5", "hello", ""),
			"chunked, cut in a chunk":    head("/webhooks/shop", "Transfer-Encoding: chunked", "", "50", "hello"),
			"chunked, no number":         head("/webhooks/shop", "Transfer-Encoding: chunked", "", "zz", "hello"),
			"chunked, end without CRLF":  head("/webhooks/shop", "Transfer-Encoding: chunked", "", "5", "hello", "0"),
			"chunked, a bad end of line": head("/webhooks/shop", "Transfer-Encoding: chunked", "", "5", "helloXX"),
		} {
			resp := parseAnswer(t, s.wire(send, true))
			if resp.StatusCode != http.StatusBadRequest || !resp.Close {
				t.Errorf("%s: %d, close %v", name, resp.StatusCode, resp.Close)
			}
		}
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
	})
}

func TestSlowBodyIsTimedOut(t *testing.T) {
	t.Parallel()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := serve(t, p, func(c *Config) { c.BodyTimeout = 50 * time.Millisecond }, mustNotRun(t))
		for name, send := range map[string]string{
			"length":  head("/webhooks/shop", "Content-Length: 20", "", "01"),
			"chunked": head("/webhooks/shop", "Transfer-Encoding: chunked", "", "5", "he"),
		} {
			resp := parseAnswer(t, s.wire(send, false))
			if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
				t.Errorf("%s: %d, close %v", name, resp.StatusCode, resp.Close)
			}
		}
		if n := len(s.records()); n != 0 {
			t.Errorf("%d records", n)
		}
		if used := s.rx.limiter.Usage().Bodies; used != 0 {
			t.Errorf("%d bytes of the budget are not released", used)
		}
	})
}

func TestUnreadBodyDoesNotHoldTheConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), func(c *Config) { c.BodyTimeout = 50 * time.Millisecond })
	refused := strings.Replace(head("/webhooks/shop", "Content-Length: 20", "", "01"), "Sig: good",
		"Sig: signature_missing", 1)
	if resp := parseAnswer(t, s.wire(refused, false)); resp.StatusCode != http.StatusUnauthorized {
		t.Error(resp.StatusCode)
	}
	for path, status := range map[string]int{"/nowhere": http.StatusNotFound, "/policy": http.StatusMethodNotAllowed} {
		if resp := parseAnswer(t,
			s.wire(head(path, "Content-Length: 20", "", "01"), false)); resp.StatusCode != status {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func TestChunkedConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	chunks := []string{"", "5", "hello", "0", "", ""}
	for name, lines := range map[string][]string{
		"chunked":            {"Transfer-Encoding: chunked"},
		"length and chunked": {"Content-Length: 3", "Transfer-Encoding: chunked"},
	} {
		smuggled := head("/webhooks/shop", append(lines, chunks...)...) + head("/webhooks/shop", "Content-Length: 1",
			"", "x")
		answer := s.wire(smuggled, true)
		if resp := parseAnswer(t, answer); resp.StatusCode != http.StatusAccepted || !resp.Close ||
			strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %q", name, answer)
		}
	}
	if n := len(s.records()); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestHeadIsCheckedBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	p.MaxBody = 100
	s := serve(t, p, nil)
	expect := "Expect: 100-continue"
	for want, send := range map[int]string{
		404: head("/webhooks/other", expect, "Content-Length: 5", "", ""),
		413: head("/webhooks/shop", expect, "Content-Length: 101", "", ""),
		401: strings.Replace(head("/webhooks/shop", expect, "Content-Length: 5", "", ""), "Sig: good",
			"Sig: signature_missing", 1),
	} {
		answer := s.wire(send, true)
		if strings.Contains(answer, "100 Continue") || parseAnswer(t, answer).StatusCode != want {
			t.Errorf("want %d without a 100: %q", want, answer)
		}
	}
}

func TestBrokenFramingIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil, mustNotRun(t))
	for name, send := range map[string]string{
		"two lengths":   head("/webhooks/shop", "Content-Length: 5", "Content-Length: 6", "", "hello"),
		"signed length": head("/webhooks/shop", "Content-Length: +5", "", "hello"),
		"two hosts":     head("/webhooks/shop", "Host: other", "Content-Length: 0", "", ""),
		"nul":           head("/webhooks/shop", "X: a\x00b", "Content-Length: 0", "", ""),
	} {
		if resp := parseAnswer(t, s.wire(send, true)); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
}

func TestOddTargetsAreNeverRedirected(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil)
	for target, want := range map[string]int{
		"/webhooks/shop":                        202,
		"http://hooks.example/webhooks/shop":    202, // absolute form
		"http://evil.example/webhooks/shop":     202, // the host is ignored unless hosts are configured
		"HTTPS://evil.example/webhooks/shop":    202,
		"http://hooks.example//webhooks/shop":   404,
		"http://hooks.example":                  404,
		"ftp://hooks.example/webhooks/shop":     404,
		"//webhooks/shop":                       404,
		"///webhooks/shop":                      404,
		"/webhooks//shop":                       404,
		"/webhooks/shop/":                       404,
		"/webhooks/shop/.":                      404,
		"/webhooks/../webhooks/shop":            404,
		"/webhooks/shop;x":                      404,
		"/webhooks/%73hop":                      404,
		"/webhooks/shop#x":                      404,
		"/webhooks/shop?":                       202,
		"/webhooks/shop?//x":                    202,
		"/webhooks/shop?a=1#x":                  202,
		"http://hooks.example?/webhooks/shop":   404,
		"http://hooks.example/webhooks/shop?x=": 202,
	} {
		send := head(target, "Connection: close", "Content-Length: 1", "", "1")
		resp := parseAnswer(t, s.wire(send, true))
		if resp.StatusCode != want || resp.Header.Get("Location") != "" {
			t.Errorf("%s: %d, want %d", target, resp.StatusCode, want)
		}
	}
}

// sign returns the field with GitHub's signature.
func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
