package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// shifted is a clock with an offset.
type shifted time.Duration

func (s shifted) Now() time.Time { return time.Now().Round(0).Add(time.Duration(s)) }

func (s shifted) Alarm(at time.Time) (<-chan struct{}, func()) {
	rings := make(chan struct{})
	timer := time.AfterFunc(at.Sub(s.Now()), func() { close(rings) })
	return rings, func() { timer.Stop() }
}

// leftBy is a configuration whose store holds one event, g-1, with a task that waits for half a
// second. Its last process had a clock with an offset. The task fails until the file go exists.
func leftBy(t *testing.T, off time.Duration) (file string) {
	t.Helper()
	file = configured(t, "limits: {backoff_base: 1ms, backoff_cap: 5ms, attempts: 100000}\n"+
		"handlers: [{producer: gh, type: push, exec: [sh, -c, \"test -f go\"]}]\n")
	r := launch(t, "serve", "--config", file)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 200 {
		t.Fatalf("status %d", status)
	}
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Fatalf("exit %d: %s", code, r.errs)
	}
	s, err := badgerstore.Open(filepath.Join(filepath.Dir(file), "data"), badgerstore.Options{
		Clock: shifted(off), AcceptClock: true, Logger: slog.New(slog.DiscardHandler),
		RecoverWait: func(int) time.Duration { return 0 },
	})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	work, err := s.Take(ctx, dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	check(t, err)
	check(t, s.Finish(ctx, work[0].Lease, dedup.Result{Kind: dedup.ResultRetry, After: time.Second / 2}))
	check(t, s.Close())
	check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "go"), nil, 0o600))
	return file
}

// continues requires the event of leftBy to be known, and its task to be done soon.
func (r *running) continues(t *testing.T, file string) {
	t.Helper()
	res, err := http.DefaultClient.Do(pushRequest(t, r.deliveries, "g-1", "{}"))
	check(t, err)
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the known event is answered %d, %v", res.StatusCode, res.Header)
	}
	eventually(t, "the task that waited is done", func() bool {
		return strings.HasPrefix(state(t, file, "g-1"), "done")
	})
}

func TestAClockAnHourBehindIsRefusedUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	file := leftBy(t, time.Hour)
	var errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Serving: func(string, string) {
		t.Error("it serves")
	}}
	code := p.Run(t.Context(), "serve", "--config", file)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if code != exitUsage || len(lines) != 2 {
		t.Fatalf("exit %d: %q", code, lines)
	}
	for i, want := range [][]string{{"eyelet: ", "data: the clock says ", "the last commit was later", "set the clock"},
		{"  hint: ", "--accept-clock"}} {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q does not say %q", lines[i], part)
			}
		}
	}
	launch(t, "serve", "--config", file, "--accept-clock").continues(t, file)
}

func TestAStoreThatWasOffForDaysContinues(t *testing.T) {
	t.Parallel()
	file := leftBy(t, -100*time.Hour)
	launch(t, "serve", "--config", file).continues(t, file)
}
