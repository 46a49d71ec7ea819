package receiver

import (
	"runtime"
	"testing"
)

// A container may use fewer processors than the machine has. The test changes the whole process,
// so it is not parallel.
func TestWorkersFollowTheProcessorsThatWeMayUse(t *testing.T) {
	may := runtime.NumCPU() + 1
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(may))
	if got := withDefaults(Config{}).Workers; got != 4*may {
		t.Errorf("%d workers for %d processors", got, may)
	}
}
