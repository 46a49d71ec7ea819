// Package publicnet makes connections to public addresses only, so that a name or URL of another
// party cannot reach into a private network.
package publicnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Bounds of [Fetch].
const (
	timeout  = 5 * time.Second
	maxBytes = 64 << 10
)

// Fetch fetches an https address of a vendor. It follows no redirects, uses no proxy,
// connects only to public addresses (see [Control]), waits at most 5 seconds and reads at
// most 64 KiB. Any status but 200 is an error.
//
// Callers must check that the host is the vendor's. Fetch only makes sure that its DNS
// does not point into a private network.
func Fetch(ctx context.Context, address string) ([]byte, error) {
	return fetchWith(ctx, address, Transport())
}

// Transport returns a transport that uses no proxy, connects only to public addresses (see
// [Control]), and keeps no connection.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: timeout, Control: Control}).DialContext,
		TLSHandshakeTimeout: timeout, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
	}
}

func fetchWith(ctx context.Context, address string, transport http.RoundTripper) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil || req.URL.Scheme != "https" {
		return nil, errors.New("the address is not https")
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		// Unwrapped, because the error of net/http quotes the URL, which may hold a token.
		return nil, fmt.Errorf("fetching from %s: %w", req.URL.Host, errors.Unwrap(err))
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching from %s: status %d", req.URL.Host, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetching from %s: %w", req.URL.Host, err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("fetching from %s: more than %d bytes", req.URL.Host, maxBytes)
	}
	return text, nil
}

// Control is a Control of [net.Dialer] that refuses connections to addresses inside a
// network: loopback, private, link-local, shared, multicast and reserved ones (RFC 6890). It
// runs after name resolution, so a name that resolves to such an address is refused too.
func Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(at.Addr()) {
		return errors.New("the address is inside a network")
	}
	return nil
}

// specialRanges are the special-purpose ranges (RFC 6890) for which netip has no method.
var specialRanges = []string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"240.0.0.0/4", "::/96", "fec0::/10", "3fff::/20", "5f00::/16", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
	"2001::/23", "2001:db8::/32", "2002::/16",
}

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	special := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(ip) }
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() &&
		!slices.ContainsFunc(specialRanges, special)
}
