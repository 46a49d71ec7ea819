package echocore_test

import (
	"net/http"

	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

func v4() adapter {
	return adapter{
		name: "v4",
		echo: func() program { e := echo.New(); return v4Program{e, e} },
		verified: func(rx *receiver.Receiver, name string) middleware {
			return fromV4(echov4.Verified(rx, name))
		},
		handler: func(rx *receiver.Receiver, name string) function {
			f := echov4.Handler(rx, name)
			return func(c echoContext) error { return f(c.(echo.Context)) }
		},
		renderErrors: fromV4(echov4.RenderErrors),
		event: func(c echoContext) (receiver.Event[push], error) {
			return echov4.EventOf[push](c.(echo.Context))
		},
		number: func(c echoContext) (receiver.Event[int], error) {
			return echov4.EventOf[int](c.(echo.Context))
		},
		isRerun: func(c echoContext) bool { return echov4.IsRerun(c.(echo.Context)) },
		header:  func(c echoContext) http.Header { return c.(echo.Context).Response().Header() },
		written: func(c echoContext) (int, int64) {
			response := c.(echo.Context).Response()
			return response.Status, response.Size
		},
		recovers: fromV4(echomiddleware.Recover()),
		requestID: func(generate func() string) middleware {
			return fromV4(echomiddleware.RequestIDWithConfig(echomiddleware.RequestIDConfig{Generator: generate}))
		},
		httpError:    func(status int, text string) error { return echo.NewHTTPError(status, text) },
		badRequest:   echo.ErrBadRequest,
		unauthorized: echo.ErrUnauthorized,
	}
}

func fromV4(m echo.MiddlewareFunc) middleware {
	return func(next function) function {
		f := m(func(c echo.Context) error { return next(c) })
		return func(c echoContext) error { return f(c.(echo.Context)) }
	}
}

func toV4(list []middleware) (out []echo.MiddlewareFunc) {
	for _, m := range list {
		out = append(out, func(next echo.HandlerFunc) echo.HandlerFunc {
			f := m(func(c echoContext) error { return next(c.(echo.Context)) })
			return func(c echo.Context) error { return f(c) }
		})
	}
	return out
}

// v4Router is an Echo or a group.
type v4Router interface {
	echov4.Router
	Add(method, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route
	Group(prefix string, m ...echo.MiddlewareFunc) *echo.Group
	Use(m ...echo.MiddlewareFunc)
}

type v4Program struct {
	*echo.Echo
	at v4Router
}

func (p v4Program) Group(prefix string, m ...middleware) program {
	return v4Program{p.Echo, p.at.Group(prefix, toV4(m)...)}
}

func (p v4Program) Use(m ...middleware) { p.at.Use(toV4(m)...) }

func (p v4Program) Route(method, path string, f function, m ...middleware) {
	h := func(c echo.Context) error { return f(c) }
	if method == "" {
		p.at.Any(path, h, toV4(m)...)
		return
	}
	p.at.Add(method, path, h, toV4(m)...)
}

func (p v4Program) OnError(f func(echoContext, error)) {
	p.HTTPErrorHandler = func(err error, c echo.Context) { f(c, err) }
}

func (p v4Program) Mount(rx *receiver.Receiver) { echov4.Mount(p.at, rx) }
