// Package echov4 mounts a receiver in a program that uses Echo v4.
//
// Most programs need one function, [Mount]. [Handler] serves a single endpoint under a path of your own.
package echov4

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Mount serves all endpoints at /webhooks/NAME and the policy at /policy, for every method.
//
// The receiver compares paths as they arrived, so that it answers 404 to another spelling and never redirects.
// Middleware that rewrites the request target before routing (e.Pre with RemoveTrailingSlash, AddTrailingSlash
// or Rewrite) changes what arrives: leave these paths out of it with its Skipper, because signatures that
// cover the URL fail over a rewritten one. Middleware that reads or replaces the body must not run here.
func Mount(e *echo.Echo, rx *receiver.Receiver) {
	serve := wrap(rx.Handler())
	for _, path := range []string{"/webhooks/*", "/policy"} {
		e.Any(path, serve)
		e.RouteNotFound(path, serve) // methods that Echo does not know
	}
}

// Handler serves the endpoint of the named producer, at any path. It panics for an unknown name: that is a
// wiring mistake. Register it for every method (e.Any), so that the endpoint itself answers the wrong ones.
func Handler(rx *receiver.Receiver, name string) echo.HandlerFunc { return wrap(rx.HTTP(name)) }

// wrap gives Echo's writer to the handler, which can set deadlines through it.
func wrap(h http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		h.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
