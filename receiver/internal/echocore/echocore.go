// Package echocore is what the adapters for the versions of Echo share. It knows no Echo.
package echocore

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/internal/capture"
)

// Paths are those that Mount registers: all endpoints, and the policy.
func Paths() []string { return []string{"/webhooks/*", "/policy"} }

// Serve serves a request of one of the paths. matched is the path of the route, which has the
// prefix of a group before it; the URL then begins after that, as with http.StripPrefix. rest is
// the part of the path that "*" matched.
func Serve(h http.Handler, w http.ResponseWriter, r *http.Request, path, matched, rest string) {
	if matched != path {
		below := r.WithContext(r.Context())
		below.URL = new(url.URL)
		*below.URL = *r.URL
		below.URL.Path, below.URL.RawPath = strings.TrimSuffix(path, "*")+rest, ""
		r = below
	}
	h.ServeHTTP(w, r)
}

// Context is a context of Echo, whose responses are of type W.
type Context[W any] interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Response() W
	SetResponse(w W)
}

// Run runs a function with a context whose request and response are those of the event meanwhile.
func Run[W any](c Context[W], r *http.Request, w W, next func() error, read func(error) Refusal) {
	request, response := c.Request(), c.Response()
	defer func() {
		c.SetRequest(request)
		c.SetResponse(response)
	}()
	c.SetRequest(r)
	c.SetResponse(w)
	if err := next(); err != nil {
		refuse(r, receiver.Response{}, err, read(err))
	}
}

// maxRendered bounds the body of an error that a program writes itself, in bytes.
const maxRendered = 64 << 10

// Render ends the function with an error, and with what show writes to a response of this type as
// the response to it, unless that is longer than 64 KiB.
func Render[W any](c Context[W], response func(http.ResponseWriter) W, show func(), err error,
	read func(error) Refusal) {
	written, outer := capture.New(maxRendered), c.Response()
	c.SetResponse(response(written))
	show()
	c.SetResponse(outer)
	status, header, body, failed := written.Result()
	if failed != nil {
		status = 0
	}
	refuse(c.Request(), receiver.Response{Status: status, Header: header, Body: body}, err, read(err))
}

// Refusal is an error of Echo.
type Refusal struct {
	Status int // 0 for an error of another kind
	Detail string
}

// refuse ends the function with its error, and with its own response to it, if there is one. An
// error of Echo whose status no retry changes refuses the event finally.
func refuse(r *http.Request, own receiver.Response, err error, refused Refusal) {
	switch {
	case !isFinal(refused.Status):
		receiver.Respond(r, own, err)
	case isFinal(own.Status) && len(own.Body) > 0:
		receiver.Respond(r, own, receiver.Reject(err))
	default:
		response := receiver.Response{Status: refused.Status, Refusal: &receiver.Refusal{Detail: refused.Detail}}
		receiver.Respond(r, response, receiver.Reject(err))
	}
}

func isFinal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}
