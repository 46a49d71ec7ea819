package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/replay"
)

// command runs the binary in this process, beside the one that serves, and returns its output.
func command(t *testing.T, code int, stdin string, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	p := &program{In: strings.NewReader(stdin), Out: &o, Err: &e}
	if got := p.Run(context.Background(), args...); got != code {
		t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, code, o.String(), e.String())
	}
	return o.String(), e.String()
}

// listed returns the events that the binary lists.
func listed(t *testing.T, file string, args ...string) []inspect.Event {
	t.Helper()
	out, _ := command(t, 0, "", append([]string{"events", "list", "--all", "-o", "json", "--config", file}, args...)...)
	var events []inspect.Event
	lines := json.NewDecoder(strings.NewReader(out))
	for lines.More() {
		var e inspect.Event
		check(t, lines.Decode(&e))
		events = append(events, e)
	}
	return events
}

// counted waits until a number of events is in the state.
func counted(t *testing.T, file, state string, n int) []inspect.Event {
	t.Helper()
	var events []inspect.Event
	eventually(t, fmt.Sprintf("%d events are %s", n, state), func() bool {
		events = listed(t, file, "--state", state)
		return len(events) == n
	})
	if t.Failed() {
		t.FailNow()
	}
	return events
}

// fallible is a handler that writes a line for each run, and rejects until a file named good
// exists.
const fallible = `handlers:
  - {producer: gh, type: push, exec: [sh, -c, "echo $EYELET_EVENT_ATTEMPT $EYELET_EVENT_VENDOR_ID $EYELET_EVENT_EVENT
      $EYELET_EVENT_ACCEPTED $(cat) >> runs; test -f good || exit 65"]}
`

// runs returns the lines of the handler.
func runs(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "runs"))
	check(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func heal(t *testing.T, file string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "good"), nil, 0o600))
}

func TestAReopenedDeadLetterKeepsItsAnswer(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible)
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
	event := counted(t, file, "dead", 1)[0]
	before := answerTo(t, r.deliveries, "g-1", `{"n":1}`)
	if !strings.Contains(before, "Idempotency-Replayed: true") {
		t.Errorf("the duplicate is answered\n%s", before)
	}
	if out, _ := command(t, 0, "", "events", "reopen", "--dry-run", "--type", "pu*", "--config",
		file); !strings.Contains(out, event.Event) || !strings.HasSuffix(out, "would reopen 1 event\n") {
		t.Errorf("dry run:\n%s", out)
	}
	if got := len(runs(t, file)); got != 1 || listed(t, file)[0].State != "dead" {
		t.Errorf("the dry run changed something: %d runs", got)
	}
	heal(t, file)
	if out, _ := command(t, 0, "", "events", "reopen", event.Event, "--config", file); out != "reopened 1 event\n" {
		t.Errorf("output %q", out)
	}
	done := counted(t, file, "done", 1)[0]
	if done.Attempt != 1 || !done.Accepted.Equal(event.Accepted) || done.Event != event.Event {
		t.Errorf("event is %+v", done)
	}
	want := runs(t, file)[0]
	if got := runs(t, file); len(got) != 2 || got[1] != want {
		t.Errorf("runs are %q, want the same attempt, id, event and time twice", got)
	}
	if !strings.HasPrefix(want, "1 g-1 "+event.Event+" 20") || !strings.HasSuffix(want, ` {"n":1}`) {
		t.Errorf("the handler saw %q", want)
	}
	if after := answerTo(t, r.deliveries, "g-1", `{"n":1}`); after != before {
		t.Errorf("the answer has changed from\n%s\nto\n%s", before, after)
	}
	if got := len(runs(t, file)); got != 2 {
		t.Errorf("a duplicate ran the handler: %d runs", got)
	}
}

// answerTo returns the complete response to a push, without its date.
func answerTo(t *testing.T, base, id, body string) string {
	t.Helper()
	res, err := http.DefaultClient.Do(pushRequest(t, base, id, body))
	check(t, err)
	defer res.Body.Close()
	var b bytes.Buffer
	res.Header.Del("Date")
	check(t, res.Write(&b))
	return b.String()
}

