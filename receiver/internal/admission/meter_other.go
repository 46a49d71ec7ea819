//go:build !linux

package admission

import "time"

var processStart = time.Now()

// Without a clock for one thread, the time that passes counts. It is never less than the
// processor time.
func (threadMeter) start() time.Duration { return time.Since(processStart) }

func (threadMeter) stop(since time.Duration) time.Duration { return time.Since(processStart) - since }
