package config

import (
	"slices"
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

// TestAHandlerOfSeveralProducersIsOneForEach, in the order of the list.
func TestAHandlerOfSeveralProducersIsOneForEach(t *testing.T) {
	t.Parallel()
	s, err := Source{}.Parse("e.yaml", []byte("producers:\n"+
		"  gh: {preset: github, secret: 0123456789abcdef}\n  pay: {preset: stripe, secret: whsec_0123456789abcdef}\n"+
		"handlers:\n  - {producer: [pay, gh], type: \"*\", stdout: true, lane: json:id}\n"+
		"  - {producer: gh, type: push, exec: [cat]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Build(t.Context(), BuildOptions{Stdout: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pay/*/stdout", "gh/*/stdout", "gh/push/exec"}
	if !slices.Equal(plan.HandlerNames, want) || len(plan.Handlers) != 3 {
		t.Errorf("%v, want %v", plan.HandlerNames, want)
	}
}
