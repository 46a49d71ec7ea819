package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wireServer is `eyelet serve` with an endpoint for GitHub and one for CloudEvents, tested octet
// for octet.
type wireServer struct {
	*running
	t       *testing.T
	address string
}

const wireToken = "wire-token-0123456789"

func serveOnTheWire(t *testing.T, more string) *wireServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: \"memory:\"\nurl: http://hooks.example\nlog: {level: " +
		"debug}\nproducers:\n" +
		"  gh: {preset: github, secrets: [octo-secret-0123456789]}\n  ce: {preset: cloudevents, bearer: " + wireToken +
		"}\n" + more
	check(t, os.WriteFile(file, []byte(text), 0o600))
	r := launch(t, "serve", "--config", file)
	return &wireServer{running: r, t: t, address: strings.TrimPrefix(r.deliveries, "http://")}
}

// says sends octets and returns everything until the server closes, which it must. shut closes our
// half after sending.
func (s *wireServer) says(send string, shut bool) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	check(s.t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, send); err != nil {
		s.t.Fatal(err)
	}
	if shut {
		_ = conn.(*net.TCPConn).CloseWrite() // the server may have closed it
	}
	check(s.t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	answer, err := io.ReadAll(conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Errorf("the connection was held open after %q", answer)
	}
	return string(answer)
}

// signedLines is the head of a push without its request line and its framing.
func signedLines(body string) []string {
	mac := hmac.New(sha256.New, []byte("octo-secret-0123456789"))
	mac.Write([]byte(body))
	return []string{
		"X-GitHub-Event: push", "X-GitHub-Delivery: wire-1", "Content-Type: application/json",
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(mac.Sum(nil)),
	}
}

func message(first string, lines ...string) string {
	return first + "\r\n" + strings.Join(lines, "\r\n")
}

// push is a complete signed delivery of "{}"; lines are added to its head.
func wirePush(lines ...string) string {
	all := append([]string{"Host: hooks.example"}, signedLines("{}")...)
	all = append(append(all, lines...), "Content-Length: 2", "", "{}")
	return message("POST /webhooks/gh HTTP/1.1", all...)
}

func TestInvalidRequestsAreRefusedOnTheWire(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "")
	signed := strings.Join(signedLines("{}"), "\r\n")
	for name, c := range map[string]struct {
		send   string
		status int
	}{
		"no Host":   {message("POST /webhooks/gh HTTP/1.1", signed, "Content-Length: 2", "", "{}"), 400},
		"two Hosts": {wirePush("Host: hooks.example"), 400},
		"an invalid Host": {strings.Replace(wirePush(), "Host: hooks.example", "Host: hooks.example/x y", 1),
			400},
		"two lengths":            {wirePush("Content-Length: 3"), 400},
		"a signed length":        {strings.Replace(wirePush(), "Content-Length: 2", "Content-Length: +2", 1), 400},
		"NUL in a value":         {wirePush("X: a\x00b"), 400},
		"CR in a value":          {wirePush("X: a\rb"), 400},
		"LF in a value":          {wirePush("X: a\nb"), 400},
		"a field called @method": {wirePush("@method: GET"), 400},
		"an unknown expectation": {wirePush("Expect: moon"), 417},
		"a head of 200 KiB":      {wirePush("X: " + strings.Repeat("x", 200<<10)), 431},
		"a cut body":             {strings.Replace(wirePush(), "Content-Length: 2", "Content-Length: 20", 1), 400},
	} {
		answer := s.says(c.send, true)
		if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", c.status)) ||
			!strings.Contains(strings.ToLower(answer), "\r\nconnection: close\r\n") {
			t.Errorf("%s: %.300q, want %d and the end of the connection", name, answer, c.status)
		}
		if c.status == 431 && strings.Contains(strings.ToLower(answer), "max-age") {
			t.Errorf("%s: may be stored: %.300q", name, answer)
		}
	}
	// None was kept: the valid delivery is the first.
	if answer := s.says(wirePush("Connection: close"), true); !strings.HasPrefix(answer, "HTTP/1.1 200 ") ||
		strings.Contains(answer, "Idempotency-Replayed") {
		t.Errorf("%q", answer)
	}
}

