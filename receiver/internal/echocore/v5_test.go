package echocore_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov5"
)

func v5() adapter {
	return adapter{
		name: "v5",
		echo: func() program { e := echo.New(); return v5Program{e, e} },
		verified: func(rx *receiver.Receiver, name string) middleware {
			return fromV5(echov5.Verified(rx, name))
		},
		handler: func(rx *receiver.Receiver, name string) function {
			f := echov5.Handler(rx, name)
			return func(c echoContext) error { return f(c.(*echo.Context)) }
		},
		renderErrors: fromV5(echov5.RenderErrors),
		event: func(c echoContext) (receiver.Event[push], error) {
			return echov5.EventOf[push](c.(*echo.Context))
		},
		number: func(c echoContext) (receiver.Event[int], error) {
			return echov5.EventOf[int](c.(*echo.Context))
		},
		isRerun: func(c echoContext) bool { return echov5.IsRerun(c.(*echo.Context)) },
		header:  func(c echoContext) http.Header { return c.(*echo.Context).Response().Header() },
		written: func(c echoContext) (int, int64) {
			response, err := echo.UnwrapResponse(c.(*echo.Context).Response())
			if err != nil {
				panic(err)
			}
			return response.Status, response.Size
		},
		recovers: fromV5(echomiddleware.Recover()),
		requestID: func(generate func() string) middleware {
			return fromV5(echomiddleware.RequestIDWithConfig(echomiddleware.RequestIDConfig{Generator: generate}))
		},
		httpError:    func(status int, text string) error { return echo.NewHTTPError(status, text) },
		badRequest:   echo.ErrBadRequest,
		unauthorized: echo.ErrUnauthorized,
	}
}

func fromV5(m echo.MiddlewareFunc) middleware {
	return func(next function) function {
		f := m(func(c *echo.Context) error { return next(c) })
		return func(c echoContext) error { return f(c.(*echo.Context)) }
	}
}

func toV5(list []middleware) (out []echo.MiddlewareFunc) {
	for _, m := range list {
		out = append(out, func(next echo.HandlerFunc) echo.HandlerFunc {
			f := m(func(c echoContext) error { return next(c.(*echo.Context)) })
			return func(c *echo.Context) error { return f(c) }
		})
	}
	return out
}

// v5Router is an Echo or a group.
type v5Router interface {
	echov5.Router
	Add(method, path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) echo.RouteInfo
	Group(prefix string, m ...echo.MiddlewareFunc) *echo.Group
	Use(m ...echo.MiddlewareFunc)
}

type v5Program struct {
	*echo.Echo
	at v5Router
}

func (p v5Program) Group(prefix string, m ...middleware) program {
	return v5Program{p.Echo, p.at.Group(prefix, toV5(m)...)}
}

func (p v5Program) Use(m ...middleware) { p.at.Use(toV5(m)...) }

func (p v5Program) Route(method, path string, f function, m ...middleware) {
	h := func(c *echo.Context) error { return f(c) }
	if method == "" {
		p.at.Any(path, h, toV5(m)...)
		return
	}
	p.at.Add(method, path, h, toV5(m)...)
}

func (p v5Program) OnError(f func(echoContext, error)) {
	p.HTTPErrorHandler = func(c *echo.Context, err error) { f(c, err) }
}

func (p v5Program) Mount(rx *receiver.Receiver) { echov5.Mount(p.at, rx) }

// clientError is an error of another package that Echo v5 would answer with its status.
type clientError struct{}

func (clientError) Error() string   { return "private" }
func (clientError) StatusCode() int { return 404 }

// TestErrorsOfEchoV5AreFinalOnlyIfTheyAreEchos: the predefined ones have no type of their own.
func TestErrorsOfEchoV5AreFinalOnlyIfTheyAreEchos(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err    error
		status int
		shown  string
	}{
		"not found":       {echo.ErrNotFound, 404, "Not Found"},
		"too large":       {echo.ErrStatusRequestEntityTooLarge, 413, "Request Entity Too Large"},
		"unauthorized":    {echo.ErrUnauthorized, 401, "Unauthorized"},
		"with its reason": {echo.ErrForbidden.Wrap(errors.New("private")), 403, "Forbidden"},
		"binding": {echo.NewBindingError("n", []string{"private"}, "no number", errors.New("private")), 400,
			"no number"},
		"problem":     {&echo.ProblemError{Status: 409, Detail: "sold"}, 409, "sold"},
		"timeout":     {echo.ErrRequestTimeout, 503, ""},
		"unavailable": {&echo.ProblemError{Status: 503, Detail: "private"}, 503, ""},
		"of a client": {clientError{}, 503, ""},
		"wrapped":     {fmt.Errorf("private: %w", echo.ErrNotFound), 503, ""},
		"joined":      {errors.Join(echo.ErrNotFound, clientError{}), 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := echo.New()
			e.POST("/", func(*echo.Context) error { return row.err }, echov5.Verified(inline(t, nil), "github"))
			resp, body := deliver(t, serve(t, e), "/", "1", `{}`)
			if resp.StatusCode != row.status || !strings.Contains(body, row.shown) ||
				strings.Contains(body, "private") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
}

// TestDecodedPathsOfGroupsAreOtherPaths: Echo v5 can decode the rest of a path.
func TestDecodedPathsOfGroupsAreOtherPaths(t *testing.T) {
	t.Parallel()
	for _, config := range []echo.RouterConfig{{UnescapePathParamValues: true}, {UseEscapedPathForMatching: true}} {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(config)})
		echov5.Mount(e.Group("/api"), open(t, nil))
		srv := serve(t, e)
		for target, want := range map[string]string{"/api/webhooks/github": "200", "/api/webhooks/%67ithub": "404"} {
			if answer := wire(t, srv, "POST", target, "{}", "2"); !strings.HasPrefix(answer, "HTTP/1.1 "+want) {
				t.Errorf("%+v: %s: %.80q", config, target, answer)
			}
		}
	}
}
