// Package freeport gives tests and benchmarks ports for the programs that they start.
//
// A port that the system gives, and that is closed so that another program can listen there, can
// be given again: to the next that asks, and to any connection. The system gives nobody the ports
// of this package; they are of a block that only this process uses.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// block returns the listener at the first port of the block, which marks it as ours.
var block = sync.OnceValue(func() *net.TCPListener {
	for {
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10_000 + rand.N(200)*100})
		if err == nil {
			return ln // until the process ends
		}
	}
})

var taken atomic.Int32

// Port returns a port of 127.0.0.1 that nothing listens on, each of 99 once before the first is
// returned again.
func Port() int {
	for {
		a := *block().Addr().(*net.TCPAddr)
		a.Port += 1 + int(taken.Add(1))%99
		if ln, err := net.ListenTCP("tcp", &a); err == nil && ln.Close() == nil {
			return a.Port
		}
	}
}

// Address returns 127.0.0.1 with a [Port].
func Address() string { return "127.0.0.1:" + strconv.Itoa(Port()) }
