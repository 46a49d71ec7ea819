package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
)

// reloadable writes a configuration with these secrets of the producer, and more settings.
func reloadable(t *testing.T, file, secrets, rest string) {
	t.Helper()
	next := file + ".next"
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nlog: {level: error}\nproducers:\n  gh: {preset: github, " +
		"secret: [" + secrets + "]}\n" + rest
	check(t, os.WriteFile(next, []byte(text), 0o600))
	check(t, os.Rename(next, file))
}

// reloadNow runs eyelet reload.
func reloadNow(t *testing.T, file string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &o, Err: &e}
	code = p.Run(context.Background(), append([]string{"reload", "--config", file}, args...)...)
	return code, o.String(), e.String()
}

// TestReload sends while the configuration is reloaded: a secret is rotated, a handler added and
// removed, a limit changed, and every fifth configuration is broken.
func TestReload(t *testing.T) {
	t.Parallel()
	clients, reloads := 8, 15
	if os.Getenv("EYELET_LONG") != "" {
		clients, reloads = 64, 100
	}
	var forwarded sync.Map // the bodies that the handler got that is added and removed
	target := countingTarget(t, &forwarded)
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	const handler = "{producer: gh, type: push, stdout: true}"
	reloadable(t, file, "octo-secret", "handlers: ["+handler+"]\n")
	r := launch(t, "serve", "--config", file)
	load, stop := context.WithCancel(t.Context())
	var sent atomic.Int64
	answered := make(chan struct{}, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for i := 0; load.Err() == nil; i++ {
				id := fmt.Sprintf("c%d-%d", c, i)
				status, _ := push(t, client, r.deliveries, id, `{"n":"`+id+`"}`)
				if status != http.StatusOK {
					t.Errorf("%s was answered %d", id, status)
				}
				sent.Add(1)
				select {
				case answered <- struct{}{}:
				default: // a reload is under way
				}
			}
		})
	}
	for i := range reloads {
		for range rand.N(2 * clients) {
			<-answered
		}
		secrets, rest := "octo-secret", "handlers: ["+handler
		if i%2 == 0 {
			secrets = "octo-secret, the-next-secret"
			rest += ", {producer: gh, type: \"*\", forward: \"" + target + "\", mode: store}"
		}
		rest += "]\nlimits: {workers: " + fmt.Sprint(2+i%7) + "}\n"
		want := exitOK
		if i%5 == 4 {
			rest, want = rest+"unknown: 1\nlisten2: x\n", exitUsage
		}
		reloadable(t, file, secrets, rest)
		if code, _, errs := reloadNow(t, file); code != want {
			t.Errorf("reload %d: exit %d, want %d: %s", i, code, want, errs)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d deliveries during %d reloads", sent.Load(), reloads)
	eventually(t, "every event ran", func() bool { return openTasks(t, r) == 0 })
	runs := printedOnce(t, r, sent.Load())
	if forwards := countOf(&forwarded); forwards == 0 || forwards == runs {
		t.Errorf("%d of %d events were forwarded", forwards, runs)
	}
	r.stop()
	if code := <-r.ended; code != exitOK {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
}

// printedOnce requires that each event was printed, once, and returns their number.
func printedOnce(t *testing.T, r *running, sent int64) int {
	t.Helper()
	runs := map[string]int{}
	for line := range strings.Lines(r.out.String()) {
		var ev struct {
			VendorID string `json:"vendor_id"`
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if runs[ev.VendorID]++; runs[ev.VendorID] > 1 {
			t.Errorf("%s was printed twice", ev.VendorID)
		}
	}
	if int64(len(runs)) != sent {
		t.Errorf("%d of %d events were printed", len(runs), sent)
	}
	return len(runs)
}

func countOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// openTasks returns the number of tasks without an outcome. A dead letter fails the test.
func openTasks(t *testing.T, r *running) (open int) {
	t.Helper()
	_, text := get(t, r.operations+"/metrics")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "eyelet_store_tasks_dead" && value != "0":
			t.Fatalf("there are dead letters: %s", value)
		case strings.HasPrefix(name, "eyelet_store_tasks_") && value != "0":
			open++
		}
	}
	return open
}

func TestReloadRefusesMistakesAndWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	reloadable(t, file, "octo-secret", "")
	r := launch(t, "serve", "--config", file)
	good, err := os.ReadFile(file)
	check(t, err)
	for _, tc := range []struct{ rest, want string }{
		{"unknown: 1\nhandlers: [{producer: other, type: push, stdout: true}]\n", "unknown setting \"unknown\""},
		{"handlers: [{producer: other, type: push, stdout: true}]\n", "unknown producer \"other\""},
		{"handlers: [\n", "not YAML"},
		{"explains: log\nhandlers: [{producer: other, type: push, stdout: true}]\n", "unknown producer \"other\""},
		{"tls: {cert_file: none.pem, key_file: none.pem}\n", "tls cannot change while the server runs"},
		{"schema: other\n", "schema"},
		{"limits: {head: 32KiB, min_free: 1GiB}\n", "limits.min_free cannot change while the server runs"},
	} {
		reloadable(t, file, "never-shown-secret", tc.rest)
		code, out, errs := reloadNow(t, file)
		if code != exitUsage || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit %d: %s%s", tc.rest, code, out, errs)
		}
		if strings.Contains(errs, "never-shown-secret") {
			t.Errorf("the secret is shown: %s", errs)
		}
	}
	code, out, _ := reloadNow(t, file, "-o", "json")
	var result opsapi.Reload
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != exitUsage || result.Reloaded ||
		len(result.Errors) != 2 || filepath.Base(result.Errors[0].File) != "eyelet.yaml" || result.Errors[0].Line == 0 {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	const refused = "degraded: the configuration was not reloaded: "
	if _, body := get(t, r.operations+"/readyz"); !strings.Contains(body, refused) ||
		!strings.Contains(body, "and 1 more") {
		t.Errorf("readiness: %s", body)
	}
	if _, body := get(t, r.operations+"/metrics"); !strings.Contains(body, "eyelet_reload_last_successful 0") ||
		!strings.Contains(body, `eyelet_reload_total{result="applied"} 0`) ||
		!strings.Contains(body, `eyelet_reload_total{result="refused"} 7`) { // all but the one that is not YAML
		t.Errorf("metrics: %s", body)
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != http.StatusOK {
		t.Errorf("with the old configuration: status %d", status)
	}
	check(t, os.WriteFile(file, good, 0o600))
	if code, out, errs := reloadNow(t, file); code != exitOK || out != "reloaded: 1 producer, 0 handlers\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, body := get(t, r.operations+"/readyz"); body != "ready\n" {
		t.Errorf("readiness: %s", body)
	}
}

