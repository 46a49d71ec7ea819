package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/inspect"
)

// newestHandler writes the version of each event that it handles.
const newestHandler = `handlers:
  - {producer: gh, type: push, name: h, lane: json:lane, newest: json:v, exec: [sh, -c, "echo $EYELET_EVENT_VERSION >> runs"]}
`

// TestFencesOfTheBinary asks the running server first, and then the store.
func TestFencesOfTheBinary(t *testing.T) {
	t.Parallel()
	file := configured(t, newestHandler)
	r := launch(t, "serve", "--config", file)
	sent := 0
	deliver := func(lane string, version int) {
		t.Helper()
		body := fmt.Sprintf(`{"lane":%q,"v":%d,"n":%d}`, lane, version, sent)
		push(t, http.DefaultClient, r.deliveries, fmt.Sprint("g-", sent), body)
		sent++
		counted(t, file, "done", sent)
	}
	deliver("a", 5)
	deliver("a", 4)
	deliver("b", 3)
	if got := runs(t, file); !slices.Equal(got, []string{"5", "3"}) {
		t.Fatalf("ran %q", got)
	}
	run := func(code int, want string, args ...string) {
		t.Helper()
		out, errs := command(t, code, "", append(args, "--config", file)...)
		if !strings.Contains(out+errs, want) {
			t.Errorf("%v: no %q in\n%s%s", args, want, out, errs)
		}
	}
	stale := listed(t, file)[1].Event
	run(0, "stale", "events", "list")
	run(1, "only with force", "events", "rerun", stale, "--yes")
	run(0, "rerun 1 event", "events", "rerun", stale, "--yes", "--force")
	counted(t, file, "done", sent)
	if got := runs(t, file); !slices.Equal(got, []string{"5", "3", "4"}) {
		t.Errorf("ran %q after a forced rerun", got)
	}
	for _, args := range [][]string{
		{"reset"}, {"reset", "x", "--all", "gh"}, {"show", "gh", "x"}, {"gh"}, {"show", "--all", "gh"}, {"--all", "gh"},
	} {
		run(2, "write eyelet fences", append([]string{"fences"}, args...)...)
	}
	run(0, "no fences", "fences", "show", "nobody")
	run(0, "ENDPOINT", "fences")
	run(1, "no fence 0123", "fences", "reset", "0123")
	var fences []inspect.Fence
	out, _ := command(t, 0, "", "fences", "show", "gh", "-o", "json", "--config", file)
	for line := range strings.Lines(out) {
		var f inspect.Fence
		check(t, json.Unmarshal([]byte(line), &f))
		fences = append(fences, f)
	}
	slices.SortFunc(fences, func(a, b inspect.Fence) int { return strings.Compare(a.Version, b.Version) })
	if len(fences) != 2 || fences[1].Version != "5" || fences[1].Handler != "h" || fences[1].Endpoint != "gh" {
		t.Fatalf("fences %+v", fences)
	}
	run(0, "reset 1 fence", "fences", "reset", fences[1].ID)
	deliver("a", 1)
	if got := runs(t, file); got[len(got)-1] != "1" {
		t.Errorf("ran %q after a reset", got)
	}
	r.stop()
	<-r.ended
	run(0, `{"reset":2}`, "fences", "reset", "--all", "gh", "-o", "json")
	run(0, "no fences", "fences")
}
