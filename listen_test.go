package eyelet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/receiver"
)

// Otherwise a duplicate that waited for the first delivery gets no response.
func TestRunLetsADuplicateWaitAsLongAsItMay(t *testing.T) {
	t.Parallel()
	written := func(wait time.Duration) time.Duration {
		rx, err := Open(t.TempDir(), GitHub("a long secret"), func(c *receiver.Config) {
			c.Logger, c.InFlightWait = slog.New(slog.DiscardHandler), wait
		})
		if err != nil {
			t.Fatal(err)
		}
		srv, ln, err := rx.listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if err := rx.Close(); err != nil {
			t.Error(err)
		}
		return srv.WriteTimeout
	}
	if none, long := written(-1), written(5*time.Minute); long != none+5*time.Minute {
		t.Errorf("a response may take %s, %s without waiting", long, none)
	}
}
