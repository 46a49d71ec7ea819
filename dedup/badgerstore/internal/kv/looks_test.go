package kv

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAPauseIsNotALackOfProgress pauses a process between two looks, for longer than the patience.
func TestAPauseIsNotALackOfProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = int(passPatience / passPoll)
		var looks looks
		n := 0
		for ; looks.waited <= passPatience && n <= 2*all; n++ {
			if n == 2 {
				time.Sleep(2 * passPatience) // all that a paused process sees
			}
			<-looks.next(passPoll)
		}
		if n != all+1 {
			t.Errorf("patience ends after %d looks, want %d", n, all+1)
		}
	})
}
