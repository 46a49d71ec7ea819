package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Bounds on the file of known peers.
const (
	peersEvery   = time.Hour
	maxSaved     = 1_000   // peers
	maxPeersFile = 1 << 20 // bytes that are read of it
)

// savedPeer is a line of the file: a network that lately sent new events to an endpoint.
type savedPeer struct {
	Endpoint string       `json:"endpoint"`
	Network  netip.Prefix `json:"network"`
	Credit   int          `json:"credit"`
	Until    time.Time    `json:"until"`
}

// known returns the peers with the most credit at now.
func (l *limiter) known(now time.Time) []savedPeer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []savedPeer
	for name, p := range l.peers {
		if p.credit > 0 && now.Before(p.until) {
			all = append(all, savedPeer{name.endpoint, name.network, p.credit, p.until.UTC().Truncate(time.Second)})
		}
	}
	slices.SortFunc(all, func(a, b savedPeer) int { return b.Credit - a.Credit })
	return all[:min(len(all), maxSaved)]
}

// remember makes saved peers known, with half of their credit: what they sent was sent to another run of the program.
func (l *limiter) remember(saved []savedPeer, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range saved[:min(len(saved), maxSaved)] {
		credit := min(s.Credit, creditMax) / 2
		name := peerName{s.Endpoint, s.Network}
		if credit <= 0 || !now.Before(s.Until) || s.Until.After(now.Add(creditLasts)) || l.peers[name] != nil {
			continue
		}
		p := l.newPeer(name)
		p.credit, p.until = credit, s.Until
	}
}

// loadPeers reads the file of known peers. Without it, or with one that cannot be read, every peer is unknown.
func (rx *Receiver) loadPeers() {
	saved, err := readPeers(rx.cfg.PeersFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rx.log.Warn("the known peers were not all read: other senders are unknown", slog.Any("error", err))
	}
	saved = slices.DeleteFunc(saved, func(s savedPeer) bool { return rx.endpoints[s.Endpoint] == nil })
	rx.limiter.remember(saved, time.Now())
}

func readPeers(path string) ([]savedPeer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing is lost with the end of a read
	var saved []savedPeer
	for dec := json.NewDecoder(io.LimitReader(f, maxPeersFile)); ; {
		var s savedPeer
		if err := dec.Decode(&s); err == io.EOF {
			return saved, nil
		} else if err != nil {
			return saved, fmt.Errorf("%s: %w", path, err)
		}
		saved = append(saved, s)
	}
}

// savePeers writes the file of known peers anew, readable for its owner only. A failure costs nothing but the credit of
// senders after the next start.
func (rx *Receiver) savePeers() {
	if rx.cfg.PeersFile == "" {
		return
	}
	if err := writePeers(rx.cfg.PeersFile, rx.limiter.known(time.Now())); err != nil {
		rx.log.Warn("the known peers were not saved", slog.Any("error", err))
	}
}

func writePeers(path string, saved []savedPeer) error {
	var text bytes.Buffer
	for enc, i := json.NewEncoder(&text), 0; i < len(saved); i++ {
		if err := enc.Encode(saved[i]); err != nil {
			return err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // which is 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// keepPeers saves the known peers every hour until the receiver ends.
func (rx *Receiver) keepPeers() {
	ticker := time.NewTicker(peersEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			rx.savePeers()
		case <-rx.ending.Done():
			return
		}
	}
}
