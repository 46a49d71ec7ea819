package receiver

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// knows reports whether the limiter of a receiver knows the address at its endpoint.
func knows(rx *Receiver, endpoint, addr string) (credit int) {
	p := rx.limiter.arrive(endpoint, netip.MustParseAddr(addr), time.Now())
	defer p.depart()
	return p.peer.credit
}

// accept has the limiter of a receiver see n new events.
func accept(rx *Receiver, endpoint, addr string, n int) {
	for range n {
		p := rx.limiter.arrive(endpoint, netip.MustParseAddr(addr), time.Now())
		p.accepted(time.Now())
		p.depart()
	}
}

func TestKnownPeersSurviveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "peers")
	withFile := func(c *Config) { c.PeersFile = path }
	first := serve(t, apiProducer(), withFile)
	accept(first.rx, "shop", "192.0.2.1", 4)
	accept(first.rx, "shop", "2001:db8::1", 1)
	if err := first.rx.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	second := serve(t, apiProducer(), withFile)
	for addr, want := range map[string]int{
		"192.0.2.1": 4 * creditAccepted / 2, "2001:db8::ffff": creditAccepted / 2, "192.0.2.2": 0, "2001:db8:0:1::1": 0,
	} {
		if credit := knows(second.rx, "shop", addr); credit != want {
			t.Errorf("%s has a credit of %d, want %d", addr, credit, want)
		}
	}
	if err := second.rx.Close(); err != nil {
		t.Fatal(err)
	}
	for range 4 { // credit that is not earned again ends
		rx := serve(t, apiProducer(), withFile).rx
		if err := rx.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if rx := serve(t, apiProducer(), withFile).rx; knows(rx, "shop", "192.0.2.1") != 0 {
		t.Error("the credit never ends")
	}
	if left, _ := filepath.Glob(path + ".*"); left != nil {
		t.Errorf("%v are left", left)
	}
}

func TestAFileOfPeersIsNotTrustedFurtherThanItMayBe(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	line := func(endpoint, network, credit, until string) string {
		return `{"endpoint":"` + endpoint + `","network":"` + network + `","credit":` + credit + `,"until":"` + until + `"}` + "\n"
	}
	good := line("shop", "192.0.2.1/32", "8", until(time.Minute))
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"as it was saved":       {good, 4},
		"too much credit":       {line("shop", "192.0.2.1/32", "1000000", until(time.Minute)), creditMax / 2},
		"negative credit":       {line("shop", "192.0.2.1/32", "-8", until(time.Minute)), 0},
		"its time is over":      {line("shop", "192.0.2.1/32", "8", until(-time.Minute)), 0},
		"a time far ahead":      {line("shop", "192.0.2.1/32", "8", until(48*time.Hour)), 0},
		"another endpoint":      {line("gone", "192.0.2.1/32", "8", until(time.Minute)), 0},
		"another network":       {line("shop", "192.0.2.0/24", "8", until(time.Minute)), 0},
		"cut off behind it":     {good + good[:20], 4},
		"not such a file":       {"\x00\x01", 0},
		"empty":                 {"", 0},
		"more lines than there": {strings.Repeat(line("shop", "198.51.100.1/32", "8", until(time.Minute)), 2*maxSaved) + good, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "peers")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, apiProducer(), func(c *Config) { c.PeersFile = path })
			if credit := knows(s.rx, "shop", "192.0.2.1"); credit != c.want {
				t.Errorf("a credit of %d, want %d", credit, c.want)
			}
		})
	}
}

func TestPeersThatCannotBeSavedAreNoFailure(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), func(c *Config) { c.PeersFile = filepath.Join(t.TempDir(), "no", "such", "folder") })
	accept(s.rx, "shop", "192.0.2.1", 1)
	if err := s.rx.Close(); err != nil {
		t.Error(err)
	}
}
