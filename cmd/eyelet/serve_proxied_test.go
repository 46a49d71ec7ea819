package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// TestServeBehindAProxyOfTCP: the address of a refused delivery is the one of the PROXY header.
func TestServeBehindAProxyOfTCP(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nstore: \"memory:\"\ntrusted_proxies: [127.0.0.0/8]\n" +
		"proxy_protocol: true\nproducers:\n  gh: {preset: github, secret: [octo-secret-0123456789]}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	r := launch(t, "serve", "--config", file)
	status := pushProxied(t, strings.TrimPrefix(r.deliveries, "http://"))
	if lines := refusedLines(t, 1, "--config", file); status != 401 || lines[0].Peer != "2001:db8::7" {
		t.Errorf("status %d from %q", status, lines[0].Peer)
	}
	if _, err := http.Get(r.deliveries + "/policy"); err == nil {
		t.Error("a connection of the proxy without a header was served")
	}
}

// pushProxied sends an unsigned delivery as a proxy does, and returns its status.
func pushProxied(t *testing.T, address string) int {
	t.Helper()
	c, err := net.Dial("tcp", address)
	check(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(c, "PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n"+
		"POST /webhooks/gh HTTP/1.1\r\nHost: h\r\n"+
		"Content-Type: application/json\r\nX-GitHub-Delivery: 1\r\nX-GitHub-Event: push\r\nContent-Length: 2\r\n\r\n{}")
	check(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	check(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestASocketOfSystemdBehindAProxyOfTCP: the socket was bound, and has connections, before the
// process starts. They begin with a PROXY header.
func TestASocketOfSystemdBehindAProxyOfTCP(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no systemd")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := ln.Addr().String()
	socket, err := ln.(*net.TCPListener).File()
	check(t, errors.Join(err, ln.Close()))
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: " + address + "\noperations: \"off\"\nstore: \"memory:\"\ntrusted_proxies: [127.0.0.0/8]\n" +
		"proxy_protocol: true\nproducers:\n  gh: {preset: github, secret: [octo-secret-0123456789]}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	var log servertest.Buffer
	const activate = `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`
	c := exec.Command("sh", "-c", activate, realProgram(t), "serve", "--config", file)
	c.ExtraFiles, c.Stderr = []*os.File{socket}, &log // the first extra file is 3, as systemd has it
	check(t, errors.Join(c.Start(), socket.Close()))
	t.Cleanup(func() { _ = c.Process.Kill() })
	eventually(t, "the delivery is refused", func() bool { return pushProxied(t, address) == 401 })
	check(t, c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); err != nil || !strings.Contains(log.String(), "peer=2001:db8::7") {
		t.Errorf("%v: %s", err, log.String())
	}
}
