package main

import (
	"bufio"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
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
