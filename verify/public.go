package verify

import "syscall"

// OnlyPublic is a Control of [net.Dialer] that refuses connections to addresses inside a network: loopback,
// private, link-local, shared, multicast and reserved ones (RFC 6890). It runs after a name was resolved, so
// that a name which resolves to such an address does not get around it.
func OnlyPublic(network, address string, conn syscall.RawConn) error {
	return onlyPublic(network, address, conn)
}
