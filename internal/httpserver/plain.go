package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// IsLoopback reports whether only this machine can reach the address.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// RequireTLS refuses deliveries that crossed a network without TLS: on the way to this process,
// unless a trusted proxy sent them, or on the way to that proxy, as its X-Forwarded-Proto reports.
// safe means that the port has TLS, or that only this machine can reach it.
func RequireTLS(next http.Handler, safe bool, proxies []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, err := netip.ParseAddrPort(r.RemoteAddr)
		peer := addr.Addr().Unmap()
		proxy := err == nil && slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(peer) })
		if proxy && forwardedHTTP(r.Header) || !safe && !proxy && (err != nil || !peer.IsLoopback()) {
			w.Header().Set("Connection", "close")
			http.Error(w, "deliveries come over TLS", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forwardedHTTP reports whether the last X-Forwarded-Proto, the trusted proxy's own, is not https.
func forwardedHTTP(h http.Header) bool {
	values := strings.Split(strings.Join(h.Values("X-Forwarded-Proto"), ","), ",")
	last := strings.TrimSpace(values[len(values)-1])
	return last != "" && !strings.EqualFold(last, "https")
}
