package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fewFiles runs the binary with a limit of open files.
func fewFiles(t *testing.T, n int) func(*exec.Cmd) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "eyelet") // the test binary runs eyelet under that name
	self, err := os.Executable()
	check(t, err)
	check(t, os.Symlink(self, binary))
	return func(c *exec.Cmd) {
		c.Path = "/bin/sh"
		c.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, n), binary}, c.Args[1:]...)
	}
}

// holdOpen keeps n connections of one byte open, from 40 addresses, until ctx ends, and reopens
// closed ones. It returns once each was open.
func holdOpen(ctx context.Context, t *testing.T, address string, n int) (held *sync.WaitGroup, opened *atomic.Int64) {
	t.Helper()
	var first sync.WaitGroup
	held, opened = &sync.WaitGroup{}, &atomic.Int64{}
	for i := range n {
		first.Add(1)
		held.Go(func() {
			once := sync.OnceFunc(first.Done)
			defer once()
			from := &net.Dialer{Timeout: 10 * time.Second,
				LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i%40))}}
			for ctx.Err() == nil {
				if conn, err := from.DialContext(ctx, "tcp", address); err == nil {
					opened.Add(1)
					stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = conn.Write([]byte("P"))
					once()
					_, _ = conn.Read(make([]byte, 1)) // until it is closed
					stop()
					_ = conn.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	first.Wait()
	return held, opened
}

// TestFewDescriptorsAndIdleConnectionsStopNoDelivery: with 300 open files and more idle connections
// than those allow valid deliveries are accepted while the store opens new files, and the process
// ends with exit 0.
func TestFewDescriptorsAndIdleConnectionsStopNoDelivery(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nstore: badger:./data\nproducers:\n  gh: {preset: github, " +
		"secret: [another-long-secret]}\n"
	check(t, os.WriteFile(config, []byte(text), 0o600))
	c := startServed(t, config, fewFiles(t, 300))
	if log := c.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log,
		"may have 300 files open, and so 75 connections") {
		t.Errorf("no warning: %s", log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	idle, events := 100, 3
	if os.Getenv("EYELET_LONG") != "" {
		idle, events = 1000, 12 // beyond the 64 MiB of a value log
	}
	held, opened := holdOpen(ctx, t, c.listen, idle)

	honest := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer honest.CloseIdleConnections()
	const size = 8 << 20
	retries := 0
	for i := range events {
		body := fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("x", size))
		status, _ := pushBody(honest, c.listen, fmt.Sprint(i), "push", body)
		for tries := 1; status != http.StatusOK && tries < 10; tries++ { // as senders do
			retries++
			status, _ = pushBody(honest, c.listen, fmt.Sprint(i), "push", body)
		}
		if status != http.StatusOK {
			t.Fatalf("delivery %d: status %d; the log: %s", i, status, c.log.String())
		}
	}
	t.Logf("%d MiB accepted with %d retries, beside %d connections opened", events*size>>20, retries, opened.Load())
	cancel()
	held.Wait()
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d: %s", code, c.log.String())
	}
}
