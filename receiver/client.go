package receiver

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// clientAddr returns the address of the client: the peer, or, when the peer is a trusted proxy, the last
// address of X-Forwarded-For that is no trusted proxy. What stands before that one, anybody could have
// written. The zero address is of nobody.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer := parseAddr(r.RemoteAddr)
	if !within(peer, trusted) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := parseAddr(verify.TrimOWS(hops[i]))
		if !hop.IsValid() {
			return peer
		}
		if peer = hop; !within(hop, trusted) {
			break
		}
	}
	return peer
}

// clientScheme returns "https" or "http": how the client reached us, or our trusted proxy.
func clientScheme(r *http.Request, trusted []netip.Prefix) string {
	if r.TLS != nil {
		return "https"
	}
	if within(parseAddr(r.RemoteAddr), trusted) {
		said := r.Header.Values("X-Forwarded-Proto")
		if len(said) > 0 {
			last := said[len(said)-1]
			if strings.EqualFold(verify.TrimOWS(last[strings.LastIndexByte(last, ',')+1:]), "https") {
				return "https"
			}
		}
	}
	return "http"
}

func parseAddr(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
