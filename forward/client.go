package forward

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// The bounds of connections to one target.
const (
	dialTimeout  = 5 * time.Second
	tlsTimeout   = 5 * time.Second
	idleTimeout  = time.Minute
	maxIdle      = 16
	maxHead      = 64 << 10 // bytes of a response's head
	maxDiscarded = 8 << 20  // bytes of a response's body that are read at all
)

// A connection of HTTP/2 outlives the attempts that time out on it, so that one which leads nowhere would fail
// every attempt until TCP gives it up. It is asked for a sign of life instead when it has been silent for
// silence, and left when none comes within lifeSign.
const (
	silence  = 10 * time.Second
	lifeSign = 5 * time.Second
)

// newTransport returns what sends to a target. There is no http.Client around it: that would read the Location of
// a redirect, which is ours to judge, and quote it in its errors. Certificates are always validated: there is no switch.
// Content codings are not asked for and not undone.
func newTransport(c Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	proxy := http.ProxyFromEnvironment
	if c.DenyPrivate {
		// The check must see the target's own address, after its name was resolved; behind a proxy it would not.
		dialer.Control = verify.OnlyPublic
		proxy = nil
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		MaxConnsPerHost:        c.MaxConns,
		MaxIdleConnsPerHost:    min(maxIdle, c.MaxConns),
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: lifeSign, WriteByteTimeout: silence},
	}
}
