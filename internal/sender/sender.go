// Package sender passes the address of a request's client to what verifies the request, which may
// limit what one client causes. It is not r.RemoteAddr behind a proxy.
package sender

import (
	"context"
	"net/netip"
)

type addrKey struct{}

// Context is a context with the address of a client, which may be the zero one. It is part of
// another value, because a delivery must not allocate for it.
type Context struct {
	context.Context
	Addr netip.Addr
}

// Value returns the address, or the value of the context below.
func (c *Context) Value(key any) any {
	if key == (addrKey{}) {
		return c.Addr
	}
	return c.Context.Value(key)
}

// Network returns the network of the client of a context: its IPv4 address, or its IPv6 /64. It is
// the zero prefix if the client is not known.
func Network(ctx context.Context) netip.Prefix {
	addr, _ := ctx.Value(addrKey{}).(netip.Addr)
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}
