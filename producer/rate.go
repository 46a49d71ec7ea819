package producer

import (
	"errors"
	"time"
)

// Rate is how many events a producer may send: Events in every Per on the average, and Burst at once. The zero
// value is no limit.
type Rate struct {
	// Events may be accepted in every Per.
	Events int
	// Per is a whole number of seconds. Defaults to one.
	Per time.Duration
	// Burst is how many may come at once, after a pause that was long enough. Defaults to Events.
	Burst int
}

// WithDefaults returns the rate with its zero fields replaced by their defaults; no limit stays none.
func (r Rate) WithDefaults() Rate {
	if r.Events == 0 {
		return r
	}
	if r.Per == 0 {
		r.Per = time.Second
	}
	if r.Burst == 0 {
		r.Burst = r.Events
	}
	return r
}

// Limits reports whether there is a limit.
func (r Rate) Limits() bool { return r.Events > 0 }

// check is after WithDefaults.
func (r Rate) check() error {
	switch {
	case r.Events < 0 || r.Per < 0 || r.Burst < 0:
		return errors.New("rate and burst are not negative")
	case r.Events == 0 && (r.Burst > 0 || r.Per > 0):
		return errors.New("a burst without a rate limits nothing; set the rate")
	case r.Per%time.Second != 0:
		return errors.New("a rate is per whole seconds")
	}
	return nil
}
