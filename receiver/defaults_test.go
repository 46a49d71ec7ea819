package receiver

import (
	"runtime"
	"testing"
)

// TestWorkersFollowTheProcessorsThatWeMayUse: in a container those are fewer than the machine
// has. It changes the whole process, and so runs beside no other test.
func TestWorkersFollowTheProcessorsThatWeMayUse(t *testing.T) {
	may := runtime.NumCPU() + 1
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(may))
	if got := withDefaults(Config{}).Workers; got != 4*may {
		t.Errorf("%d workers for %d processors", got, may)
	}
}
