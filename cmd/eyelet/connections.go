package main

import (
	"net/http"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of connections.
const (
	// The operations port has an eighth as many connections as the port of deliveries, within these bounds.
	minOperations, maxOperations = 8, 64
)

// operationsConnections are the limits of the operations port beside those of deliveries.
func operationsConnections(deliveries receiver.Limits) receiver.Limits {
	n := min(maxOperations, max(minOperations, deliveries.Connections/8))
	return receiver.Limits{Connections: n, PerAddress: n, HeadBytes: int64(n) * config.DefaultHead}
}

// boundedHTTP2 bounds what a connection of HTTP/2 can make us hold and do at once.
func boundedHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 32, MaxReadFrameSize: 16 << 10, MaxDecoderHeaderTableSize: 4 << 10,
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 256 << 10,
	}
}