// TestAChangedFileIsReloaded changes the file of a secret behind a link, and the configuration,
// which has a mistake for a while. Then it stops watching.
func TestAChangedFileIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "eyelet.yaml")
	secret := func(folder, text string) { // as a ConfigMap or a Secret is changed
		t.Helper()
		check(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, folder, "secret"), []byte(text), 0o600))
		check(t, os.Symlink(folder, filepath.Join(dir, "next")))
		check(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "now")))
	}
	secret("one", "an-earlier-secret")
	write := func(rest string) {
		t.Helper()
		text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nlog: {level: error}\n" +
			"producers:\n  gh: {preset: github, secret_file: [now/secret]}\n" + rest
		check(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("reload: watch\n")
	looks := make(chan time.Time)
	r := (&program{Looks: looks}).launch(t, "serve", "--config", file)
	look := func() { // two must agree, and a third begins after their reload
		for range 3 {
			looks <- time.Time{}
		}
	}
	reloads := func(result string, n int) {
		t.Helper()
		look()
		want := fmt.Sprintf("eyelet_reload_total{result=%q} %d\n", result, n)
		if _, body := get(t, r.operations+"/metrics"); !strings.Contains(body, want) {
			t.Fatalf("no %s in %s", want, body)
		}
	}
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != http.StatusUnauthorized {
		t.Errorf("with the first secret: status %d", status)
	}
	secret("two", "octo-secret")
	reloads("applied", 1)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-2", "{}"); status != http.StatusOK {
		t.Errorf("with the second secret: status %d", status)
	}
	write("reload: watch\nhandlers: [\n")
	reloads("refused", 1)
	reloads("refused", 1) // the mistake is not tried again
	write("reload: off\n")
	reloads("applied", 2)
	secret("three", "an-earlier-secret")
	reloads("applied", 2)
}

