package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/receiver"
)

func order(body string) receiver.Event[[]byte] {
	return receiver.Event[[]byte]{
		ID: "k-1", EventID: "e-1", Producer: "shop", Endpoint: "shop", Principal: "shop", Type: "order.paid",
		Attempt:  2,
		Accepted: time.Unix(1782635400, 0), KeyField: `"k-1"`, Body: []byte(body),
		Source: "/shop", Subject: "order 1", Attributes: map[string]string{"source": "/shop", "subject": "order 1",
			"time": "2026-06-28T08:29:59Z"},
		Header: http.Header{
			"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "Signature": {"sig1=:AAAA:"},
			"Signature-Input": {"x"},
			"Connection":      {"close"}, "X-Forwarded-For": {"192.0.2.1"}, "Authorization": {"Bearer s3cret"},
		},
	}
}

// rejected reports whether err ends the task for good.
func rejected(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), receiver.Reject(nil).Error())
}

func shell(t *testing.T, script string) *Exec {
	t.Helper()
	return &Exec{Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir()}
}

func TestAProgramGetsThePayloadAndTheMetadata(t *testing.T) {
	t.Setenv("EYELET_TEST_SECRET", "s3cret")
	t.Setenv("EYELET_TEST_PASSED", "yes")
	s := shell(t, "cat; env | sort")
	s.Pass = []string{"EYELET_TEST_PASSED"}
	r, err := s.Answer(context.Background(), order("{}\n"))
	check(t, err)
	for _, want := range []string{
		"{}\n", "EYELET_EVENT_ID=k-1\n", "EYELET_EVENT_EVENT=e-1\n", "EYELET_EVENT_PRODUCER=shop\n",
		"EYELET_EVENT_TYPE=order.paid\n",
		"EYELET_EVENT_ATTEMPT=2\n", "EYELET_EVENT_KEY=\"k-1\"\n", "EYELET_EVENT_ACCEPTED=2026-06-28T08:30:00Z\n",
		"EYELET_EVENT_CONTENT_TYPE=application/json\n", "EYELET_EVENT_SOURCE=/shop\n", "EYELET_EVENT_SUBJECT=order 1\n",
		"EYELET_EVENT_TIME=2026-06-28T08:29:59Z\n", "EYELET_TEST_PASSED=yes\n",
	} {
		if !strings.Contains(string(r.Body), want) {
			t.Errorf("%q is not in\n%s", want, r.Body)
		}
	}
	if strings.Contains(string(r.Body), "s3cret") {
		t.Errorf("our environment leaks:\n%s", r.Body)
	}
	if r.Status != 200 || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("response is %d %v", r.Status, r.Header)
	}
}

func TestTheOutputOfAProgramHasItsMediaType(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		`{"a":1}`: "application/json", "<?xml version='1.0'?><a/>": "application/xml",
		" <Response><Hangup/></Response>\n": "application/xml",
		"<html><script>":                    "text/plain; charset=utf-8", "tea": "text/plain; charset=utf-8",
	} {
		if got := mediaOf([]byte(out)); got != want {
			t.Errorf("%q is %s, want %s", out, got, want)
		}
	}
}

func TestTheExitCodeOfAProgramIsItsOutcome(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 0":                                    "done",
		"echo gone >&2; exit 65":                    "rejected: gone",
		"printf '\\n\\033[1m x\\n' >&2; exit 65":    "rejected: [1m x",
		"exit 65":                                   "rejected: the event was rejected",
		"echo busy >&2; exit 1":                     "/bin/sh: exit status 1: busy",
		"echo order 7 >&2; echo refused >&2; false": "/bin/sh: exit status 1: order 7\nrefused",
		"echo order 7 >&2; echo no >&2; exit 65":    "rejected: order 7\nno",
		"kill -9 $$":                                "/bin/sh: signal: killed: it wrote no error",
		"cat /dev/zero | head -c 2000000":           "/bin/sh wrote more than 1048576 bytes",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			err := shell(t, script).Deliver(context.Background(), order("{}"))
			got := "done"
			if err != nil {
				got = err.Error()
			}
			if got != want || rejected(err) != strings.HasPrefix(want, "rejected") {
				t.Errorf("outcome is %q, want %q", got, want)
			}
		})
	}
}

