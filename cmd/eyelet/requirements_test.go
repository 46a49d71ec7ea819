package main

import (
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
		"  gh: {preset: github, secret: [octo-secret-0123456789]}\n  ce: {preset: cloudevents, secret: " + wireToken +
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
		if strings.Count(answer, "\r\nDate: ") != 1 {
			t.Errorf("%s: without Date, or with two: %.300q", name, answer)
		}
		if c.status == 431 && strings.Contains(strings.ToLower(answer), "max-age") {
			t.Errorf("%s: may be stored: %.300q", name, answer)
		}
	}
	// None was kept: the valid delivery is the first.
	if answer := s.says(wirePush("Connection: close"), true); !strings.HasPrefix(answer, "HTTP/1.1 200 ") ||
		strings.Contains(answer, "Idempotency-Replayed") || !strings.Contains(answer, "\r\nDate: ") {
		t.Errorf("%q", answer)
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
