// Package echov5 connects a receiver to a program that uses Echo v5.
//
// [Verified] is middleware that verifies and stores events in front of your own handlers. [Mount]
// serves all endpoints of a receiver whose handlers are declared in its configuration, and
// [Handler] a single one under a path of your own.
package echov5

import (
	"github.com/labstack/echo/v5"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/internal/echocore"
)

// Router is an [echo.Echo] or an [echo.Group].
type Router interface {
	Any(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) echo.RouteInfo
}

// Mount serves all endpoints at /webhooks/NAME and the policy at /policy, for every method. In a
// group, its prefix precedes both. Signatures that cover the URL are verified over all of it.
//
// The receiver compares paths as received: another form gets 404, and nothing is redirected.
// Middleware that rewrites the request target before routing (e.Pre with RemoveTrailingSlash,
// AddTrailingSlash or Rewrite) changes it. Exclude these paths with its Skipper, because
// signatures that cover the URL fail over a rewritten one. Middleware that reads or replaces the
// body must not run here.
func Mount(at Router, rx *receiver.Receiver) {
	handler := rx.Handler()
	for _, path := range echocore.Paths() {
		at.Any(path, func(c *echo.Context) error {
			echocore.Serve(handler, c.Response(), c.Request(), path, c.Path(), c.Param("*"))
			return nil
		})
	}
}

// Handler serves the endpoint of the named producer, at any path. It panics for an unknown name.
// Register it for every method (e.Any): the endpoint itself refuses the wrong ones.
func Handler(rx *receiver.Receiver, name string) echo.HandlerFunc {
	return echo.WrapHandler(rx.HTTP(name))
}