// TestTheEndOfAProgramsErrorsIsKept: a program ends with what made it fail.
func TestTheEndOfAProgramsErrorsIsKept(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("x", 98) + "\n"
	script := "for i in $(seq 100); do echo " + lines[:98] + " >&2; done; printf '\\033 the cause\n' >&2; exit 1"
	err := shell(t, script).Deliver(context.Background(), order("{}"))
	const prefix = "/bin/sh: exit status 1: "
	got := strings.TrimPrefix(fmt.Sprint(err), prefix)
	if want := strings.Repeat(lines, 41)[:41*99-1] + "\n  the cause"; got != want[len(want)-len(got):] ||
		len(got) < maxExecStderr-100 || len(got) > maxExecStderr || !strings.HasPrefix(got, lines) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	var w tail
	for range 3 {
		_, _ = w.Write(bytes.Repeat([]byte("y"), maxExecStderr+1))
		_, _ = w.Write([]byte("z"))
	}
	if len(w.kept) != maxExecStderr || w.kept[len(w.kept)-1] != 'z' || w.kept[len(w.kept)-2] != 'y' {
		t.Errorf("%d bytes are kept", len(w.kept))
	}
}

// TestTheErrorsOfAProgramThatSucceedsAreLogged: the last lines, each with its event.
func TestTheErrorsOfAProgramThatSucceedsAreLogged(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"for i in $(seq 22); do echo line $i >&2; done": "line 3",
		"printf 'a\\033[1m\\n' >&2":                     "a [1m",
		"echo out":                                      "",
		"echo in the error >&2; exit 1":                 "",
	} {
		var log bytes.Buffer
		s := shell(t, script)
		s.Log = slog.New(slog.NewJSONHandler(&log, nil)).With("handler", "h")
		_ = s.Deliver(context.Background(), order("{}"))
		var first struct{ Level, Handler, Event, ID, Line string }
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil && want != "" || first.Line != want {
			t.Errorf("%s: %v: %s", script, err, log.String())
		}
		if want != "" && (first.Level != "INFO" || first.Handler != "h" || first.Event != "e-1" || first.ID != "k-1") {
			t.Errorf("%s: %+v", script, first)
		}
		if want == "line 3" && len(lines) != maxExecLines {
			t.Errorf("%d lines", len(lines))
		}
	}
}

func TestAProgramAnswers(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`printf '{"price":7}'`:       `200 application/json {"price":7}`,
		"printf hello":               "200 text/plain; charset=utf-8 hello",
		"true":                       "200  ",
		"echo sold out >&2; exit 65": "refused: sold out",
		"exit 1":                     "/bin/sh: exit status 1: it wrote no error",
	} {
		r, err := shell(t, script).Answer(context.Background(), order("{}"))
		got := fmt.Sprintf("%d %s %s", r.Status, r.Header.Get("Content-Type"), r.Body)
		if r.Refusal != nil {
			got = "refused: " + r.Refusal.Detail
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: answer is %q, want %q", script, got, want)
		}
	}
}

func TestAProgramThatTakesTooLongIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	s := shell(t, "sleep 60 & echo $! > child; wait")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for range 500 {
			if data, err := os.ReadFile(filepath.Join(s.Dir, "child")); err == nil && len(data) > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	err := s.Deliver(ctx, order("{}"))
	if err == nil || rejected(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	data, err := os.ReadFile(filepath.Join(s.Dir, "child"))
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	check(t, err)
	for range 200 {
		if gone(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the child %d outlived its parent", pid)
}

// gone reports whether the process has ended, also as a zombie.
func gone(pid int) bool {
	if process, err := os.FindProcess(pid); err != nil || process.Signal(syscall.Signal(0)) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestAttributesThatNoVariableCanHoldAreRejected(t *testing.T) {
	t.Parallel()
	ev := order("{}")
	ev.Type = "a\x00b"
	if err := shell(t, "true").Deliver(context.Background(), ev); !rejected(err) {
		t.Errorf("error is %v", err)
	}
}

// target answers every request with the same response, and records the last request.
func target(t *testing.T, status int, header http.Header, body string) (*Forward, *http.Request) {
	t.Helper()
	var last http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = *r.Clone(context.Background())
		text, _ := io.ReadAll(r.Body)
		last.Body = io.NopCloser(bytes.NewReader(text))
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return sinkTo(t, srv.URL+"/deploy?x=1"), &last
}

func sinkTo(t *testing.T, address string) *Forward {
	t.Helper()
	made, err := forward.New(forward.Config{Name: "shop", URL: address})
	check(t, err)
	t.Cleanup(func() { _ = made.Close() })
	return &Forward{made}
}

func TestTheOutcomeOfEachStatusOfATarget(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][2]string{ // of a stored event, and of a relayed one
		200: {"done", "200"}, 201: {"done", "201"}, 204: {"done", "204"}, 299: {"done", "299"},
		207: {"rejected", "422"},
		301: {"rejected", "422"}, 307: {"rejected", "422"}, 308: {"rejected", "422"},
		400: {"rejected", "400"}, 401: {"rejected", "422"}, 404: {"rejected", "422"}, 409: {"again", "again"},
		410: {"rejected", "422"},
		413: {"rejected", "413"}, 415: {"rejected", "415"}, 422: {"rejected", "422"}, 451: {"rejected", "451"},
		408: {"again", "again"}, 421: {"again", "again"}, 425: {"again", "again"}, 429: {"again", "again"},
		500: {"again", "again"}, 502: {"again", "again"}, 503: {"again", "again"}, 511: {"again", "again"},
		599: {"again", "again"},
	} {
		header := http.Header{"Location": {"http://127.0.0.1:1/"}}
		s, _ := target(t, status, header, "")
		stored := "done"
		if err := s.Deliver(context.Background(), order("{}")); rejected(err) {
			stored = "rejected"
		} else if err != nil {
			stored = "again"
		}
		header.Set("Retry-After", "77")
		s, _ = target(t, status, header, "") // a target without state
		relayed := "again"
		r, err := s.Answer(context.Background(), order("{}"))
		if err == nil {
			relayed = strconv.Itoa(r.Status)
		}
		if r.Header.Get("Retry-After") != "" {
			t.Errorf("%d: Retry-After went upstream", status)
		}
		if got := [2]string{stored, relayed}; got != want {
			t.Errorf("%d: outcomes are %v, want %v", status, got, want)
		}
	}
}

func TestForwardingSendsNoMoreThanTheTargetNeeds(t *testing.T) {
	t.Parallel()
	s, last := target(t, 200, http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"a=b"}}, `{"ok":true}`)
	ev := order(`{"a":1}`)
	ev.KeyField = "k-1" // without quotes, as it came
	r, err := s.Answer(context.Background(), ev)
	check(t, err)
	body, err := io.ReadAll(last.Body)
	check(t, err)
	if last.Method != http.MethodPost || last.RequestURI != "/deploy?x=1" || string(body) != `{"a":1}` {
		t.Errorf("request is %s %s %s", last.Method, last.RequestURI, body)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Idempotency-Key": {"k-1"}, "User-Agent": {"eyelet"},
		"Via":            {"1.1 eyelet"},
		"Content-Length": {"7"},
	}
	if diff := cmp.Diff(want, last.Header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(receiver.Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"ok":true}`)}, r); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestAProgramThatLeavesAChildBehindIsDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir() // the program left behind ends with it
	s := shell(t, "echo said; (while [ -d "+dir+" ]; do sleep 0.2; done) & exit 0")
	if err := s.Deliver(ctx, order("{}")); err != nil {
		t.Errorf("exit 0 is %v", err)
	}
	r, err := s.Answer(ctx, order("{}"))
	if err != nil || string(r.Body) != "said\n" {
		t.Errorf("answer is %q, %v", r.Body, err)
	}
}

// Its timeout may end while the child still holds its outputs open.
func TestAProgramThatExitedBeforeItsTimeoutIsDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := shell(t, "echo $$ > pid; (while [ -e pid ]; do sleep 0.1; done) & exit 0")
	file := filepath.Join(s.Dir, "pid")
	defer func() { _ = os.Remove(file) }() // the child ends with it
	go func() {
		defer cancel()
		for range 1_000 {
			data, _ := os.ReadFile(file)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && gone(pid) {
				time.Sleep(200 * time.Millisecond) // until its end was noticed
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := s.Deliver(ctx, order("{}")); err != nil {
		t.Errorf("exit 0 is %v", err)
	}
}

// TestARetryAfterIsPassedToTheWorkers: if only the target held it, a worker would wake for
// nothing.
func TestARetryAfterIsPassedToTheWorkers(t *testing.T) {
	t.Parallel()
	s, _ := target(t, 503, http.Header{"Retry-After": {"3600"}}, "")
	ev := order("{}")
	ev.Accepted = time.Now()
	err := s.Deliver(context.Background(), ev)
	if want := receiver.RetryAfter(time.Hour, nil).Error(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
