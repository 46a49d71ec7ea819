package echov4

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/internal/echocore"
)

// Verified returns middleware for the routes that receive the events of a producer, which has a
// [receiver.Inline] handler in the receiver's configuration:
//
//	e.POST("/orders", onOrder, echov4.Verified(rx, "shop"))
//
// The function behind it is an ordinary [echo.HandlerFunc] that sees verified events only, each
// once. It reads the event with [EventOf] or c.Bind. What it writes is the response, which is
// stored and sent again to duplicates. See [receiver.Inline] for its limits, and for the requests
// that are made again, which run the middleware of Echo too.
//
// An error of the function becomes a problem instead, as that of an [receiver.Answer] handler
// does: [receiver.Reject] and an [echo.HTTPError] of 400 to 499 refuse the event finally, the
// latter with its status and message; any other error is 503, and the next delivery runs the
// function again. 408, 425 and 429 are not final. As in Echo, a wrapped HTTPError is an error like
// any other. [RenderErrors] passes errors to the HTTPErrorHandler of Echo.
//
// Requests for which the group or Echo has no route get 404 and are not stored. Verified panics as
// [receiver.Receiver.Verified] does.
func Verified(rx *receiver.Receiver, name string) echo.MiddlewareFunc {
	verified, routes := rx.Verified(name), &sync.Map{}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !isRoute(c, routes) { // the response would be stored
				return echo.ErrNotFound
			}
			verified(handlerOf(c, next)).ServeHTTP(c.Response(), c.Request())
			return nil
		}
	}
}

// EventOf returns the event of a request behind [Verified], with its payload decoded. The
// function should return its error, which refuses a payload that does not decode.
func EventOf[T any](c echo.Context) (receiver.Event[T], error) {
	return receiver.EventOf[T](c.Request())
}

// IsRerun reports whether the receiver made the request again ([receiver.IsRerun]). It is the
// Skipper of middleware that asks for credentials, or limits clients.
func IsRerun(c echo.Context) bool { return receiver.IsRerun(c.Request()) }

// isRoute reports whether the request matched a route. Groups with middleware also match requests
// that they answer with 404. known holds the routes that were found, because Echo copies all of
// them for each look.
func isRoute(c echo.Context, known *sync.Map) bool {
	type route struct{ method, path string }
	wanted := route{c.Request().Method, c.Path()}
	if _, ok := known.Load(wanted); ok {
		return true
	}
	all := c.Echo().Routes()
	for _, router := range c.Echo().Routers() { // of hosts
		all = append(all, router.Routes()...)
	}
	found := slices.ContainsFunc(all, func(r *echo.Route) bool { return route{r.Method, r.Path} == wanted })
	if found {
		known.Store(wanted, nil)
	}
	return found
}

// handlerOf runs the function with the context of Echo, whose request and response are those of
// the event meanwhile.
func handlerOf(c echo.Context, next echo.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		echocore.Run(c, r, responseOf(c)(w), func() error { return next(c) }, refusalOf)
	})
}

// responseOf makes responses for a context.
func responseOf(c echo.Context) func(http.ResponseWriter) *echo.Response {
	return func(w http.ResponseWriter) *echo.Response { return echo.NewResponse(w, c.Echo()) }
}

// RenderErrors is middleware between [Verified] and a function whose errors then look as those of
// the program's other routes: the body of the response is what the HTTPErrorHandler of Echo writes.
//
//	e.POST("/orders", onOrder, echov4.Verified(rx, "shop"), echov4.RenderErrors)
//
// An error has the same effect on the event as without it. If the status of the response
// contradicts the error, the problem is sent: if it is final, such as 418, for an error that a
// retry may cure, or 500 for [receiver.Reject].
func RenderErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			echocore.Render(c, responseOf(c), func() { c.Error(err) }, err, refusalOf)
		}
		return nil
	}
}

// refusalOf reads an error of Echo, which must not be wrapped: see Verified.
func refusalOf(err error) (r echocore.Refusal) {
	if refused, ok := err.(*echo.HTTPError); ok { //nolint:errorlint // a wrapped one is not Echo's
		r.Status = refused.Code
		if refused.Message != nil {
			r.Detail = fmt.Sprint(refused.Message)
		}
	}
	return r
}
