//go:build unix

package verify

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns the processor time of this process. Unlike wall time it excludes other
// processes.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// costOf returns the least processor time and memory of one call of f, over rounds of calls.
func costOf(rounds, calls int, f func()) (cpu time.Duration, memory uint64) {
	f()
	cpu, memory = time.Hour, 1<<62
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		for range calls {
			f()
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		cpu = min(cpu, took/time.Duration(calls))
		memory = min(memory, (after.TotalAlloc-before.TotalAlloc)/uint64(calls))
	}
	return cpu, memory
}

// hostileHeads are requests of 32 KiB with invalid signatures that cause as much work as they
// can. The key id is "k".
func hostileHeads(t testing.TB) map[string]*http.Request {
	t.Helper()
	head := func(query string, header http.Header, labels int, components string) *http.Request {
		r := newDelivery(t, "")
		r.URL.RawQuery = query
		r.RequestURI = r.URL.RequestURI()
		for name, lines := range header {
			r.Header[name] = lines
		}
		var inputs, signatures []string
		for i := range labels {
			label := string(rune('a' + i))
			inputs = append(inputs,
				fmt.Sprintf(`%s=("@method" "@target-uri" "content-type" "idempotency-key" %s)`+
					`;created=1700000000;keyid="k"`, label, components))
			signatures = append(signatures, label+"=:"+strings.Repeat("AAAA", 21)+"AA==:")
		}
		r.Header["Signature-Input"] = []string{strings.Join(inputs, ", ")}
		r.Header["Signature"] = []string{strings.Join(signatures, ", ")}
		return r
	}
	names := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	fields := func(n, size int) http.Header {
		h := http.Header{}
		for i := range n {
			h[fmt.Sprintf("X%d", i)] = []string{strings.Repeat("x", size)}
		}
		return h
	}
	form := url.Values{}
	for i := range 2_000 {
		form.Set(fmt.Sprint("p", i), "1")
	}
	dictionary := http.Header{"X": {strings.TrimSuffix(names(1_000, "a%d=1,"), ",")}}
	small := http.Header{"X": {strings.TrimSuffix(names(100, "a%d=1;b,"), ",")}}
	return map[string]*http.Request{
		"8 labels of 27 large fields": head("", fields(27, 900), 8, names(27, ` "x%d"`)),
		"one large field first":       head("", http.Header{"X": {strings.Repeat("x", 27_000)}}, 8, `"x"`),
		"large fields of octets":      head("", http.Header{"X": {strings.Repeat("x", 13_000)}}, 8, `"x" "x";bs`),
		"many lines":                  head("", http.Header{"X": make([]string, 6_000)}, 8, `"x"`),
		"a large query":               head(strings.Repeat("a&", 14_000), nil, 8, `"@query"`),
		"9,900 parameters": head(strings.Repeat("a&", 9_900)+"b=1", nil, 8,
			`"@query" "@query-param";name="b"`),
		"2,000 parameters":        head(form.Encode()[:8_000], nil, 8, `"@query-param";name="p7"`),
		"escaped parameters":      head(strings.Repeat("%61=%62&", 1_000), nil, 8, `"@query-param";name="b"`),
		"a large dictionary":      head("", dictionary, 8, `"x";key="a1"`),
		"a small dictionary":      head("", small, 8, `"x";sf`),
		"members of a dictionary": head("", small, 8, `"x";key="a1" "x";key="a2" "x";key="a3" "x";key="a4"`),
		"many fields":             head("", fields(3_000, 3), 8, names(27, ` "x%d"`)),
		"the most labels":         head("", nil, 26, `"@authority"`),
	}
}

// TestHostileHeadsAreCheap bounds what a head of 32 KiB makes the receiver compute and allocate:
// two signature primitives and, apart from them, 100 kB and with EYELET_LONG the processor time of
// 1 MiB of SHA-256 in the same run (1 ms or less on machines with instructions for it).
func TestHostileHeadsAreCheap(t *testing.T) {
	timed := os.Getenv("EYELET_LONG") != "" && !raceDetector // which slows our code but not hashing
	rounds, calls, hashing := 3, 2, time.Duration(0)
	if timed {
		rounds, calls = 7, 20
		megabyte := make([]byte, 1<<20)
		hashing, _ = costOf(rounds, calls, func() { sha256.Sum256(megabyte) })
	}
	for name, r := range hostileHeads(t) {
		for _, id := range []string{"k", "unknown"} {
			primitives := 0
			scheme := &RFC9421{engine: &countingEngine{}, Keys: StaticKeys(Key{ID: id, material: &material{
				alg: Ed25519, check: func(_, _ []byte) bool { primitives++; return false },
			}})}
			cpu, memory := costOf(rounds, calls, func() {
				primitives = 0
				if _, err := scheme.Verify(r, bodyOf("")); err == nil {
					t.Fatal("accepted")
				}
			})
			t.Logf("%s, key %s: %v, %d bytes, %d primitives; 1 MiB of SHA-256: %v",
				name, id, cpu, memory, primitives, hashing)
			if primitives > 2 {
				t.Errorf("%s, key %s: %d primitives", name, id, primitives)
			}
			if memory > 100_000 && !raceDetector { // which empties sync.Pools
				t.Errorf("%s, key %s: %d bytes", name, id, memory)
			}
			if timed && cpu > hashing {
				t.Errorf("%s, key %s: %v, and 1 MiB of SHA-256 took %v", name, id, cpu, hashing)
			}
		}
	}
}