func TestAQuarantinedDeliveryRunsOnceWithItsPayload(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible)
	r := launch(t, "serve", "--config", file)
	heal(t, file)
	push(t, http.DefaultClient, r.deliveries, "g-1", `{"n":1}`)
	counted(t, file, "done", 1)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-2", `{"n":1}`); status != 200 {
		t.Errorf("the repetition is answered %d", status)
	}
	aside := counted(t, file, "dead", 1)[0]
	if aside.QuarantineReason != "same_bytes" || len(runs(t, file)) != 1 {
		t.Fatalf("quarantined: %+v, runs %q", aside, runs(t, file))
	}
	for range 2 {
		out, _ := command(t, 0, "", "events", "reopen", "--quarantined", "--reason", "same_bytes", "-o", "json",
			"--config",
			file)
		if want := `{"event":"` + aside.Event + `","result":"reopened"}` + "\n"; out != want && out != "" {
			t.Errorf("output %q", out)
		}
		counted(t, file, "done", 2)
	}
	got := runs(t, file)
	if len(got) != 2 || !strings.HasSuffix(got[1], ` {"n":1}`) || !strings.Contains(got[1], aside.Event) {
		t.Errorf("runs are %q, want one more with the payload", got)
	}
	if answer := answerTo(t, r.deliveries, "g-1", `{"n":1}`); !strings.Contains(answer, "Idempotency-Replayed: true") {
		t.Errorf("the first delivery's duplicate is answered\n%s", answer)
	}
}

func TestEventsOfALaneAreReopenedInOrder(t *testing.T) {
	t.Parallel()
	file := configured(t, strings.Replace(fallible, "type: push,", "type: push, lane: header:X-GitHub-Event,", 1))
	r := launch(t, "serve", "--config", file)
	for i := range 30 {
		push(t, http.DefaultClient, r.deliveries, fmt.Sprint("g-", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	if events := counted(t, file, "dead", 30); events[0].Tasks[0].Lane == "" {
		t.Fatalf("no lane: %+v", events[0])
	}
	heal(t, file)
	command(t, 0, "", "events", "reopen", "--all", "--config", file)
	counted(t, file, "done", 30)
	for i, line := range runs(t, file) {
		if want := fmt.Sprint("1 g-", i%30, " "); !strings.HasPrefix(line, want) {
			t.Fatalf("run %d is %q, want one of %q", i, line, want)
		}
	}
}

// credentialed is a push with fields that are never kept.
func credentialed(t *testing.T, base string) *http.Request {
	t.Helper()
	r := pushRequest(t, base, "g-1", "{\"a\":\"\u00e9\"}\r\n\n")
	r.Header.Set("Authorization", "Bearer never-kept-1")
	r.Header.Set("Cookie", "session=never-kept-2")
	r.Header.Set("Proxy-Authorization", "Basic never-kept-3")
	r.Header.Set("User-Agent", "GitHub-Hookshot/1")
	return r
}

func TestAnExportIsReplayedOctetForOctetWithoutCredentials(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: push, stdout: true}\n")
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, bytes.Replace(text, []byte("level: error"), []byte("level: debug"), 1),
		0o600))
	r := launch(t, "serve", "--config", file)
	sent := credentialed(t, r.deliveries)
	res, err := http.DefaultClient.Do(sent)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	_ = res.Body.Close()
	event := counted(t, file, "done", 1)[0].Event
	raw, _ := command(t, 0, "", "events", "show", "--raw", event, "--config", file)
	rec, err := httpfile.Parse("x.http", []byte(raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if string(rec.Body) != "{\"a\":\"\u00e9\"}\r\n\n" || rec.Method != http.MethodPost ||
		rec.Target != "/webhooks/gh" ||
		rec.Note("producer") != "gh" || rec.Note("event") != event || rec.Note("id") != "g-1" ||
		rec.Note("type") != "push" {
		t.Errorf("the export is\n%s", raw)
	}
	for _, name := range []string{"X-Hub-Signature-256", "X-Github-Delivery", "User-Agent", "Content-Type"} {
		if rec.Header().Get(name) != sent.Header.Get(name) {
			t.Errorf("field %s is %q", name, rec.Header().Get(name))
		}
	}
	shown, _ := command(t, 0, "", "events", "show", event, "-o", "json", "--config", file)
	dir := filepath.Join(filepath.Dir(file), "out")
	command(t, 0, "", "events", "show", "--dir", dir, "--producer", "gh", "--config", file)
	exported, err := os.ReadFile(filepath.Join(dir, event+".http"))
	if err != nil || string(exported) != raw {
		t.Errorf("the file differs from the output: %v\n%s", err, exported)
	}
	if info, err := os.Stat(filepath.Join(dir, event+".http")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file can be read by others: %v, %v", info, err)
	}
	checkReplays(t, filepath.Join(dir, event+".http"), event, rec)
	r.stop()
	<-r.ended
	for what, text := range map[string]string{"the export": raw, "the event": shown, "the log": r.errs.String(),
		"the output": r.out.String(), "the store": everything(t, filepath.Join(filepath.Dir(file), "data"))} {
		if strings.Contains(text, "never-kept") {
			t.Errorf("%s holds a credential", what)
		}
		if what != "the log" && !strings.Contains(text, "g-1") {
			t.Errorf("%s does not hold the event at all", what)
		}
	}
}

// everything returns the content of all files in a folder. Of the space that stores allocate in
// advance, which is zeros at the end of files, it leaves out all.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(bytes.TrimRight(data, "\x00"))
		return err
	})
	check(t, err)
	return all.String()
}

