package server

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxiedListener is the port of deliveries behind proxies that send the PROXY protocol, version 1
// or 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt). A request then has the
// address of the client.
type proxiedListener struct{ net.Listener }

// behindProxies returns the connections of ln. Those of the proxies begin with a PROXY header,
// which must arrive within the time, or they are closed. Those of others are left as they are: a
// PROXY header is there neither HTTP nor TLS.
func behindProxies(ln net.Listener, proxies func() []netip.Prefix, within time.Duration) net.Listener {
	return &proxiedListener{&proxyproto.Listener{
		Listener: ln, ReadHeaderTimeout: within,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			peer, err := netip.ParseAddrPort(o.Upstream.String())
			within := func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) }
			if err == nil && slices.ContainsFunc(proxies(), within) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
	}}
}

// Accept implements net.Listener. It does not wait for the header.
func (l *proxiedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if proxied, ok := c.(*proxyproto.Conn); ok {
		return &proxiedConn{proxied}, nil
	}
	return c, err
}

// proxiedConn is a connection of a proxy. Its remote address is that of the client.
type proxiedConn struct{ *proxyproto.Conn }

// LocalAddr is not the one that the header names: it leads to the connection of the
// [receiver.Listener].
func (c *proxiedConn) LocalAddr() net.Addr { return c.Raw().LocalAddr() }

// CloseWrite closes one direction, as net/http does before it closes a connection whose client
// still sends.
func (c *proxiedConn) CloseWrite() error {
	if half, ok := c.Raw().(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
