package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// twoHandlers write a line for each run. The second waits while a file named hold exists.
const twoHandlers = `handlers:
  - {producer: gh, type: push, name: first, lane: header:X-GitHub-Event, exec: [sh, -c, "echo first $(cat) >> runs"]}
  - {producer: gh, type: push, name: second, exec: [sh, -c, "echo second $(cat) >> runs; test ! -f hold || exit 75"]}
  - {producer: gh, type: ping, exec: [sh, -c, "echo ping $(cat) >> runs"]}
`

func TestHandledEventsRunAgain(t *testing.T) {
	t.Parallel()
	file := configured(t, twoHandlers)
	r := launch(t, "serve", "--config", file)
	for n := range 3 {
		push(t, http.DefaultClient, r.deliveries, fmt.Sprint("g-", n), fmt.Sprintf(`{"n":%d}`, n))
	}
	events := counted(t, file, "done", 3)
	slices.Reverse(events)
	before := answerTo(t, r.deliveries, "g-0", `{"n":0}`)
	rerun := func(code int, want string, args ...string) {
		t.Helper()
		out, errs := command(t, code, "", append([]string{"events", "rerun", "--config", file}, args...)...)
		if !strings.Contains(out+errs, want) {
			t.Errorf("%v: no %q in\n%s%s", args, want, out, errs)
		}
	}
	rerun(2, "no terminal to ask", events[0].Event)
	rerun(0, "would rerun 3 events", "--type", "push", "--dry-run")
	if got := len(runs(t, file)); got != 6 {
		t.Fatalf("%d runs before anything was asked for", got)
	}
	rerun(0, `{"event":"`+events[0].Event+`","result":"rerun"}`, events[0].Event, "--handler", "second", "-o", "json",
		"--yes")
	counted(t, file, "done", 3)
	rerun(0, "rerun 3 events", "--type", "push", "--since", "1h", "--handler", "first", "--yes")
	counted(t, file, "done", 3)
	want := []string{`second {"n":0}`, `first {"n":0}`, `first {"n":1}`, `first {"n":2}`}
	if got := runs(t, file)[6:]; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	out, _ := command(t, 0, "", "events", "show", events[0].Event, "--config", file)
	if n := strings.Count(out, "run again by an operator"); n != 2 {
		t.Errorf("%d notes in the history:\n%s", n, out)
	}
	if after := answerTo(t, r.deliveries, "g-0", `{"n":0}`); after != before {
		t.Errorf("the answer has changed from\n%s\nto\n%s", before, after)
	}
}

func TestWhatCannotRunAgainIsRefusedByItsName(t *testing.T) {
	t.Parallel()
	file := configured(t, twoHandlers)
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, bytes.Replace(text, []byte("]}\n"), []byte("], drop_body: true}\n"), 1), 0o600))
	r := launch(t, "serve", "--config", file)
	check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "hold"), nil, 0o600))
	push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
	open := counted(t, file, "pending", 1)[0].Event
	ping := pushRequest(t, r.deliveries, "g-2", `{"n":2}`)
	ping.Header.Set("X-GitHub-Event", "ping")
	res, err := http.DefaultClient.Do(ping)
	check(t, err)
	check(t, res.Body.Close())
	dropped := counted(t, file, "done", 1)[0].Event
	push(t, http.DefaultClient, r.deliveries, "g-3", `{"n":1}`) // the same bytes again
	quarantined := counted(t, file, "dead", 1)[0].Event
	for event, why := range map[string]string{
		open: "event has open tasks", dropped: "payload is no longer kept", quarantined: "only reopening runs it",
		"nobody": "no such event",
	} {
		for _, flag := range []string{"--yes", "--dry-run"} {
			if event == quarantined && flag == "--dry-run" {
				continue
			}
			_, errs := command(t, 1, "", "events", "rerun", event, flag, "--config", file)
			if !strings.Contains(errs, event+": ") || !strings.Contains(errs, why) {
				t.Errorf("%s %s: %s", event, flag, errs)
			}
		}
	}
	out, errs := command(t, 1, "", "events", "rerun", "--all", "--yes", "-o", "json", "--config", file)
	if strings.Count(out, `"refused"`) != 2 || !strings.Contains(errs, "skipped 1 delivery in quarantine") {
		t.Errorf("all of them: %s%s", out, errs)
	}
	command(t, 1, "", "events", "rerun", open, "--handler", "third", "--yes", "--config", file)
	command(t, 0, "", "events", "rerun", open, "--handler", "first", "--yes", "--config", file)
}

func TestAQuestionIsAnsweredInWords(t *testing.T) {
	t.Parallel()
	for answer, yes := range map[string]bool{
		"y\n": true, "Yes\r\n": true, "y": true, "\n": false, "": false, "no\n": false,
	} {
		if err := confirmed(strings.NewReader(answer)); (err == nil) != yes {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
