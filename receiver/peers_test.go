package receiver

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
)

// knows returns the credit of the address at an endpoint.
func knows(rx *Receiver, endpoint, addr string) (credit int) {
	for _, p := range rx.limiter.Known(time.Now()) {
		if p.Endpoint == endpoint && p.Network == sender.Network(netip.MustParseAddr(addr)) {
			return p.Credit
		}
	}
	return 0
}

// accept makes n new events known to the limiter of a receiver.
func accept(rx *Receiver, endpoint, addr string, n int) {
	for range n {
		p := rx.limiter.Admit(endpoint, netip.MustParseAddr(addr), time.Now())
		p.Credit(time.Now())
		p.Release()
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
		"192.0.2.1": 4 * admission.CreditAccepted / 2, "2001:db8::ffff": admission.CreditAccepted / 2, "192.0.2.2": 0,
		"2001:db8:0:1::1": 0,
	} {
		if credit := knows(second.rx, "shop", addr); credit != want {
			t.Errorf("%s has a credit of %d, want %d", addr, credit, want)
		}
	}
	if err := second.rx.Close(); err != nil {
		t.Fatal(err)
	}
	for range 4 { // credit that is not renewed ends
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

func TestFailureToSavePeersIsHarmless(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), func(c *Config) { c.PeersFile = filepath.Join(t.TempDir(), "no", "such", "folder") })
	accept(s.rx, "shop", "192.0.2.1", 1)
	if err := s.rx.Close(); err != nil {
		t.Error(err)
	}
}
