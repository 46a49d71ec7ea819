//go:build !race

// Under the race detector a sync.Pool drops entries at random, so memory cannot be measured.

package receiver

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

// refusedMemory returns the memory that a refused delivery of n bytes allocates, the minimum of
// several runs. The body arrives in small pieces, as from a network.
func refusedMemory(t *testing.T, h http.Handler, n int) float64 {
	t.Helper()
	body := bytes.Repeat([]byte("x"), n)
	least := float64(1 << 40)
	for range 5 {
		r := httptest.NewRequest(http.MethodPost, "https://hooks.example/webhooks/github", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("00", 32))
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if w.Code != http.StatusUnauthorized {
			t.Fatal(w.Code)
		}
		least = min(least, float64(after.TotalAlloc-before.TotalAlloc))
	}
	return least
}

// The bound for the whole receiver, with a scheme that allocates nothing, is 64 kB and 4/3 of a
// byte for each byte sent. Package producer measures the schemes. Together the bound is 64 kB
// and 4 bytes. A condition costs a refused delivery nothing.
func TestARefusedDeliveryTakesLittleMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	largest := when(strings.Repeat(`json:a == 1 or `, 127) + `json:b == 1`)
	s := serve(t, preset.GitHub("0123456789abcdef0123"), func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) },
		On("github", "*", do).When(largest))
	for _, n := range []int{0, 1 << 10, 64 << 10, 1 << 20} {
		got := refusedMemory(t, s.rx.HTTP("github"), n)
		if most := 64_000 + 4.0/3*float64(n); got > most {
			t.Errorf("%d bytes: %.0f bytes of memory, at most %.0f", n, got, most)
		}
		t.Logf("%d bytes: %.0f bytes of memory", n, got)
	}
}
