package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPeersFileIsNotTrusted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	line := func(endpoint, network, credit, until string) string {
		return `{"endpoint":"` + endpoint + `","network":"` + network +
			`","credit":` + credit + `,"until":"` + until + `"}` + "\n"
	}
	good := line("shop", "192.0.2.1/32", "8", until(time.Minute))
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"as it was saved":   {good, 4},
		"too much credit":   {line("shop", "192.0.2.1/32", "1000000", until(time.Minute)), creditMax / 2},
		"negative credit":   {line("shop", "192.0.2.1/32", "-8", until(time.Minute)), 0},
		"its time is over":  {line("shop", "192.0.2.1/32", "8", until(-time.Minute)), 0},
		"a time far ahead":  {line("shop", "192.0.2.1/32", "8", until(48*time.Hour)), 0},
		"another endpoint":  {line("gone", "192.0.2.1/32", "8", until(time.Minute)), 0},
		"another network":   {line("shop", "192.0.2.0/24", "8", until(time.Minute)), 0},
		"cut off behind it": {good + good[:20], 4},
		"not such a file":   {"\x00\x01", 0},
		"empty":             {"", 0},
		"more lines than there": {strings.Repeat(line("shop", "198.51.100.1/32", "8", until(time.Minute)),
			2*maxSaved) + good, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "peers")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := testLimiter(1)
			_ = l.Load(path, func(endpoint string) bool { return endpoint == "shop" },
				time.Now()) // damaged files restore the rest
			if credit := l.from("192.0.2.1").peer.credit; credit != c.want {
				t.Errorf("a credit of %d, want %d", credit, c.want)
			}
		})
	}
}
