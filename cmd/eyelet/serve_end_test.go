package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
)

// ending writes a configuration with one handler and a short time to drain, and returns its file.
func ending(t *testing.T, handler, drain, more string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: \"off\"\nstore: badger:./data\nlimits: {drain: " + drain +
		", attempts: 1, timeout: 1h}\n" +
		"producers:\n  gh: {preset: github, secret: [another-long-secret]}\nhandlers:\n  - {producer: gh, type: " +
		"\"*\", " + handler + "}\n" + more
	check(t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

// piped makes the standard output of the process a pipe, and returns the reading end.
func piped(t *testing.T) (give func(*exec.Cmd), reader *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return func(c *exec.Cmd) { c.Stdout = w }, r
}

// half sends a delivery without its last byte, and returns the connection.
func half(t *testing.T, c *served) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.listen)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "POST /webhooks/gh HTTP/1.1\r\nHost: here\r\nContent-Type: "+
		"application/json\r\nX-GitHub-Delivery: half\r\n"+
		"X-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=00\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{")
	check(t, err)
	const begun = "HTTP/1.1 100 Continue\r\n\r\n" // is sent when the body is read
	got := make([]byte, len(begun))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != begun {
		t.Fatalf("%q, %v", got, err)
	}
	return conn
}

func stopping(t *testing.T, c *served) {
	t.Helper()
	eventually(t, "it stops", func() bool { return strings.Contains(c.log.String(), "msg=\"stopping") })
}

// TestServeEndsByOneRule: exit 0 if all running work ended within the time to drain, else 1.
func TestServeEndsByOneRule(t *testing.T) {
	t.Parallel()
	const quick = "exec: [/bin/true]"
	for _, tc := range []struct {
		name, handler, drain string
		want                 int
		begin                func(t *testing.T, c *served, dir string)
		finish               bool // a delivery, once it stops
	}{
		{name: "nothing runs", handler: quick, drain: "20s", want: exitOK},
		{name: "a handler ends in time", handler: `exec: [sh, -c, "touch began; sleep 1"]`, drain: "20s", want: exitOK,
			begin: begun},
		{name: "a handler is cancelled", drain: "1s", want: exitFailed,
			handler: `exec: [sh, -c, "touch began; while kill -0 $PPID; do sleep 0.1; done"]`,
			begin:   begun},
		{name: "a handler never returns", handler: "stdout: true", drain: "1s", want: exitFailed,
			begin: func(t *testing.T, c *served, _ string) {
				t.Helper()
				for i := range 2000 { // more than a pipe holds
					pushTo(http.DefaultClient, c.listen, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 100)))
				}
			}},
		{name: "a delivery ends in time", handler: quick, drain: "20s", want: exitOK,
			finish: true},
		{name: "a delivery is in flight", handler: quick, drain: "1s", want: exitFailed,
			begin: func(t *testing.T, c *served, _ string) {
				t.Helper()
				half(t, c)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			config := ending(t, tc.handler, tc.drain, "")
			give, _ := piped(t)
			c := startServed(t, config, give)
			dir := filepath.Dir(config)
			var conn net.Conn
			if tc.finish {
				conn = half(t, c)
			}
			if tc.begin != nil {
				tc.begin(t, c, dir)
			}
			check(t, c.Process.Signal(syscall.SIGTERM))
			if tc.finish {
				stopping(t, c)
				_, _ = io.WriteString(conn, "}")
				if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil ||
					res.StatusCode != http.StatusUnauthorized {
					t.Errorf("the delivery got no answer of its own: %v, %v", res, err)
				} else {
					_ = res.Body.Close()
				}
			}
			if code := c.wait(); code != tc.want {
				t.Errorf("exit %d, want %d: %s", code, tc.want, c.log.String())
			}
			if late := strings.Contains(c.log.String(), "not everything ended"); late != (tc.want == exitFailed) {
				t.Errorf("it is logged: %t; %s", late, c.log.String())
			}
		})
	}
}

// begun delivers an event and waits until its handler runs.
func begun(t *testing.T, c *served, dir string) {
	t.Helper()
	if status, _ := pushTo(http.DefaultClient, c.listen, "slow"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the handler runs", func() bool { return exists(filepath.Join(dir, "began")) })
}

func TestEverySignalToStopDrainsAndTheSecondEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			config := ending(t, `exec: [sh, -c, "touch began; sleep 1"]`, "40s", "")
			c := startServed(t, config)
			begun(t, c, filepath.Dir(config))
			if code := c.end(t, sig); code != exitOK {
				t.Errorf("exit %d: %s", code, c.log.String())
			}
			if got := listEvents(t, config)["slow"]; got != "done" {
				t.Errorf("the running work is %q", got)
			}
		})
		t.Run("second after "+sig.String(), func(t *testing.T) {
			t.Parallel()
			c := startServed(t, ending(t, "exec: [/bin/true]", "1h", ""))
			half(t, c)
			check(t, c.Process.Signal(sig))
			stopping(t, c)
			ended := make(chan int, 1)
			go func() { ended <- c.wait() }()
			for {
				select {
				case code := <-ended:
					if code != -1 {
						t.Errorf("exit %d, want the signal's: %s", code, c.log.String())
					}
					return
				case <-time.After(100 * time.Millisecond):
					_ = c.Process.Signal(sig)
				}
			}
		})
	}
}

