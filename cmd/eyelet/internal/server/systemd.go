package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// The messages to systemd (sd_notify). Without it they go nowhere.
const (
	sdStarting = "EXTEND_TIMEOUT_USEC=30000000" // the store is still being opened
	sdAlive    = daemon.SdNotifyWatchdog
)

// notifySystemd sends a message to systemd, if it started this process and waits for messages.
func notifySystemd(message string) {
	_, _ = daemon.SdNotify(false, message) // best effort: the server does not depend on systemd
}

// feedWatchdog reports to systemd that the process lives, twice in WatchdogSec, until ctx ends.
func feedWatchdog(ctx context.Context) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil || limit <= 0 {
		return
	}
	tick := time.NewTicker(limit / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			notifySystemd(sdAlive)
		}
	}
}

// inheritedSockets are the sockets that systemd has bound for this process and that are not used
// yet. A socket serves the setting with its address.
type inheritedSockets []net.Listener

func inheritSockets() (sockets inheritedSockets, err error) {
	all, err := activation.Listeners()
	for _, ln := range all {
		if ln == nil {
			err = errors.Join(err, errors.New("a socket of systemd does not listen for connections"))
			continue
		}
		sockets = append(sockets, ln)
	}
	return sockets, err
}

// take returns the socket with an address; nil if there is none.
func (s *inheritedSockets) take(address string) net.Listener {
	for i, ln := range *s {
		if isAddress(ln.Addr(), address) {
			*s = append((*s)[:i:i], (*s)[i+1:]...)
			return ln
		}
	}
	return nil
}

// unused returns an error if a socket is left, and closes it.
func (s *inheritedSockets) unused() error {
	var errs []error
	for _, ln := range *s {
		errs = append(errs, usage.Errorf("write the same address in ListenStream= and in listen or operations",
			"systemd has bound %s, which neither listen nor operations names", ln.Addr()), ln.Close())
	}
	*s = nil
	return errors.Join(errs...)
}

// isAddress reports whether a socket is what an address of the configuration binds.
func isAddress(a net.Addr, configured string) bool {
	if path, ok := strings.CutPrefix(configured, opsapi.UnixScheme); ok {
		return a.Network() == "unix" && a.String() == path
	}
	bound, err := netip.ParseAddrPort(a.String())
	host, port, splitErr := net.SplitHostPort(configured)
	if err != nil || splitErr != nil || !strings.HasSuffix(a.String(), ":"+port) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "localhost":
		return bound.Addr().IsLoopback()
	case host == "" || err == nil && ip.IsUnspecified():
		return bound.Addr().IsUnspecified()
	}
	return err == nil && ip.Unmap() == bound.Addr().Unmap()
}
