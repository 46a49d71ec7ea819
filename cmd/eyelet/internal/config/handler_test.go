package config

import (
	"testing"
	"time"
)

// A line of stdout costs less than a timer, and targets of forward have their own.
func TestOnlyExecNeedsATimer(t *testing.T) {
	t.Parallel()
	b := &handlerBuilder{Settings: &Settings{}}
	for name, h := range map[string]*Handler{
		"stdout": {Stdout: true}, "exec": {Exec: []string{"cat"}, Timeout: time.Second},
		"forward": {Forward: "http://h/"},
	} {
		ctx, cancel := b.limit(h)(t.Context())
		defer cancel()
		if _, limited := ctx.Deadline(); limited != (name == "exec") {
			t.Errorf("%s: limited is %t", name, limited)
		}
	}
}
