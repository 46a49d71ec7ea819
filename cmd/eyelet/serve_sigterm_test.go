package main

import (
	"bufio"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
)

// served is the binary in a process of its own: the test binary under that name.
type served struct {
	*exec.Cmd
	listen string
	log    *servertest.Buffer
	stderr io.Closer     // the reading end of its standard error
	logged chan struct{} // closed once log is complete
}

var listening = regexp.MustCompile(`msg="accepting deliveries" listen=(\S+)`)

func startServed(t *testing.T, config string, change ...func(*exec.Cmd)) *served {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	c := &served{Cmd: &exec.Cmd{Path: self, Args: []string{"eyelet", "serve", "--config", config}, Env: os.Environ()},
		log: &servertest.Buffer{}, logged: make(chan struct{})}
	for _, f := range change {
		f(c.Cmd)
	}
	stderr, err := c.StderrPipe()
	check(t, err)
	c.stderr = stderr
	check(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // unless the test has waited
	})
	up := make(chan string, 1)
	go func() {
		defer close(c.logged)
		lines := bufio.NewScanner(io.TeeReader(stderr, c.log))
		for lines.Scan() {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				up <- m[1]
			}
		}
	}()
	select {
	case c.listen = <-up:
	case <-time.After(30 * time.Second):
		t.Fatal("the child does not serve: ", c.log.String())
	}
	return c
}

// pushed is the result of a delivery: its status, or 0 without an answer.
func pushTo(client *http.Client, base, id string) (status int, retryAfter string) {
	return pushTyped(client, base, id, "push")
}

func pushTyped(client *http.Client, base, id, event string) (status int, retryAfter string) {
	return pushBody(client, base, id, event, `{"id":"`+id+`"}`)
}

func pushBody(client *http.Client, base, id, event, body string) (status int, retryAfter string) {
	mac := hmac.New(sha256.New, []byte("another-long-secret"))
	mac.Write([]byte(body))
	r, err := http.NewRequest(http.MethodPost, "http://"+base+"/webhooks/gh", strings.NewReader(body))
	if err != nil {
		return 0, ""
	}
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return 0, ""
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// answersSeen counts answers and records what was accepted.
type answersSeen struct {
	mu       sync.Mutex
	accepted []string
	counts   map[int]int
	wrong    []string
	many     chan struct{} // closed when 100 are accepted
}

func (c *answersSeen) add(id string, status int, retryAfter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[status]++
	switch {
	case status == http.StatusOK:
		if c.accepted = append(c.accepted, id); len(c.accepted) == 100 {
			close(c.many)
		}
	case status == 0:
	case status != http.StatusServiceUnavailable || retryAfter == "":
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d, Retry-After %q", id, status, retryAfter))
	}
}

func (c *answersSeen) count(status int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[status]
}

// TestTermDuringLoadDrains: after SIGTERM under load the process ends in time with exit 0, refuses
// further deliveries with a 503 and a Retry-After, and keeps what it accepted.
func TestTermDuringLoadDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: badger:./data\nlimits: {drain: 20s}\nproducers:\n" +
		"  gh: {preset: github, secrets: [another-long-secret]}\nhandlers:\n  - {producer: gh, type: \"*\", exec: " +
		"[/bin/sleep, \"0.3\"]}\n"
	check(t, os.WriteFile(config, []byte(text), 0o600))
	c := startServed(t, config)
	seen := &answersSeen{counts: map[int]int{}, many: make(chan struct{})}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 8 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: worker%2 == 0}, Timeout: 10 * time.Second}
		wg.Go(func() {
			defer client.CloseIdleConnections()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("w%d-%d", worker, i)
				status, after := pushTo(client, c.listen, id)
				seen.add(id, status, after)
				if status == 0 {
					return // it has ended, or it takes no connections any more
				}
			}
		})
	}
	<-seen.many
	check(t, c.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the child ended with %v: %s", err, c.log.String())
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the child does not end")
	}
	close(stop)
	wg.Wait()
	if len(seen.wrong) > 0 || seen.count(http.StatusServiceUnavailable) == 0 {
		t.Errorf("answers %v, wrong ones: %v", seen.counts, seen.wrong)
	}
	states := listEvents(t, config)
	running := 0
	for _, id := range seen.accepted {
		switch states[id] {
		case "":
			t.Errorf("%s was accepted and is gone", id)
		case "running":
			running++
		}
	}
	for id := range states {
		if !slices.Contains(seen.accepted, id) {
			t.Errorf("%s was accepted and not answered", id)
		}
	}
	if running > 0 {
		t.Errorf("%d tasks were interrupted within the time to drain", running)
	}
	t.Logf("answers by status: %v; events in the store: %d", seen.counts, len(states))
}

// TestTermWaitsNoLongerThanItsDeadline: work that does not end in time is left for the next start.
func TestTermWaitsNoLongerThanItsDeadline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: badger:./data\nlimits: {drain: 1s, backoff_base: 1ms, " +
		"handler_timeout: 1h}\nproducers:\n" +
		"  gh: {preset: github, secrets: [another-long-secret]}\nhandlers:\n" +
		"  - {producer: gh, type: \"*\", exec: [sh, -c, \"touch began; while test ! -f go && kill -0 " +
		"$PPID; do sleep 0.1; done; touch ended\"]}\n"
	check(t, os.WriteFile(config, []byte(text), 0o600))
	c := startServed(t, config)
	if status, _ := pushTo(http.DefaultClient, c.listen, "slow"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the handler runs", func() bool { return exists(filepath.Join(dir, "began")) })
	if code := c.end(t, syscall.SIGTERM); code != exitFailed {
		t.Errorf("exit %d although a handler was not done in time", code)
	}
	if log := c.log.String(); !strings.Contains(log, "reason=stopped") {
		t.Errorf("it is not logged: %s", log)
	}
	if got := listEvents(t, config)["slow"]; got != "pending" {
		t.Errorf("the unfinished work is %q", got)
	}
	check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	next := startServed(t, config)
	eventually(t, "the handler runs to its end", func() bool { return exists(filepath.Join(dir, "ended")) })
	next.term(t)
	if got := listEvents(t, config)["slow"]; got != "done" {
		t.Errorf("after the next start it is %q", got)
	}
}

// term sends SIGTERM and expects exit 0, in a time far below that of the handler.
func (c *served) term(t *testing.T) {
	t.Helper()
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Fatalf("the child ended with %d: %s", code, c.log.String())
	}
}

// end sends a signal and returns the exit code; -1 for a process that the signal killed.
func (c *served) end(t *testing.T, sig os.Signal) int {
	t.Helper()
	check(t, c.Process.Signal(sig))
	return c.wait()
}

// wait returns the exit code; -1 for a process that a signal killed, as it does after a minute.
func (c *served) wait() int {
	late := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer late.Stop()
	<-c.logged   // Wait would close the pipe before its last lines are read
	_ = c.Wait() // see ProcessState
	return c.ProcessState.ExitCode()
}

// listEvents returns the states of all events in a store that is not served.
func listEvents(t *testing.T, config string) map[string]string {
	t.Helper()
	out, errs := &strings.Builder{}, &strings.Builder{}
	p := &program{Out: out, Err: errs}
	if code := p.Run(t.Context(), "events", "list", "--all", "-o", "json", "--config", config); code != exitOK {
		t.Fatalf("events list: %s", errs)
	}
	states := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var e struct {
			ID, State string
			VendorID  string `json:"vendor_id"`
		}
		check(t, json.Unmarshal([]byte(line), &e))
		states[cmp.Or(e.VendorID, e.ID)] = e.State
	}
	return states
}
