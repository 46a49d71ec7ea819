package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// serveGitHub serves one producer of the preset over a store in memory, with these limits.
func serveGitHub(t *testing.T, limits string) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: \"memory:\"\nlog: {level: error}\nlimits: {" + limits +
		"}\n" +
		"producers:\n  gh: {preset: github, secret: [another-long-secret], max_body: 64KiB}\n"
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return launch(t, "serve", "--config", file)
}

func (r *running) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.deliveries, "http://"))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const unsignedHead = "POST /webhooks/gh HTTP/1.1\r\nHost: h\r\nX-GitHub-Delivery: d\r\nX-Hub-Signature-256: sha256=" +
	"0000000000000000000000000000000000000000000000000000000000000000\r\nContent-Type: application/json\r\n"

// headOf is a head of so many bytes, for a body of two.
func headOf(n int) string {
	const end = "\r\nContent-Length: 2\r\n\r\n"
	return unsignedHead + "X: " + strings.Repeat("x", n-len(unsignedHead)-len("X: ")-len(end)) + end
}

// statuses reads until the server closes the connection and returns the statuses.
func statuses(t *testing.T, conn net.Conn) string {
	t.Helper()
	check(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	var found []string
	br := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			timeout, ok := err.(net.Error) //nolint:errorlint // the error is the connection's own
			if ok && timeout.Timeout() {
				found = append(found, "held open")
			}
			return strings.Join(found, " ")
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		found = append(found, strconv.Itoa(resp.StatusCode))
	}
}

func TestSlowConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	r := serveGitHub(t, "header_timeout: 300ms, body_timeout: 300ms, idle_timeout: 300ms")
	for name, row := range map[string]struct{ send, want string }{
		"nothing at all":            {"", ""},
		"half a head":               {unsignedHead, ""},
		"half a body":               {unsignedHead + "Content-Length: 10\r\n\r\n{", "408"},
		"half a chunk":              {unsignedHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", "408"},
		"nothing after an answer":   {unsignedHead + "Content-Length: 2\r\n\r\n{}", "401"},
		"a second head that stalls": {unsignedHead + "Content-Length: 2\r\n\r\n{}" + unsignedHead, "401"},
		"a head of 16 KiB":          {headOf(16<<10) + "{}", "401"},
		"a head of 16 KiB and one":  {headOf(16<<10+1) + "{}", "431"},
		"a head without end":        {unsignedHead + strings.Repeat("X: 1\r\n", 20<<10), "431"},
		"too large as declared":     {unsignedHead + "Content-Length: 65537\r\n\r\n", "413"},
		"a 100-continue that is refused": {unsignedHead + "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
			"413"},
		"a 100, and then nothing": {unsignedHead + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
			"100 408"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(t)
			go func() { _, _ = io.WriteString(conn, row.send) }() // it may be refused before the end
			if got := statuses(t, conn); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestConnectionsCostABoundedAmount opens 1,000 connections, or EYELET_CONNECTIONS, that wait in
// every possible state, and measures their memory: at most 32 KiB each, both ends in this process.
func TestConnectionsCostABoundedAmount(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("EYELET_LONG=1 runs it: it measures memory")
	}
	const bound = 32 << 10
	n := 1000
	if text := os.Getenv("EYELET_CONNECTIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := serveGitHub(t, fmt.Sprintf("header_timeout: 2m, body_timeout: 2m, idle_timeout: 5m, connections: %d, "+
		"connections_per_address: %[1]d", n+1))
	memory := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := memory()
	answer := make([]byte, 4<<10)
	for i := range n {
		conn := r.dial(t)
		send := [...]string{"", unsignedHead, unsignedHead + "Content-Length: 60000\r\n\r\n{", unsignedHead +
			"Content-Length: 2\r\n\r\n{}"}[i%4]
		if _, err := io.WriteString(conn, send); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%4 == 3 {
			if _, err := conn.Read(answer); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	resp, err := http.Post(r.deliveries+"/webhooks/gh", "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("another client beside them: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	each := (memory() - before) / int64(n)
	t.Logf("%d connections cost %d bytes each", n, each)
	if each > bound {
		t.Errorf("%d connections cost %d bytes each, more than %d", n, each, bound)
	}
}

// TestHTTP2HasSmallBounds reads the settings with which the server begins HTTP/2 (RFC 9113 section
// 6.5.2).
func TestHTTP2HasSmallBounds(t *testing.T) {
	t.Parallel()
	file := configured(t, "http2: true\ntls: {cert_file: cert.pem, key_file: key.pem}\nurl: https://127.0.0.1\n")
	client := trusting(servertest.Issue(t, filepath.Dir(file), 1))
	r := launch(t, "serve", "--config", file)
	c := client.Transport.(*http.Transport).TLSClientConfig.Clone()
	c.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.deliveries, "http://"), c)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, preface); err != nil {
		t.Fatal(err)
	}
	var head [9]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, payload); err != nil || head[3] != 4 {
		t.Fatalf("frame %x: %v", head, err)
	}
	got := map[uint16]uint32{}
	for ; len(payload) >= 6; payload = payload[6:] {
		got[binary.BigEndian.Uint16(payload)] = binary.BigEndian.Uint32(payload[2:])
	}
	const table, streams, frame, list = 1, 3, 5, 6
	if got[streams] != 32 || got[frame] > 16<<10 || got[table] > 4<<10 || got[list] < 16<<10 || got[list] > 17<<10 {
		t.Errorf("settings %v", got)
	}
}
