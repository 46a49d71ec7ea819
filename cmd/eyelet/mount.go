package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// mount serves the receiver through Echo. Every other path is the receiver's to refuse, so that an answer is a
// problem of RFC 9457 wherever it comes from.
func mount(rx *receiver.Receiver) http.Handler {
	e := echo.New()
	echov4.Mount(e, rx)
	e.RouteNotFound("/*", echo.WrapHandler(rx.Handler()))
	return e
}
