// Package sender says which addresses count as one client, and passes the address of a request's
// client to what verifies the request. It is not r.RemoteAddr behind a proxy.
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

// NetworkOf returns the [Network] of a context's client, the zero prefix if it is not known.
func NetworkOf(ctx context.Context) netip.Prefix {
	addr, _ := ctx.Value(addrKey{}).(netip.Addr)
	return Network(addr)
}

// Network returns what counts as one client: an IPv4 address, or an IPv6 /64. It is the zero
// prefix for the zero address.
func Network(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}
