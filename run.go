package eyelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/receiver"
)

// abandonTime is the time to end after the store has failed: no outcome can be recorded then.
const abandonTime = 300 * time.Millisecond

// Run serves the receiver at an address (HOST:PORT) until ctx ends or the process gets an
// interrupt or SIGTERM, and then closes it: new deliveries are refused (503), running work gets
// 30 seconds, connections end, the store is closed. It returns nil when everything ended in time.
// A second signal ends the process at once; accepted events continue after the next start.
//
// The limits of connections, heads and times are those of `eyelet serve`. Like that, Run refuses
// an address beyond this machine, because deliveries would cross the network without TLS: listen
// on loopback behind a proxy that terminates TLS, or set Config.TrustedProxies to the addresses of
// the proxies, whose requests are then accepted from other machines. For TLS in this process, and
// for routes of your own, use [Serve].
//
// Run also returns, with an error, when the port cannot be used and when the store fails. The
// receiver is closed in every case.
func Run(ctx context.Context, address string, rx *Receiver) error {
	srv, ln, err := rx.listen(ctx, address)
	if err != nil {
		return errors.Join(err, rx.Close()) //nolint:contextcheck // closing takes its own time
	}
	return rx.serve(ctx, srv, ln, func() {
		for _, p := range rx.config.Producers {
			rx.logger().Info("accepting deliveries", "producer", p.Name,
				"at", "http://"+ln.Addr().String()+"/webhooks/"+p.Name)
		}
	})
}

// Serve is Run for a program with an HTTP server and routes of its own. It listens at srv.Addr,
// with TLS if srv.TLSConfig is set, and ends in the same order, the server after the receiver. The
// Handler of srv has all routes; it is bound to the receiver ([receiver.Receiver.Bind]). Limits
// and timeouts of connections are those of srv.
func Serve(ctx context.Context, srv *http.Server, rx *Receiver) error {
	err := rx.Bind(srv.Handler)
	var ln net.Listener
	if err == nil {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", srv.Addr)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("eyelet: %w", err), rx.Close()) //nolint:contextcheck // as in Run
	}
	return rx.serve(ctx, srv, ln, func() { rx.logger().Info("listening", "at", ln.Addr().String()) })
}

// serve serves until ctx ends, a signal comes, or the server or the store ends, and closes all. It
// announces itself when a signal would be noticed.
func (rx *Receiver) serve(ctx context.Context, srv *http.Server, ln net.Listener, announce func()) error {
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer restore()
	announce()
	ended := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			ended <- srv.ServeTLS(ln, "", "")
		} else {
			ended <- srv.Serve(ln)
		}
	}()
	drain := httpserver.DefaultDrain
	var err error
	select {
	case <-ctx.Done():
		rx.logger().Info("stopping: no new deliveries, running work is finished", "within", drain)
	case err = <-ended:
		err = fmt.Errorf("eyelet: the server ended: %w", err)
	case <-rx.failed:
		err = fmt.Errorf("eyelet: the store failed, restart the program: %w", rx.Store.Health(ctx))
		drain = abandonTime
	}
	restore()
	return errors.Join(err, rx.end(srv, drain)) //nolint:contextcheck // ctx has ended; draining has its own time
}

// listen binds the address, unless deliveries would cross a network without TLS.
func (rx *Receiver) listen(ctx context.Context, address string) (*http.Server, net.Listener, error) {
	proxies := rx.config.TrustedProxies
	local := httpserver.IsLoopback(address)
	if !local && len(proxies) == 0 {
		return nil, nil, fmt.Errorf("eyelet: at %q deliveries would come over HTTP without TLS from beyond this "+
			"machine: listen on 127.0.0.1 behind a proxy with TLS, or set Config.TrustedProxies", address)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("eyelet: %w", err)
	}
	srv := httpserver.New(httpserver.RequireTLS(rx.Handler(), local, proxies), httpserver.Options{
		Body:   cmp.Or(rx.config.BodyTimeout, receiver.DefaultBodyTimeout),
		Answer: max(rx.config.AnswerTimeout, receiver.DefaultAnswerTimeout) + max(0, rx.config.InFlightWait),
		Log:    rx.logger(),
	})
	return srv, receiver.Listen(ln, receiver.Limits{TrustedProxies: proxies}), nil
}

// end drains the receiver, which answers 503 meanwhile, and closes connections and store.
func (rx *Receiver) end(srv *http.Server, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	err := rx.Receiver.Shutdown(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("eyelet: not everything ended within %s; accepted events continue after the next start: %w",
			duration.Format(drain), cmp.Or(err, ctx.Err()))
	}
	httpserver.End(srv)
	return errors.Join(err, rx.closeStore())
}

func (rx *Receiver) logger() *slog.Logger {
	if rx.config.Logger == nil {
		return slog.Default()
	}
	return rx.config.Logger
}
