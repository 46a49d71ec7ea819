package library

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
)

// serve serves until ctx ends. The receiver is closed before the server, so that deliveries get a
// 503 with Retry-After meanwhile, and the store is closed last.
func serve(ctx context.Context, ln net.Listener, h http.Handler, rx *receiver.Receiver, store dedup.Store) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(receiver.Listen(ln, receiver.Limits{})) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, rx.Shutdown(ctx), srv.Shutdown(ctx), store.Close())
}
