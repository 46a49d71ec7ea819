package producer

import (
	"cmp"
	"errors"
	"time"
)

// Rate limits the events of a producer (token bucket). The zero value means no limit.
type Rate struct {
	// Events is the average number of events in Per.
	Events int
	// Per is a whole number of seconds. Defaults to one.
	Per time.Duration
	// Burst is the size of the bucket: how many events may arrive at once. Defaults to Events.
	Burst int
}

// WithDefaults returns the rate with defaults in its zero fields. No limit stays no limit.
func (r Rate) WithDefaults() Rate {
	if r.Events != 0 {
		r.Per, r.Burst = cmp.Or(r.Per, time.Second), cmp.Or(r.Burst, r.Events)
	}
	return r
}

// Limits reports whether there is a limit.
func (r Rate) Limits() bool { return r.Events > 0 }

// Check returns the mistake in a rate with its defaults, or nil.
func (r Rate) Check() error {
	switch {
	case r.Events < 0 || r.Per < 0 || r.Burst < 0:
		return errors.New("rate and burst must not be negative")
	case r.Events == 0 && (r.Burst > 0 || r.Per > 0):
		return errors.New("a burst without a rate limits nothing; set the rate")
	case r.Per%time.Second != 0:
		return errors.New("a rate must be per whole seconds")
	}
	return nil
}
