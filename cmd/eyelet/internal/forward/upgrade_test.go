package forward

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// TestATargetThatSwitchesProtocolsIsTransient: an unrequested 101 hands the connection to the
// client, and no timeout ends it.
func TestATargetThatSwitchesProtocolsIsTransient(t *testing.T) {
	t.Parallel()
	address := holds101(t)
	target := to(t, address, func(c *Config) { c.Timeout = 5 * time.Second })
	done := make(chan Result, 1)
	go func() { done <- target.Deliver(context.Background(), event("1")) }()
	select {
	case r := <-done:
		want(t, r, Transient, 0)
		if r.Err == nil {
			t.Error("there is no error")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the attempt does not end")
	}
}

// holds101 is a server that switches protocols and then sends nothing until the client leaves.
func holds101(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = conn.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	return "http://" + ln.Addr().String() + "/"
}
