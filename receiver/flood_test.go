package receiver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

// alone runs the test in a process of its own, whose memory it measures, and reports whether this
// is that process.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv("EYELET_ALONE") == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), "EYELET_ALONE="+t.Name())
	out, err := c.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return false
}

// heap returns the memory in use after garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// clientFrom is a client with its own loopback address.
func clientFrom(t *testing.T, addr string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	if conn, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		_ = conn.Close()
	} else if strings.Contains(err.Error(), "cannot assign") {
		t.Skip("this machine has only one loopback address")
	}
	tr := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// flood sends large deliveries with bad signatures from one address until the context ends.
type flood struct {
	site    *site
	sent    atomic.Int64
	refused atomic.Int64 // before verification
}

func (f *flood) run(ctx context.Context, client *http.Client, body string) {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.site.srv.URL+"/webhooks/github",
			strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("X-GitHub-Delivery", "flood")
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
		resp, err := client.Do(r)
		if err != nil {
			continue // refused before the end of the body
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		f.sent.Add(1)
		if resp.StatusCode == http.StatusServiceUnavailable {
			f.refused.Add(1)
		} else if resp.StatusCode != http.StatusUnauthorized {
			f.site.t.Errorf("a delivery of the flood: %d", resp.StatusCode)
		}
	}
}

// hold sends a delivery without its last byte, and waits for the response or the end of the
// context.
func (f *flood) hold(ctx context.Context, length int) {
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}}).DialContext(ctx, "tcp",
		f.site.srv.Listener.Addr().String())
	if err != nil {
		f.site.t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = fmt.Fprintf(conn,
		"POST /webhooks/github HTTP/1.1\r\nHost: h\r\nX-Hub-Signature-256: sha256=%064d\r\n"+
			"Content-Length: %d\r\n\r\n", 0, length)
	part := make([]byte, 64<<10)
	for left := length - 1; left > 0; left -= len(part) {
		if _, err := conn.Write(part[:min(left, len(part))]); err != nil {
			f.refused.Add(1) // answered before the end of the body
			return
		}
	}
	f.sent.Add(1)
	_, _ = conn.Read(part)
}

// Unauthenticated clients hold connections with bodies that lack their last byte, four times the
// budget, and send others with bad signatures without a pause. They do not affect an honest
// producer.
func TestHonestProducerGetsThroughAFlood(t *testing.T) {
	t.Parallel()
	const (
		secret  = "0123456789abcdef0123"
		budget  = 32 << 20
		bound   = 96 << 20 // of heap growth: the budget, and twice that for growing buffers and the flood's own
		honest  = 20
		holders = 64
		floods  = 16
	)
	if !alone(t) {
		return
	}
	p := preset.GitHub(secret)
	s := serve(t, p, func(c *Config) { c.BodyBudget, c.Workers = budget, 2 },
		On("github", "*", func(context.Context, Event[[]byte]) error { return nil }))
	flooder, sender := clientFrom(t, "127.0.0.7"), clientFrom(t, "127.0.0.8")
	push := func(i int) int {
		body := `{"n":` + strconv.Itoa(i) + `,"fill":"` + strings.Repeat("x", 100_000) + `"}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.srv.URL+"/webhooks/github",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"X-GitHub-Delivery": fmt.Sprint("d", i), "X-GitHub-Event": "push",
			"X-Hub-Signature-256": sign(secret, body), "Content-Type": "application/json",
		} {
			r.Header.Set(name, value)
		}
		resp, err := sender.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := push(0); status != 200 {
		t.Fatal(status)
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	held, busy := &flood{site: s}, &flood{site: s}
	for range holders {
		wg.Go(func() { held.hold(ctx, 4<<20) })
	}
	waitFor(t, func() bool { return held.sent.Load()+held.refused.Load() == holders })
	large := strings.Repeat("x", 256<<10)
	for range floods {
		wg.Go(func() { busy.run(ctx, flooder, large) })
	}
	waitFor(t, func() bool { return busy.sent.Load() > floods })
	peak := heap()
	for i := 1; i <= honest; i++ {
		if status := push(i); status != 200 {
			t.Errorf("honest delivery %d: %d", i, status)
		}
		if used := s.rx.limiter.Usage().Bodies; used > budget {
			t.Errorf("%d bytes of the budget are used", used)
		}
	}
	peak = max(peak, heap())
	cancel()
	wg.Wait()
	t.Logf("%d of %d holders hold; %d deliveries of the flood were answered, %d of them 503; heap %d MiB before, "+
		"%d MiB at most",
		held.sent.Load(), holders, busy.sent.Load(), busy.refused.Load(), before>>20, peak>>20)
	if peak > before+bound {
		t.Errorf("the heap grew from %d to %d MiB, more than by %d", before>>20, peak>>20, bound>>20)
	}
	waitFor(t, func() bool { return s.rx.limiter.Usage().Bodies == 0 && s.rx.limiter.Usage().UnknownBodies == 0 })
}
