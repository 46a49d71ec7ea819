package main

import (
	"strings"
	"testing"
)

// TestAPauseIsSharedByReceiversOfADatabase pauses at one receiver and looks at the other.
func TestAPauseIsSharedByReceiversOfADatabase(t *testing.T) {
	t.Parallel()
	a, b, fileA, fileB := receivers(t, "handlers: [{producer: gh, type: push, stdout: true, name: h}]\n")
	command(t, 0, "", "handlers", "pause", "h", "--reason", "moving", "--config", fileA)
	if out, _ := command(t, 0, "", "handlers", "--config", fileA); !strings.Contains(out, "moving") {
		t.Errorf("at the same receiver: %s", out)
	}
	const ready = "ready, degraded: handler h is paused: moving\n"
	eventually(t, "the other receiver is degraded", func() bool {
		_, body := get(t, b.operations+"/readyz")
		return body == ready
	})
	if _, body := get(t, b.operations+"/metrics"); !strings.Contains(body, `eyelet_handler_paused{handler="h"} 1`) {
		t.Error("the metric of the other receiver is not 1")
	}
	if status, _ := pushOwn(t, b, "g-1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the event waits", func() bool { return state(t, fileA, "g-1") == "pending 0" })
	command(t, 0, "", "handlers", "resume", "h", "--config", fileB)
	eventually(t, "the event is done", func() bool { return strings.HasPrefix(state(t, fileA, "g-1"), "done") })
	eventually(t, "the first receiver is ready", func() bool {
		_, body := get(t, a.operations+"/readyz")
		return body == "ready\n"
	})
}
