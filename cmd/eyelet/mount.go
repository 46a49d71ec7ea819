package main

import (
	"net/http"

	"github.com/eyelet-dev/eyelet/receiver"
)

// mount returns the handler of the receiver's endpoints and policy.
func mount(rx *receiver.Receiver) http.Handler { return rx.Handler() }