// TestReloadLetsARemovedHandlerFinish: its tasks are done, unless --orphan is given.
func TestReloadLetsARemovedHandlerFinish(t *testing.T) {
	t.Parallel()
	for _, orphan := range []bool{false, true} {
		t.Run(fmt.Sprint("orphan ", orphan), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "eyelet.yaml")
			const limits = "limits: {backoff_base: 50ms, backoff_cap: 50ms, attempts: 1000, orphan_after: 0s}\n"
			reloadable(t, file, "octo-secret", limits+
				"handlers: [{producer: gh, type: push, exec: [test, -f, go], name: removed}]\n")
			r := launch(t, "serve", "--config", file)
			push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
			reloadable(t, file, "octo-secret", limits)
			args := []string{}
			want := "done"
			if orphan {
				args, want = []string{"--orphan"}, "dead"
			}
			code, _, errs := reloadNow(t, file, args...)
			named := strings.Contains(errs, `the removed handler "removed" finishes`)
			if code != exitOK || named == orphan {
				t.Errorf("exit %d: %s", code, errs)
			}
			push(t, http.DefaultClient, r.deliveries, "g-2", "{}")
			if !orphan { // else an attempt that had begun would succeed
				check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			}
			var out bytes.Buffer
			defer func() { t.Logf("the event: %s; the log: %s", out.String(), r.errs.String()) }()
			eventually(t, want, func() bool {
				out.Reset()
				p := &program{In: strings.NewReader(""), Out: &out, Err: io.Discard}
				p.Run(context.Background(), "events", "list", "--config", file, "--id", "g-1", "-o", "json")
				return strings.Contains(out.String(), `"state":"`+want+`"`)
			})
		})
	}
}

// TestReloadKeepsRefusedDeliveries changes what a log and a page show, and nothing that was kept.
func TestReloadKeepsRefusedDeliveries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "eyelet.yaml")
	reloadable(t, file, "another-secret", "store: badger:"+dir+"/data\n")
	r := launch(t, "serve", "--config", file)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != http.StatusUnauthorized {
		t.Fatalf("status %d", status)
	}
	kept := refusedLines(t, 1, "--config", file)
	if log := r.errs.String(); log != "" {
		t.Errorf("at level error: %s", log)
	}
	text, err := os.ReadFile(file)
	check(t, err)
	text = bytes.Replace(text, []byte("level: error"), []byte("level: debug"), 1)
	text = append(text, "inspector: read\n"...)
	check(t, os.WriteFile(file, text, 0o600))
	if page := loggedIn(t, r.operations, dir+"/data"); strings.Contains(page, ">read-only<") {
		t.Errorf("before: %s", page)
	}
	if code, _, errs := reloadNow(t, file); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if page := loggedIn(t, r.operations, dir+"/data"); !strings.Contains(page, ">read-only<") {
		t.Errorf("with inspector: read: %s", page)
	}
	if diff := cmp.Diff(kept, refusedLines(t, 1, "--config", file)); diff != "" {
		t.Error(diff)
	}
	push(t, http.DefaultClient, r.deliveries, "g-2", "{}")
	refusedLines(t, 2, "--config", file)
	eventually(t, "the next one is logged", func() bool {
		return strings.Contains(r.errs.String(), "signature_mismatch")
	})
}

// loggedIn returns the first view of the page after a login with the token in a folder.
func loggedIn(t *testing.T, operations, dir string) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, opsapi.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	login, err := browser.PostForm(operations+"/ui/login", url.Values{"token": {strings.TrimSpace(string(token))}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(login.Body)
	if err := errors.Join(err, login.Body.Close()); err != nil || login.StatusCode != http.StatusOK {
		t.Fatalf("the login got %d, %v: %s", login.StatusCode, err, text)
	}
	return string(text)
}
