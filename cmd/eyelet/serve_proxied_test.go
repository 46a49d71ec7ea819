package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeBehindAProxyOfTCP: the address of a refused delivery is the one of the PROXY header.
func TestServeBehindAProxyOfTCP(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nstore: \"memory:\"\ntrusted_proxies: [127.0.0.0/8]\n" +
		"proxy_protocol: true\nproducers:\n  gh: {preset: github, secrets: [octo-secret-0123456789]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := launch(t, "serve", "--config", file)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.deliveries, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(c, "PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n"+
		"POST /webhooks/gh HTTP/1.1\r\nHost: h\r\n"+
		"Content-Type: application/json\r\nX-GitHub-Delivery: 1\r\nX-GitHub-Event: push\r\nContent-Length: 2\r\n\r\n{}")
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if lines := refusedLines(t, 1, "--config", file); res.StatusCode != 401 || lines[0].Peer != "2001:db8::7" {
		t.Errorf("%s from %q", res.Status, lines[0].Peer)
	}
	if _, err := http.Get(r.deliveries + "/policy"); err == nil {
		t.Error("a connection of the proxy without a header was served")
	}
}
