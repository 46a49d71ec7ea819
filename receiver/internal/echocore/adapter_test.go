package echocore_test

import (
	"net/http"
	"testing"

	"github.com/eyelet-dev/eyelet/receiver"
)

// echoContext is what the contexts of all versions of Echo have.
type echoContext interface {
	Request() *http.Request
	Path() string
	Param(name string) string
	Get(key string) any
	Set(key string, value any)
	Bind(to any) error
	JSON(status int, value any) error
	String(status int, text string) error
}

type (
	function   = func(echoContext) error
	middleware = func(function) function
)

// program is an Echo, or a group of it.
type program interface {
	http.Handler
	Group(prefix string, m ...middleware) program
	Use(m ...middleware)
	Route(method, path string, f function, m ...middleware) // method "" is any
	OnError(func(echoContext, error))
	Mount(rx *receiver.Receiver)
}

// adapter is one of the packages that must do the same.
type adapter struct {
	name         string
	echo         func() program
	verified     func(rx *receiver.Receiver, name string) middleware
	handler      func(rx *receiver.Receiver, name string) function
	renderErrors middleware
	event        func(echoContext) (receiver.Event[push], error)
	number       func(echoContext) (receiver.Event[int], error)
	isRerun      func(echoContext) bool
	header       func(echoContext) http.Header
	written      func(echoContext) (status int, size int64)
	recovers     middleware
	requestID    func(generate func() string) middleware
	httpError    func(status int, text string) error
	badRequest   error
	unauthorized error
}

// each runs a test with every adapter.
func each(t *testing.T, test func(*testing.T, adapter)) {
	t.Helper()
	for _, a := range []adapter{v4(), v5()} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}
