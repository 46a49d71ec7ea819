package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// receivers starts two servers with the same configuration, each in a folder of its own, on one
// database.
func receivers(t *testing.T, rest string) (a, b *running, fileA, fileB string) {
	t.Helper()
	fileA = migrated(t, pgtest.URL(t), rest)
	fileB = beside(t, fileA)
	return launch(t, "serve", "--config", fileA), launch(t, "serve", "--config", fileB), fileA, fileB
}

// beside copies a configuration to another folder, for another receiver of the same store.
func beside(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "eyelet.yaml")
	if err := os.WriteFile(other, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

func TestReceiversOfADatabaseAreOne(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good")
	a, b, fileA, fileB := receivers(t, "handlers: [{producer: gh, type: push, exec: [sh, -c, \"test -f "+good+
		" || exit 65\"]}, {producer: gh, type: slow, exec: [sh, -c, \"test -f "+good+"\"]}]\n"+
		"limits: {backoff_base: 1h, backoff_cap: 1h}\n")
	if status, _ := pushOwn(t, a, "g-1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	if status, _ := pushOwn(t, b, "g-1"); status != 200 {
		t.Errorf("the duplicate at the other: %d", status)
	}
	eventually(t, "it is dead, at the other receiver", func() bool { return state(t, fileB, "g-1") == "dead 1" })
	slow := pushRequest(t, a.deliveries, "g-2", `{"id":"g-2"}`)
	slow.Header.Set("X-GitHub-Event", "slow")
	if status, _, body := fetch(t, slow); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	eventually(t, "it waits, at the other receiver", func() bool { return state(t, fileB, "g-2") == "pending 1" })
	if n := len(listed(t, fileB)); n != 2 {
		t.Errorf("%d events", n)
	}
	if err := os.WriteFile(good, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, "", "events", "reopen", "--type", "push", "--config", fileB)
	if !strings.Contains(out, "reopened 1 event") {
		t.Error(out)
	}
	out, _ = command(t, 0, "", "events", "retry", "--id", "g-2", "--config", fileB)
	if !strings.Contains(out, "1 event") {
		t.Error(out)
	}
	for _, id := range []string{"g-1", "g-2"} {
		eventually(t, id+" is done, at the first receiver", func() bool {
			return strings.HasPrefix(state(t, fileA, id), "done")
		})
	}
	for of, r := range map[string]*running{"a": a, "b": b} {
		var text string
		eventually(t, "the counts of the database are read", func() bool {
			_, text = operation(t, r, "/metrics")
			return strings.Contains(text, "eyelet_store_records 2\n")
		})
		for _, line := range []string{
			"# HELP eyelet_store_records Records in the store. Of the store: of receivers that share it take the max",
			"# HELP eyelet_store_accepted_total Events accepted since the start. Of this process.",
			map[string]string{"a": "eyelet_store_accepted_total 2\n", "b": "eyelet_store_accepted_total 0\n"}[of],
		} {
			if !strings.Contains(text, line) {
				t.Errorf("receiver %s: no %q", of, line)
			}
		}
	}
}

// The page is that of one receiver, as the tail is: it has its duplicates and what it refused.
func TestTheTailAndThePageNameTheirReceiver(t *testing.T) {
	t.Parallel()
	a, b, fileA, fileB := receivers(t, "handlers: [{producer: gh, type: \"*\", stdout: true}]\n")
	for file, r := range map[string]*running{fileA: a, fileB: b} {
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.deliveries, "http://"))
		line := make(chan string, 1)
		go func() {
			_, out, _ := run(t, "events", "tail", "--kind", "delivery", "--limit", "1", "--config", file)
			line <- out
		}()
		text, n := "", 0
		eventually(t, "the tail has a line", func() bool {
			n++
			_, _ = pushOwn(t, r, fmt.Sprint("g-", port, n))
			select {
			case text = <-line:
				return true
			default:
				return false
			}
		})
		if !strings.Contains(text, "Z "+host+":"+port+" delivery gh ") {
			t.Errorf("of %s: %s", r.deliveries, text)
		}
		page := loggedIn(t, r.operations, filepath.Join(filepath.Dir(file), "state"))
		if !strings.Contains(page, ">"+host+":"+port+"<") {
			t.Errorf("the page of %s has no name: %s", r.deliveries, page)
		}
	}
}

