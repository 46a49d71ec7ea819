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

// Below returns the request as http.StripPrefix does: the URL begins after the prefix of a group.
// rest is the part of the path that "*" matched.
func Below(r *http.Request, path, rest string) *http.Request {
	out := r.WithContext(r.Context())
	out.URL = new(url.URL)
	*out.URL = *r.URL
	out.URL.Path, out.URL.RawPath = strings.TrimSuffix(path, "*")+rest, ""
	return out
}

// maxRendered bounds the body of an error that a program writes itself, in bytes.
const maxRendered = 64 << 10

// Rendered returns what write writes as a response, or none if it is longer than 64 KiB.
func Rendered(write func(http.ResponseWriter)) receiver.Response {
	written := capture.New(maxRendered)
	write(written)
	status, header, body, err := written.Result()
	if err != nil {
		status = 0
	}
	return receiver.Response{Status: status, Header: header, Body: body}
}

// Refusal is an error of Echo.
type Refusal struct {
	Status int // 0 for an error of another kind
	Detail string
}

// Refuse ends the function with its error, and with its own response to it, if there is one. An
// error of Echo whose status no retry changes refuses the event finally.
func Refuse(r *http.Request, own receiver.Response, err error, refused Refusal) {
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
