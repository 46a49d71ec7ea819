package receiver

import "time"

// meter tells what a verification costs. start and stop are called by one goroutine, and nothing else between them on the
// same one.
type meter interface {
	start() time.Duration
	// stop returns how much was spent since start returned the given time.
	stop(since time.Duration) time.Duration
}

// threadMeter measures the processor time of the goroutine, as far as the system can tell.
type threadMeter struct{}