func TestBodiesThatDoNotArriveAreTimedOutOnTheWire(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "limits: {body_timeout: 100ms}\n")
	for name, send := range map[string]string{
		"length": strings.Replace(wirePush(), "Content-Length: 2", "Content-Length: 20", 1),
		"chunked": strings.Replace(wirePush(), "Content-Length: 2\r\n\r\n{}",
			"Transfer-Encoding: chunked\r\n\r\n5\r\n{}", 1),
	} {
		if answer := s.says(send, false); !strings.HasPrefix(answer, "HTTP/1.1 408 ") ||
			!strings.Contains(answer, "\r\nConnection: close\r\n") {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

func TestBothLengthsEndTheConnectionOnTheWire(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "")
	for name, framing := range map[string]string{
		"chunked":            "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"length and chunked": "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		send := strings.Replace(wirePush(), "Content-Length: 2\r\n\r\n{}", framing, 1)
		answer := s.says(send+wirePush(), true)
		if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || !strings.Contains(answer, "\r\nConnection: close\r\n") ||
			strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %q", name, answer)
		}
	}
}

func TestContinueIsSentOnlyIfTheBodyIsReadOnTheWire(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "")
	expecting := func(first string, lines ...string) string {
		return message(first, append([]string{"Host: hooks.example", "Expect: 100-continue"},
			append(lines, "", "")...)...)
	}
	for want, send := range map[int]string{
		404: expecting("POST /webhooks/none HTTP/1.1", "Content-Length: 2"),
		413: expecting("POST /webhooks/gh HTTP/1.1", append(signedLines("{}"), "Content-Length: 99999999")...),
		401: expecting("POST /webhooks/gh HTTP/1.1", "Content-Type: application/json", "X-GitHub-Delivery: 1",
			"Content-Length: 2"),
		405: expecting("DELETE /webhooks/gh HTTP/1.1", "Content-Length: 2"),
	} {
		if answer := s.says(send, true); !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", want)) {
			t.Errorf("%q, want %d without a 100", answer, want)
		}
	}
	conn, err := net.Dial("tcp", s.address)
	check(t, err)
	defer func() { _ = conn.Close() }()
	check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.WriteString(conn, expecting("POST /webhooks/gh HTTP/1.1",
		append(signedLines("{}"), "Content-Length: 2")...)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "{}"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("%q, %v", line, err)
	}
}

func TestAnswersOnTheWireAreCompleteAndNeverRedirect(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "")
	methods := []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "FROBNICATE"}
	for _, method := range methods {
		answer := s.says(strings.Replace(wirePush("Connection: close"), "POST ", method+" ", 1), true)
		if !strings.HasPrefix(answer, "HTTP/1.1 405 ") || !strings.Contains(answer, "\r\nAllow: POST\r\n") ||
			!strings.Contains(answer, "\r\nDate: ") {
			t.Errorf("%s: %q", method, answer)
		}
	}
	for _, target := range []string{
		"/webhooks/gh/", "//webhooks/gh", "/webhooks//gh", "/webhooks/../webhooks/gh", "/webhooks/./gh",
		"/webhooks/%67h", "/policy/",
		"/", "/webhooks", "/webhooks/", "/WEBHOOKS/gh", "http://hooks.example", "http://hooks.example//webhooks/gh",
	} {
		answer := s.says(strings.Replace(wirePush("Connection: close"), "/webhooks/gh", target, 1), true)
		if !strings.HasPrefix(answer, "HTTP/1.1 404 ") || strings.Contains(answer, "\r\nLocation:") ||
			!strings.Contains(answer, "problem+json") {
			t.Errorf("%s: %q", target, answer)
		}
	}
	for range 2 {
		answer := s.says(wirePush("Connection: close"), true)
		if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || !strings.Contains(answer, "\r\nDate: ") {
			t.Errorf("%q", answer)
		}
	}
}

func TestCredentialsOfTheQueryAreNotLoggedByTheProgram(t *testing.T) {
	t.Parallel()
	s := serveOnTheWire(t, "")
	for _, query := range []string{"?access_token=" + wireToken, "?access_token=" + wireToken + "x", "?access_token=" +
		wireToken + ";a", "?access_token=" + wireToken + "&%zz"} {
		for _, path := range []string{"/webhooks/ce", "/webhooks/none", "/webhooks/%zz"} {
			s.says(message("POST "+path+query+" HTTP/1.1", "Host: hooks.example", "Connection: close",
				"Content-Type: application/json",
				"ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: t", "Content-Length: 2", "", "{}"), true)
		}
	}
	log := s.errs.String()
	if strings.Contains(log, wireToken) {
		t.Errorf("the log has the token: %s", log)
	}
	if !strings.Contains(log, "code=accepted") || !strings.Contains(log, "code=credentials_mismatch") {
		t.Errorf("the log lacks the deliveries: %s", log)
	}
}