// TestAHangupReloads: without a terminal as standard input, SIGHUP reads the configuration again.
func TestAHangupReloads(t *testing.T) {
	t.Parallel()
	config := ending(t, `exec: [sh, -c, "touch began; sleep 1"]`, "40s", "")
	c := startServed(t, config)
	begun(t, c, filepath.Dir(config))
	text, err := os.ReadFile(config)
	check(t, err)
	for _, row := range []struct{ more, want string }{
		{"unknown: 1\n", "the configuration was not reloaded"},
		{"hosts: [elsewhere]\n", "the configuration was reloaded"},
	} {
		check(t, os.WriteFile(config, append(text, row.more...), 0o600))
		check(t, c.Process.Signal(syscall.SIGHUP))
		eventually(t, row.want, func() bool { return strings.Contains(c.log.String(), row.want) })
	}
	if status, _ := pushTo(http.DefaultClient, c.listen, "g-2"); status != http.StatusMisdirectedRequest {
		t.Errorf("with the new configuration: status %d", status)
	}
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d: %s", code, c.log.String())
	}
	if got := listEvents(t, config)["slow"]; got != "done" {
		t.Errorf("the running work is %q", got)
	}
}

// TestAHangupOfATerminalStops: it has the decision, because a test has no terminal to close.
func TestAHangupOfATerminalStops(t *testing.T) {
	t.Parallel()
	reloaded := make(chan bool, 1)
	for _, tc := range []struct {
		name string
		h    *hangups
		want bool
	}{
		{"a service", &hangups{}, true},
		{"standard input is a terminal", &hangups{input: true}, false},
		{"the controlling terminal is gone", &hangups{controlled: !hasTerminal()}, hasTerminal()},
	} {
		if tc.h.reload() {
			t.Errorf("%s: reloaded without a server", tc.name)
		}
		tc.h.set(func() { reloaded <- true })
		if got := tc.h.reload(); got != tc.want {
			t.Errorf("%s: reload is %t", tc.name, got)
		} else if got {
			<-reloaded
		}
	}
}

// TestAHangupThatNohupIgnoresIsIgnored: serve continues.
func TestAHangupThatNohupIgnoresIsIgnored(t *testing.T) {
	t.Parallel()
	binary := realProgram(t)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("skipped: no shell here")
	}
	c := startServed(t, ending(t, "exec: [/bin/true]", "20s", ""), func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, binary}, c.Args[1:]...)
		c.Path = shell
	})
	for i := range 3 {
		check(t, c.Process.Signal(syscall.SIGHUP))
		if status, _ := pushTo(http.DefaultClient, c.listen, fmt.Sprint("id-", i)); status != http.StatusOK {
			t.Fatalf("status %d after a hangup: %s", status, c.log.String())
		}
	}
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d: %s", code, c.log.String())
	}
}

// TestAClosedStandardOutputEndsServeInOrder: an event that could not be printed waits for the next
// start with its only attempt, and other running work is finished.
func TestAClosedStandardOutputEndsServeInOrder(t *testing.T) {
	t.Parallel()
	config := ending(t, "stdout: true", "20s", "  - {producer: gh, type: push, exec: [sh, -c, \"touch began; sleep "+
		"1; touch finished\"]}\n")
	text, err := os.ReadFile(config)
	check(t, err)
	check(t, os.WriteFile(config, []byte(strings.Replace(string(text), `"*"`, "ping", 1)), 0o600))
	give, reader := piped(t)
	c := startServed(t, config, give)
	check(t, reader.Close())
	begun(t, c, filepath.Dir(config))
	if status, _ := pushTyped(http.DefaultClient, c.listen, "unread", "ping"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if code := c.wait(); code != exitFailed {
		t.Errorf("exit %d, want %d: %s", code, exitFailed, c.log.String())
	}
	if !strings.Contains(c.log.String(), "eyelet: standard output was closed") {
		t.Errorf("it is not logged: %s", c.log.String())
	}
	if !exists(filepath.Join(filepath.Dir(config), "finished")) {
		t.Error("another handler was not waited for")
	}
	if got := listEvents(t, config)["unread"]; got != "pending" {
		t.Errorf("the event is %q", got)
	}
	give, reader = piped(t)
	next := startServed(t, config, give)
	check(t, reader.SetReadDeadline(time.Now().Add(30*time.Second)))
	lines := bufio.NewScanner(reader)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"vendor_id":"unread"`) {
		t.Errorf("printed after the next start: %s", lines.Text())
	}
	if code := next.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d: %s", code, next.log.String())
	}
}

// TestALogWithoutAReaderEndsNothing: deliveries continue, readiness reports it, and a signal
// drains.
func TestALogWithoutAReaderEndsNothing(t *testing.T) {
	t.Parallel()
	config := ending(t, `exec: [sh, -c, "touch began; sleep 1"]`, "20s", "log: {level: debug}\n")
	text, err := os.ReadFile(config)
	check(t, err)
	check(t, os.WriteFile(config, []byte(strings.Replace(string(text), `"off"`, "127.0.0.1:0", 1)),
		0o600))
	c := startServed(t, config)
	check(t, c.stderr.Close())
	dir := filepath.Dir(config)
	begun(t, c, dir)
	operations, err := os.ReadFile(filepath.Join(dir, "data", opsapi.AddressFile))
	check(t, err)
	eventually(t, "readiness reports it", func() bool {
		status, body := get(t, "http://"+strings.TrimSpace(string(operations))+"/readyz")
		return status == http.StatusOK && strings.Contains(body, "degraded: the log cannot be written")
	})
	if code := c.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if got := listEvents(t, config)["slow"]; got != "done" {
		t.Errorf("the running work is %q", got)
	}
}
