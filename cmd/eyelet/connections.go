package main

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of connections.
const (
	defaultHead = 16 << 10
	minHead     = 8 << 10
	maxHead     = 1 << 20
	// headSlack is what net/http reads of a head of HTTP/1 beyond http.Server.MaxHeaderBytes.
	headSlack = 4 << 10
	// The operations port has an eighth as many connections as the port of deliveries, within these bounds.
	minOperations, maxOperations = 8, 64
	// fewDescriptors is the limit of open files below which serve warns.
	fewDescriptors = 4096
)

// connections are the limits of the connections of deliveries.
func (c *settings) connections() receiver.Limits {
	l := c.Limits
	return receiver.Limits{
		Connections: l.Connections, PerAddress: l.ConnectionsPerAddress, TrustedProxies: c.TrustedProxies, HeadBytes: int64(l.HeadBudget),
	}.WithDefaults()
}

// operationsConnections are the limits of the operations port beside those of deliveries.
func operationsConnections(deliveries receiver.Limits) receiver.Limits {
	n := min(maxOperations, max(minOperations, deliveries.Connections/8))
	return receiver.Limits{Connections: n, PerAddress: n, HeadBytes: int64(n) * defaultHead}
}

// headerBytes is http.Server.MaxHeaderBytes for the limit of heads.
func (c *settings) headerBytes() int {
	head := int(cmp.Or(c.Limits.Head, defaultHead))
	if c.HTTP2 {
		return head // HTTP/2 has no slack
	}
	return head - headSlack
}

// boundedHTTP2 bounds what a connection of HTTP/2 can make us hold and do at once.
func boundedHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 32, MaxReadFrameSize: 16 << 10, MaxDecoderHeaderTableSize: 4 << 10,
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 256 << 10,
	}
}

// fewDescriptors warns where the process may have few files open.
func (c *settings) fewDescriptors(limit int) (warnings []string) {
	n := c.connections().Connections
	if limit < fewDescriptors {
		warnings = append(warnings, fmt.Sprintf("the process may have %d files open, and so %d connections of producers at once: "+
			"raise the limit to %d or more (ulimit -n, or LimitNOFILE= of systemd)", limit, n, fewDescriptors))
	}
	if n > limit/4*3 {
		warnings = append(warnings, fmt.Sprintf("limits.connections is %d, and the process may have %d files open: the store needs a part of them", n, limit))
	}
	return warnings
}
