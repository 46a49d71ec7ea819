// Package echov4 mounts a receiver in a program that uses Echo v4.
//
// Most programs need one function, [Mount]. [Handler] serves a single endpoint under a path of
// your own.
package echov4

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Mount serves all endpoints at /webhooks/NAME and the policy at /policy, for every method.
//
// The receiver compares paths as received: another form gets 404, and nothing is redirected.
// Middleware that rewrites the request target before routing (e.Pre with RemoveTrailingSlash,
// AddTrailingSlash or Rewrite) changes it. Exclude these paths with its Skipper, because
// signatures that cover the URL fail over a rewritten one. Middleware that reads or replaces the
// body must not run here.
func Mount(e *echo.Echo, rx *receiver.Receiver) {
	serve := wrap(rx.Handler())
	for _, path := range []string{"/webhooks/*", "/policy"} {
		e.Any(path, serve)
		e.RouteNotFound(path, serve) // methods unknown to Echo
	}
}

// Handler serves the endpoint of the named producer, at any path. It panics for an unknown name.
// Register it for every method (e.Any): the endpoint itself refuses the wrong ones.
func Handler(rx *receiver.Receiver, name string) echo.HandlerFunc { return wrap(rx.HTTP(name)) }

// wrap passes Echo's writer, which supports deadlines, to the handler.
func wrap(h http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		h.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
