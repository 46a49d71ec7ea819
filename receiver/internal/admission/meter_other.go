//go:build !linux

package admission

import "time"

// Without a clock for one thread, the time that passes counts.
func (threadMeter) start(bool) time.Duration { return passed() }

func (threadMeter) stop(since time.Duration, _ bool) time.Duration { return passed() - since }
