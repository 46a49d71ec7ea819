package receiver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// omitErrors is the switch for handlers whose errors quote payloads.
func omitErrors(c *Config) { c.OmitErrors = true }

func TestErrorsOfHandlersAreLoggedWithTheirEvent(t *testing.T) {
	t.Parallel()
	errs := map[string]error{
		"level=WARN msg=\"task runs again\"":        errors.New("database connection refused"),
		"level=ERROR msg=\"task is a dead letter\"": Reject(errors.New("no such customer")),
	}
	for _, omit := range []bool{false, true} {
		for line, err := range errs {
			t.Run(err.Error(), func(t *testing.T) {
				h := On("gh", "*", func(context.Context, Event[[]byte]) error { return err }).Named("h")
				onFixture(t, []Handler{h}, func(c *Config) { c.OmitErrors = omit }, func(f *fixture) {
					event := f.accept("evt-7", "{}")
					time.Sleep(time.Millisecond)
					f.logged(line, " event="+event+" ", " id=evt-7 ", " type=push ", " handler=h ", " attempt=1 ")
					if got := strings.Contains(f.logs.String(), err.Error()); got == omit {
						t.Errorf("omit %v: the error is in the log: %v\n%s", omit, got, f.logs.String())
					}
				})
			})
		}
	}
}

// logged checks that one line of the log has all texts.
func (f *fixture) logged(texts ...string) {
	f.t.Helper()
	missing := func(line string) bool {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				return true
			}
		}
		return false
	}
	for line := range strings.Lines(f.logs.String()) {
		if !missing(line) {
			return
		}
	}
	f.t.Errorf("no line has %q:\n%s", texts, f.logs.String())
}

func TestErrorsOfAnswersAreLoggedWithTheirEvent(t *testing.T) {
	t.Parallel()
	for _, omit := range []bool{false, true} {
		s := serve(t, apiProducer(), func(c *Config) { c.OmitErrors = omit },
			Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
				return Response{}, errors.New("database connection refused")
			}))
		s.send(req{id: "evt-7", typ: "order.paid", body: "{}"})
		log := s.log.String()
		for _, want := range []string{" id=evt-7 ", " type=order.paid ", " handler=", " reason=answer_failed "} {
			if !strings.Contains(log, want) {
				t.Errorf("%q is not in the log: %s", want, log)
			}
		}
		if strings.Contains(log, `error="database connection refused"`) == omit {
			t.Errorf("omit %v: %s", omit, log)
		}
	}
}
