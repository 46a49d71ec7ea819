package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAFailingTaskBlocksItsLaneUnlessConfigured serves two lanes; the first task of one fails
// until a file exists.
func TestAFailingTaskBlocksItsLaneUnlessConfigured(t *testing.T) {
	t.Parallel()
	const script = `[ "$EYELET_EVENT_VENDOR_ID" != a0 ] || [ -f go ] || exit 1; echo "$EYELET_EVENT_VENDOR_ID" >> runs`
	for setting, holds := range map[string]bool{"": true, ", lane_blocks: true": true, ", lane_blocks: false": false} {
		t.Run("lane: json:lane"+setting, func(t *testing.T) {
			t.Parallel()
			file := configured(t, "limits: {backoff_base: 20ms, backoff_cap: 50ms, attempts: 100000}\nhandlers:\n"+
				"  - {producer: gh, type: push, lane: \"json:lane\", exec: [sh, -c, '"+script+"']"+setting+"}\n")
			r := launch(t, "serve", "--config", file)
			for _, id := range []string{"a0", "a1", "b0", "a2", "b1"} {
				if status, _ := push(t, http.DefaultClient, r.deliveries, id,
					`{"lane":"`+id[:1]+`","id":"`+id+`"}`); status != 200 {
					t.Fatalf("%s: status %d", id, status)
				}
			}
			failing := func() bool {
				attempts, waits := strings.CutPrefix(state(t, file, "a0"), "pending ")
				n, err := strconv.Atoi(attempts)
				return waits && err == nil && n >= 3
			}
			done := func(id string) bool { return state(t, file, id) == "done 1" }
			eventually(t, "the other lane is done", func() bool { return done("b0") && done("b1") })
			eventually(t, "the task fails repeatedly", failing)
			if holds {
				for _, id := range []string{"a1", "a2"} {
					if got := state(t, file, id); got != "pending 0" {
						t.Errorf("%s behind a failing task is %q", id, got)
					}
				}
			} else {
				eventually(t, "the later ones of the lane are done", func() bool { return done("a1") && done("a2") })
			}
			check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "go"), nil, 0o600))
			eventually(t, "all are done", func() bool {
				return strings.HasPrefix(state(t, file, "a0"), "done") && done("a2")
			})
			wantRuns(t, filepath.Join(filepath.Dir(file), "runs"), holds)
		})
	}
}

// wantRuns checks that the successful runs in lane a are in accepted order.
func wantRuns(t *testing.T, file string, holds bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	ran := slices.DeleteFunc(strings.Fields(string(text)), func(id string) bool { return id[0] != 'a' })
	want := []string{"a0", "a1", "a2"}
	if !holds {
		want = []string{"a1", "a2", "a0"}
	}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}
