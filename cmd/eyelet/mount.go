package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// mount serves the receiver through Echo. Every other request is the receiver's to refuse, so that an answer is a
// problem of RFC 9457 wherever it comes from: no handler returns an error, so that all of them are of Echo's router.
func mount(rx *receiver.Receiver) http.Handler {
	e := echo.New()
	echov4.Mount(e, rx)
	refuse := rx.Handler()
	e.HTTPErrorHandler = func(_ error, c echo.Context) {
		if !c.Response().Committed {
			refuse.ServeHTTP(c.Response(), c.Request())
		}
	}
	return e
}