// checkReplays sends the exported delivery to a server that is not Eyelet.
func checkReplays(t *testing.T, name, event string, rec *httpfile.File) {
	t.Helper()
	got := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r
		bodies <- string(body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer srv.Close()
	for _, args := range [][]string{{}, {"--plain"}} {
		out, _ := command(t, 0, "", append([]string{"replay", name, "--to", srv.URL, "-o", "json"}, args...)...)
		if !strings.Contains(out, `"status":202,"outcome":"accepted","verdict":"accepted"`) {
			t.Errorf("output %s", out)
		}
		r := <-got
		want := rec.Header()
		if len(args) == 0 {
			want.Set(replay.FieldOriginalEvent, event)
			want.Set(replay.FieldOriginalAccepted, rec.Note("accepted"))
			want.Set(replay.FieldOriginalAttempt, "1")
		}
		want.Del("Accept-Encoding")
		r.Header.Del("Accept-Encoding")
		if diff := cmp.Diff(want, r.Header); diff != "" || <-bodies != string(rec.Body) || r.RequestURI != rec.Target {
			t.Errorf("replayed (-want +got):\n%s", diff)
		}
	}
}

func TestTailFollowsDeliveriesAndAttempts(t *testing.T) {
	t.Parallel()
	file := configured(t, "handlers:\n  - {producer: gh, type: push, name: print, stdout: true}\n")
	r := launch(t, "serve", "--config", file)
	var out servertest.Buffer
	ended := make(chan int, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		p := &program{In: strings.NewReader(""), Out: &out, Err: io.Discard}
		ended <- p.Run(ctx, "events", "tail", "--config", file, "-o", "json", "--type", "pu*", "--endpoint", "gh")
	}()
	var text servertest.Buffer
	go func() {
		p := &program{In: strings.NewReader(""), Out: &text, Err: io.Discard}
		ended <- p.Run(ctx, "events", "tail", "--config", file)
	}()
	eventually(t, "the reason of a refusal is followed", func() bool {
		resp, err := http.Post(r.deliveries+"/webhooks/gh", "application/json", strings.NewReader("{}"))
		check(t, err)
		_ = resp.Body.Close()
		return strings.Contains(text.String(), ` delivery gh - 401 signature_missing - -: signature missing: "X-Hub-`)
	})
	n := 0
	eventually(t, "a delivery and an attempt are followed", func() bool { // the tail has joined by then
		n++
		push(t, http.DefaultClient, r.deliveries, fmt.Sprint("g-", n), fmt.Sprintf(`{"n":%d}`, n))
		text := out.String()
		return strings.Contains(text, `"kind":"delivery","endpoint":"gh","type":"push","id":"g-`) &&
			strings.Contains(text, `"code":"accepted"`) &&
			strings.Contains(text, `"handler":"print","attempt":1,"state":"done"`)
	})
	r.stop()
	if code := <-r.ended; code != 0 {
		t.Errorf("the server ended with %d while it was followed", code)
	}
	for range 2 {
		if code := <-ended; code != 0 {
			t.Errorf("tail ended with %d when its server stopped", code)
		}
	}
	if _, errs := command(t, 1, "", "events", "tail", "--config", file); !strings.Contains(errs, "no server runs") {
		t.Errorf("without a server: %q", errs)
	}
}

func TestAStoppedRunReportsItsProgress(t *testing.T) {
	t.Parallel()
	file := configured(t, fallible)
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	event := counted(t, file, "dead", 1)[0].Event
	r.stop()
	<-r.ended
	// A port whose job is cut off.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			fmt.Fprintf(w, `{"selected":{"total":2}}`+"\n"+`{"event":%q}`+"\n", event)
		}
	})}
	defer srv.Close()
	go func() { _ = srv.Serve(ln) }()
	for name, text := range map[string]string{opsapi.TokenFile: "t", opsapi.AddressFile: ln.Addr().String()} {
		check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "data", name), []byte(text), 0o600))
	}
	if _, errs := command(t, 1, "", "events", "reopen", "--all", "--config", file); !strings.Contains(errs,
		"stopped after 1 of 2: the job was cut off") {
		t.Errorf("output %q", errs)
	}
}
