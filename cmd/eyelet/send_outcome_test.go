package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/replay"
)

// TestSendAndReplayReportTheOutcome: the exit code separates transient from terminal, and a 207 is
// not an acceptance.
func TestSendAndReplayReportTheOutcome(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	keyed, bare := filepath.Join(dir, "keyed.http"), filepath.Join(dir, "bare.http")
	for name, field := range map[string]string{keyed: "idempotency-key: \"k\"\n", bare: ""} {
		check(t, os.WriteFile(name, []byte("POST /hooks HTTP/1.1\nHost: h.example\n"+field+"Content-Type: "+
			"application/json\n\n{}"), 0o600))
	}
	for _, tt := range []struct {
		file    string
		status  int32
		outcome string
		code    int
	}{
		{keyed, 200, "accepted", 0}, {keyed, 202, "accepted", 0}, {keyed, 204, "accepted", 0},
		{keyed, 207, "terminal", 1},
		{keyed, 307, "terminal", 1}, {keyed, 308, "terminal", 1}, {keyed, 401, "terminal", 1},
		{keyed, 410, "terminal", 1}, {keyed, 422, "terminal", 1},
		{keyed, 409, "transient", 75}, {bare, 409, "terminal", 1},
		{keyed, 408, "transient", 75}, {bare, 425, "transient", 75}, {keyed, 429, "transient", 75},
		{keyed, 500, "transient", 75}, {bare, 503, "transient", 75},
	} {
		status.Store(tt.status)
		for _, args := range [][]string{{"send", tt.file, "--url", srv.URL}, {"replay", tt.file, "--to", srv.URL}} {
			code, out, errs := run(t, args...)
			if want := fmt.Sprintf("%d %s\n", tt.status, tt.outcome); code != tt.code || !strings.HasSuffix(out, want) {
				t.Errorf("%s %s: exit %d, %q %s, want %d and %q", args[0], tt.file, code, out, errs, tt.code, want)
			}
			code, out, _ = run(t, append(args, "-o", "json")...)
			if code != tt.code || objects(t, out)[0]["outcome"] != tt.outcome {
				t.Errorf("%s in JSON: exit %d, %s, want %s", args[0], code, out, tt.outcome)
			}
		}
	}
}

// TestTheWorstOutcomeOfAReplayIsItsExitCode: terminal outweighs transient.
func TestTheWorstOutcomeOfAReplayIsItsExitCode(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := 200
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	var files []string
	for _, status := range []int{200, 503, 422} {
		name := filepath.Join(dir, fmt.Sprint(status)+".http")
		check(t, os.WriteFile(name, fmt.Appendf(nil, "POST /%d HTTP/1.1\nHost: h.example\n\n", status),
			0o600))
		files = append(files, name)
	}
	for n, want := range map[int]int{1: 0, 2: 75, 3: 1} {
		if code, out, errs := run(t, append([]string{"replay", "--to", srv.URL}, files[:n]...)...); code != want {
			t.Errorf("the first %d: exit %d, %s%s, want %d", n, code, out, errs, want)
		}
	}
	if code, _, _ := run(t, "replay", "--to", "http://127.0.0.1:1", files[0]); code != 75 {
		t.Errorf("without an answer: exit %d, want 75", code)
	}
}

func TestARefusedVersionHasAHint(t *testing.T) {
	t.Parallel()
	const wanted = "Received event with API version 2026-07-29.dahlia, but stripe-go expects 2025-08-27.basil."
	for _, tt := range []struct {
		body, answer, code, want string
		status                   int
	}{
		{`{"id":"a","api_version":"2026-07-29.dahlia"}`, wanted, "", "--override api_version=2025-08-27.basil", 400},
		{`{"apiVersion":"v2.1"}`, "no", "", "--override apiVersion=VERSION", 400},
		{`{"api_version":"2026-07-29.dahlia"}`, wanted, "signature_mismatch", "", 401},
		{`{"api_version":"2026-07-29.dahlia"}`, wanted, "", "", 500},
		{`{}`, wanted, "", "", 400},
	} {
		r := replay.Result{Status: tt.status, Body: []byte(tt.answer), Code: tt.code}
		if got := versionHint(&replay.Recording{Body: []byte(tt.body)}, r); !strings.HasSuffix(got, tt.want) ||
			tt.want == "" && got != "" {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
