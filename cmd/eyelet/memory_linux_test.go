package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestAReceiverUnderLoadIsSmall sends 60,000 events of a kibibyte to a server with a store in
// PostgreSQL, on 256 connections. The process never has 150 MB.
func TestAReceiverUnderLoadIsSmall(t *testing.T) {
	if os.Getenv("EYELET_LARGE") == "" {
		t.Skip("it takes a minute: set EYELET_LARGE=1")
	}
	const clients, each, most = 256, 234, 150e6
	file := migrated(t, pgtest.URL(t), "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	server := startServed(t, file, func(c *exec.Cmd) { c.Env = append(c.Env, "EYELET_LOG_LEVEL=info") })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var accepted, busy atomic.Int64
	var wg sync.WaitGroup
	for g := range clients {
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf(`{"id":"%d-%d","text":%q}`, g, i, strings.Repeat("x", 1000))
				switch status, _ := push(t, client, "http://"+server.listen, fmt.Sprint(g, "-", i), body); status {
				case http.StatusOK:
					accepted.Add(1)
				case http.StatusServiceUnavailable, http.StatusTooManyRequests:
					busy.Add(1)
				default:
					t.Errorf("status %d", status)
				}
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var peak int64 // KiB
	if _, rest, found := strings.Cut(string(text), "VmHWM:"); found {
		_, err = fmt.Sscan(rest, &peak)
	}
	t.Logf("%d events were accepted, %d refused; the process had %d KiB at most", accepted.Load(), busy.Load(), peak)
	if err != nil || peak == 0 || peak*1024 > most || accepted.Load() < clients*each*9/10 {
		t.Errorf("%v", err)
	}
}