func TestATargetIsSwitchedOffForAllReceivers(t *testing.T) {
	t.Parallel()
	target := newAim(t, 200)
	a, b, fileA, fileB := receivers(t, "handlers: [{producer: gh, type: \"*\", name: deploy, forward: \""+
		target.url+"\"}]\n")
	command(t, 0, "", "targets", "off", "deploy", "--reason", "maintenance", "--config", fileB)
	eventually(t, "the other receiver knows", func() bool {
		_, text := readiness(t, a)
		return strings.Contains(text, "target deploy is switched off") && strings.Contains(text, "maintenance")
	})
	if status, _ := pushOwn(t, a, "g-1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the event waits", func() bool {
		out, _ := command(t, 0, "", "events", "list", "--id", "g-1", "-o", "json", "--config", fileA)
		return strings.Contains(out, "maintenance")
	})
	if n := target.calls.Load(); n != 0 {
		t.Errorf("%d requests to a target that is off", n)
	}
	command(t, 0, "", "targets", "on", "deploy", "--config", fileA)
	eventually(t, "the other receiver knows", func() bool {
		_, text := readiness(t, b)
		return !strings.Contains(text, "switched off")
	})
	eventually(t, "the event is forwarded", func() bool {
		_, _, _ = run(t, "events", "retry", "--handler", "deploy", "--config", fileA)
		return strings.HasPrefix(state(t, fileB, "g-1"), "done")
	})

	// A receiver that finds the target gone switches it off for all, also after a restart.
	target.status.Store(http.StatusGone)
	if status, _ := pushOwn(t, b, "g-2"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "both know", func() bool {
		_, at := readiness(t, a)
		_, bt := readiness(t, b)
		return strings.Contains(at, "410 Gone") && strings.Contains(bt, "410 Gone")
	})
	for _, r := range []*running{a, b} {
		r.stop()
		<-r.ended
	}
	if _, out, _ := run(t, "targets", "list", "--config", fileA); !strings.Contains(out, "off since") {
		t.Errorf("without a server: %s", out)
	}
	command(t, 0, "", "targets", "on", "deploy", "--config", fileB)
	if _, text := readiness(t, launch(t, "serve", "--config", fileA)); strings.Contains(text, "switched off") {
		t.Error(text)
	}
}

func TestAReceiverHasItsStateAlone(t *testing.T) {
	t.Parallel()
	const handlers = "handlers: [{producer: gh, type: \"*\", stdout: true}]\n"
	for _, file := range []string{
		migrated(t, pgtest.URL(t), handlers), migrated(t, pgtest.URL(t), "state: ./mine\n"+handlers),
		configured(t, "store: memory\nstate: ./mine\n"+handlers), configured(t, "state: ./mine\n"+handlers),
	} {
		r := launch(t, "serve", "--config", file)
		var errs bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		p := &program{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
		p.Serving = func(string, string) { cancel() }
		if code := p.Run(ctx, "serve", "--config", file); code != exitUsage ||
			!strings.Contains(errs.String(), "is in use by another receiver") ||
			!strings.Contains(errs.String(), "write state: DIR") {
			t.Errorf("a second receiver: exit %d, %s", code, errs.String())
		}
		cancel()
		pushOwn(t, r, "g-1")
		if n := len(listed(t, file)); n != 1 { // by its operations port: the first one still has its token
			t.Errorf("%d events", n)
		}
		r.stop()
		if code := <-r.ended; code != exitOK {
			t.Errorf("exit %d: %s", code, r.errs.String())
		}
		dir := "mine"
		if text, _ := os.ReadFile(file); !strings.Contains(string(text), "state:") {
			dir = "state"
		}
		if !exists(filepath.Join(filepath.Dir(file), dir, "peers.json")) {
			t.Error("the known peers are not in the folder of the state")
		}
		launch(t, "serve", "--config", file)
	}
}

// TestTheTasksOfAKilledReceiverEndAtAnother kills one in the middle of its handler.
func TestTheTasksOfAKilledReceiverEndAtAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began, second := filepath.Join(dir, "began"), filepath.Join(dir, "second")
	file := migrated(t, pgtest.URL(t), "limits: {lease: 2s, timeout: 5m}\n"+
		"handlers: [{producer: gh, type: \"*\", exec: [sh, -c, \"test -f "+second+
		" && exit 0; echo $$ >"+began+"; exec sleep 300\"]}]\n")
	killed := startServed(t, file, func(c *exec.Cmd) { c.Env = append(c.Env, "EYELET_LOG_LEVEL=info") })
	if status, _ := push(t, http.DefaultClient, "http://"+killed.listen, "g-1", "{}"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the handler runs", func() bool { return exists(began) })
	if err := os.WriteFile(second, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fileB := beside(t, file)
	launch(t, "serve", "--config", fileB)
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	endOrphan(t, began)
	eventually(t, "the other receiver ends it", func() bool { return state(t, fileB, "g-1") == "done 2" })
}

// endOrphan kills the program of a killed receiver, which wrote its process ID to the file.
func endOrphan(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Kill(); err != nil {
		t.Error(err)
	}
}
