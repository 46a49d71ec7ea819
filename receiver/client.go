package receiver

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// clientAddr returns the address of the client: the peer, or behind a trusted proxy the last
// address of X-Forwarded-For that is not a trusted proxy. Any client can write the addresses
// before that one. The zero address is unknown.
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

// clientScheme returns "https" or "http": how the client reached this server, or its trusted proxy.
func clientScheme(r *http.Request, trusted []netip.Prefix) string {
	if r.TLS != nil {
		return "https"
	}
	if values := r.Header["X-Forwarded-Proto"]; len(values) > 0 && within(parseAddr(r.RemoteAddr), trusted) {
		last := values[len(values)-1]
		if strings.EqualFold(verify.TrimOWS(last[strings.LastIndexByte(last, ',')+1:]), "https") {
			return "https"
		}
	}
	return "http"
}

func parseAddr(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(s)
	return a.Unmap().WithZone("")
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// MaxVia is the longest name for [Config.Via], in characters.
const MaxVia = 64

// viaContains reports whether a line of Via has an entry of name. An entry is a protocol, white
// space, the name of the receiver, and an optional comment, in which commas do not separate
// entries.
func viaContains(line, name string) bool {
	depth, from := 0, 0
	for i := 0; i <= len(line); i++ {
		switch {
		case i == len(line) || line[i] == ',' && depth == 0:
			words := strings.FieldsFunc(line[from:i], func(r rune) bool { return r == ' ' || r == '\t' })
			if len(words) > 1 && strings.EqualFold(words[1], name) {
				return true
			}
			from = i + 1
		case line[i] == '(':
			depth++
		case line[i] == ')':
			depth = max(0, depth-1)
		case line[i] == '\\' && depth > 0:
			i++
		}
	}
	return false
}
