package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// Bounds on the file of known peers.
const (
	maxSaved     = 1_000   // peers
	maxPeersFile = 1 << 20 // bytes that are read of it
)

// KnownPeer is a line of the file of known peers: a network that recently sent new events to an
// endpoint.
type KnownPeer struct {
	Endpoint string       `json:"endpoint"`
	Network  netip.Prefix `json:"network"`
	Credit   int          `json:"credit"`
	Until    time.Time    `json:"until"`
}

// Known returns the peers with the most credit at now, at most 1,000.
func (l *Limiter) Known(now time.Time) []KnownPeer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []KnownPeer
	for name, p := range l.peers {
		if p.credit > 0 && now.Before(p.until) {
			until := p.until.UTC().Truncate(time.Second)
			all = append(all, KnownPeer{name.endpoint, name.network, p.credit, until})
		}
	}
	slices.SortFunc(all, func(a, b KnownPeer) int { return b.Credit - a.Credit })
	return all[:min(len(all), maxSaved)]
}

// Load restores the known peers of a file, which may be missing, and whatever a damaged file
// still has. They get half of their credit: another run of the program earned it. It drops peers
// of endpoints for which exists returns false.
func (l *Limiter) Load(path string, exists func(endpoint string) bool, now time.Time) error {
	saved, err := readPeers(path)
	saved = slices.DeleteFunc(saved, func(s KnownPeer) bool { return !exists(s.Endpoint) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range saved[:min(len(saved), maxSaved)] {
		name, credit := peerName{s.Endpoint, s.Network}, min(s.Credit, creditMax)/2
		if credit > 0 && now.Before(s.Until) && !s.Until.After(now.Add(creditLasts)) && l.peers[name] == nil {
			p := l.newPeer(name)
			p.credit, p.until = credit, s.Until
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readPeers(path string) ([]KnownPeer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	var saved []KnownPeer
	for dec := json.NewDecoder(io.LimitReader(f, maxPeersFile)); ; {
		var s KnownPeer
		if err := dec.Decode(&s); err == io.EOF {
			return saved, nil
		} else if err != nil {
			return saved, fmt.Errorf("%s: %w", path, err)
		}
		saved = append(saved, s)
	}
}

// Save replaces the file of known peers, readable for its owner only.
func (l *Limiter) Save(path string, now time.Time) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, known := range l.Known(now) {
			if err := enc.Encode(known); err != nil {
				return err
			}
		}
		return nil
	})
}
