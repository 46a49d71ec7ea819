// Package library holds the code of docs/library.md.
package library

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// mount serves the endpoints beside the routes of the program.
func mount(mux *http.ServeMux, rx *receiver.Receiver) {
	mux.Handle("/webhooks/", rx.Handler())      // POST /webhooks/github and all the others
	mux.Handle("/policy", rx.Policy())          // what producers may expect
	mux.Handle("/in/github", rx.HTTP("github")) // one endpoint at a path of your own
}

// mountEcho serves them in Echo, behind middleware that must not touch their bodies.
func mountEcho(e *echo.Echo, rx *receiver.Receiver) {
	webhooks := func(c echo.Context) bool { return strings.HasPrefix(c.Request().URL.Path, "/webhooks/") }
	e.Use(middleware.BodyLimitWithConfig(middleware.BodyLimitConfig{Skipper: webhooks, Limit: "64K"}))
	e.Use(middleware.DecompressWithConfig(middleware.DecompressConfig{Skipper: webhooks}))
	echov4.Mount(e, rx)
}

// mountProtected asks the producer for a key too, and shows errors as Echo does.
func mountProtected(e *echo.Echo, rx *receiver.Receiver, onOrder echo.HandlerFunc, valid middleware.KeyAuthValidator) {
	auth := middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{Skipper: echov4.IsRerun, Validator: valid})
	e.POST("/orders", onOrder, auth, echov4.Verified(rx, "warehouse"), echov4.RenderErrors)
}
