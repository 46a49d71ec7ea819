// Package httpserver makes the HTTP server of a port of deliveries, with its limits, and ends it.
// The binary and package eyelet share it.
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The defaults of a port.
const (
	DefaultHead          = 16 << 10 // bytes of one request head
	DefaultHeaderTimeout = 10 * time.Second
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultDrain         = 30 * time.Second // for running work at the end

	// HeadSlack is what net/http reads of an HTTP/1 head beyond http.Server.MaxHeaderBytes.
	HeadSlack = 4 << 10
)

const (
	// answerSlack is the time to write a response, after reading the body and handling the
	// delivery.
	answerSlack = 30 * time.Second
	// connectionsEnd is how long connections may take to close after the last response.
	connectionsEnd = 5 * time.Second
)

// Options are the limits of a server. Zero times and sizes have the defaults above.
type Options struct {
	HeaderBytes                int // http.Server.MaxHeaderBytes
	HeaderTimeout, IdleTimeout time.Duration
	// Body and Answer are how long a body may take to arrive, and how long an answer may take.
	Body, Answer time.Duration
	HTTP2        bool
	TLS          *tls.Config // nil serves plain HTTP
	Log          *slog.Logger
}

// New returns a server that is not started.
func New(h http.Handler, o Options) *http.Server {
	srv := &http.Server{
		// net/http would answer OPTIONS * itself, and wait for its body without a limit.
		Handler: bodyLimit{h, o.Body}, DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: cmp.Or(o.HeaderTimeout, DefaultHeaderTimeout),
		WriteTimeout:      o.Answer + o.Body + answerSlack, IdleTimeout: cmp.Or(o.IdleTimeout, DefaultIdleTimeout),
		MaxHeaderBytes: cmp.Or(o.HeaderBytes, DefaultHead-HeadSlack), TLSConfig: o.TLS,
		ErrorLog: log.New(connectionLog{o.Log}, "", 0), Protocols: new(http.Protocols),
		// Bounds the memory and the streams of one connection.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 32, MaxReadFrameSize: 16 << 10, MaxDecoderHeaderTableSize: 4 << 10,
			MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 256 << 10,
		},
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(o.HTTP2)
	return srv
}

// bodyLimit limits the time in which a body arrives: net/http waits for one that no handler reads,
// before it sends the response. A handler may set another limit. None is left once the body has
// come.
type bodyLimit struct {
	next  http.Handler
	limit time.Duration
}

func (l bodyLimit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && l.limit > 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.limit))
	}
	l.next.ServeHTTP(w, r)
}

// End waits a few seconds until the connections are idle, and closes them. The receiver has been
// shut down before, so what still arrives is answered 503.
func End(servers ...*http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), connectionsEnd)
	defer cancel()
	var wg sync.WaitGroup
	for _, srv := range servers {
		wg.Go(func() {
			if srv.Shutdown(ctx) != nil {
				_ = srv.Close() // a client did not close its connections
			}
		})
	}
	wg.Wait()
}

// connectionLog logs the messages of net/http. Most are about what unauthenticated clients do to
// their connections; a panic is a bug.
type connectionLog struct{ log *slog.Logger }

// Write logs a line, or a panic with its stack.
func (l connectionLog) Write(line []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimRight(string(line), "\n")
	if strings.HasPrefix(text, "http: panic serving ") || strings.HasPrefix(text, "http2: panic serving ") {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}
