package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// pushUntil sends events with the identifiers PREFIX-NUMBER until ctx ends. Each must be accepted.
func pushUntil(ctx context.Context, t *testing.T, r *running, prefix string) (sent int64) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for ; ctx.Err() == nil; sent++ {
		id := fmt.Sprintf("%s-%d", prefix, sent)
		if status, _ := push(t, client, r.deliveries, id, `{"n":"`+id+`"}`); status != http.StatusOK {
			t.Errorf("%s was answered %d", id, status)
		}
	}
	return sent
}

// reloadsOf waits until the server has applied or refused this many reloads.
func reloadsOf(t *testing.T, r *running, result string, n int) {
	t.Helper()
	want := fmt.Sprintf("eyelet_reload_total{result=%q} %d\n", result, n)
	eventually(t, want, func() bool {
		_, body := get(t, r.operations+"/metrics")
		return strings.Contains(body, want)
	})
}

// TestReloadsDuringAReload asks for many reloads at once: they are done one after the other.
func TestReloadsDuringAReload(t *testing.T) {
	t.Parallel()
	const reloads = 8
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	reloadable(t, file, "octo-secret", "handlers: [{producer: gh, type: push, stdout: true}]\n")
	r := launch(t, "serve", "--config", file)
	load, stop := context.WithCancel(t.Context())
	var clients, operators sync.WaitGroup
	var sent atomic.Int64
	clients.Go(func() { sent.Add(pushUntil(load, t, r, "c")) })
	for range reloads {
		operators.Go(func() {
			if code, out, errs := reloadNow(t, file); code != exitOK || !strings.HasPrefix(out, "reloaded: ") {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		})
	}
	operators.Wait()
	stop()
	clients.Wait()
	reloadsOf(t, r, "applied", reloads)
	eventually(t, "every event ran", func() bool { return openTasks(t, r) == 0 })
	printedOnce(t, r, sent.Load())
}

// TestAReloadDuringTheDrainIsRefused: a server that stops keeps the configuration that it has, and
// finishes its work.
func TestAReloadDuringTheDrainIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "eyelet.yaml")
	const wait = "touch began; while [ ! -f go ]; do sleep 0.05; done; touch done"
	reloadable(t, file, "octo-secret",
		"limits: {drain: 1m}\nhandlers: [{producer: gh, type: push, exec: [sh, -c, \""+wait+"\"], name: slow}]\n")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	eventually(t, "the handler runs", func() bool { return exists(filepath.Join(dir, "began")) })
	r.stop()
	eventually(t, "the server stops", func() bool {
		_, body := get(t, r.operations+"/readyz")
		return strings.Contains(body, "shutting down")
	})
	reloadable(t, file, "octo-secret", "")
	if code, _, errs := reloadNow(t, file); code == exitOK || !strings.Contains(errs, "the server is stopping") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := <-r.ended; code != exitOK || !exists(filepath.Join(dir, "done")) {
		t.Errorf("exit %d, done: %v: %s", code, exists(filepath.Join(dir, "done")), r.errs.String())
	}
}

// TestReloadWithPostgreSQL adds and removes a handler under load, with a store in PostgreSQL.
func TestReloadWithPostgreSQL(t *testing.T) {
	t.Parallel()
	var forwarded sync.Map
	target := countingTarget(t, &forwarded)
	file := migrated(t, pgtest.URL(t), "handlers:\n  - {producer: gh, type: push, stdout: true}\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := launch(t, "serve", "--config", file)
	load, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var sent atomic.Int64
	for c := range 4 {
		clients.Go(func() { sent.Add(pushUntil(load, t, r, fmt.Sprint("c", c))) })
	}
	for i := range 6 {
		next := string(text)
		if i%2 == 0 {
			next += "  - {producer: gh, type: push, forward: \"" + target + "\", mode: store, name: second}\n"
		}
		if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := reloadNow(t, file); code != exitOK {
			t.Errorf("exit %d: %s", code, errs)
		}
		printed := strings.Count(r.out.String(), "\n")
		eventually(t, "events run with it", func() bool { return strings.Count(r.out.String(), "\n") > printed+8 })
	}
	stop()
	clients.Wait()
	eventually(t, "every event ran", func() bool { return openTasks(t, r) == 0 })
	if n := printedOnce(t, r, sent.Load()); countOf(&forwarded) == 0 || countOf(&forwarded) == n {
		t.Errorf("%d of %d events were forwarded", countOf(&forwarded), n)
	}
}

// TestTwoLooksMustAgree changes a file between the looks at it.
func TestTwoLooksMustAgree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "eyelet.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	r := &reloader{watch: true, files: conf.Files{path: {}}.Look()}
	for i, step := range []struct {
		change func()
		want   bool
	}{
		{func() {}, false},
		{func() { write("t") }, false}, {func() { write("two, ha") }, false}, // half written
		{func() { write("two") }, false}, {func() {}, true}, {func() {}, false},
		{func() { _ = os.Remove(path) }, false}, {func() { write("two") }, false}, {func() {}, false}, // gone once
		{func() { write("three") }, false}, {func() { write("two") }, false}, // changed, and back
		{func() { _ = os.Remove(path) }, false}, {func() {}, true}, {func() {}, false}, // gone
		{func() { write("two") }, false}, {func() {}, true},
		{func() { write("four"); r.watch = false }, false}, {func() {}, false},
	} {
		step.change()
		if got := r.look(); got != step.want {
			t.Errorf("look %d: %v, want %v", i, got, step.want)
		}
	}
}

// TestReloadReplacesCertificates: new connections get the new one, and a pair that cannot be used
// is refused.
func TestReloadReplacesCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "eyelet.yaml")
	for i, name := range []string{"one", "two", "broken"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		servertest.Issue(t, filepath.Join(dir, name), int64(i+1))
	}
	if err := os.WriteFile(filepath.Join(dir, "broken", "key.pem"), []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(name string) { // as both ports have it
		reloadable(t, file, "octo-secret",
			fmt.Sprintf("tls: {cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem}\n", name))
	}
	with("one")
	r := launch(t, "serve", "--config", file)
	serial := func() int64 {
		t.Helper()
		trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the serial number is compared
		c, err := tls.Dial("tcp", strings.TrimPrefix(r.deliveries, "http://"), trusting)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // nothing was sent
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	for _, step := range []struct {
		pair   string
		code   int
		serial int64
	}{{"one", exitOK, 1}, {"two", exitOK, 2}, {"broken", exitUsage, 2}, {"none", exitUsage, 2}, {"one", exitOK, 1}} {
		with(step.pair)
		code, _, errs := reloadNow(t, file)
		if got := serial(); code != step.code || got != step.serial {
			t.Errorf("%s: exit %d, certificate %d: %s", step.pair, code, got, errs)
		}
	}
}

// TestTheMetricsOfWhatIsGoneAreDeleted removes a handler without tasks, then its producer.
func TestTheMetricsOfWhatIsGoneAreDeleted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	const other = "  other: {preset: github, secret: [octo-secret]}\n"
	reloadable(t, file, "octo-secret", other+"handlers: [{producer: gh, type: push, stdout: true, name: removed}]\n")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
	req := pushRequest(t, r.deliveries, "o-1", "{}")
	req.URL.Path = "/webhooks/other"
	if status, _, body := fetch(t, req); status != http.StatusOK {
		t.Fatal(status, body)
	}
	metrics := func() string { _, body := get(t, r.operations+"/metrics"); return body }
	eventually(t, "the handler ran", func() bool {
		return strings.Contains(metrics(), `handler="removed",state="done"`)
	})
	if !strings.Contains(metrics(), `endpoint="other"`) {
		t.Error("there are no metrics of the producer")
	}
	reloadable(t, file, "octo-secret", "")
	if code, _, errs := reloadNow(t, file); code != exitOK {
		t.Fatal(errs)
	}
	eventually(t, "the metrics are gone", func() bool {
		all := metrics()
		return !strings.Contains(all, `handler="removed"`) && !strings.Contains(all, `endpoint="other"`)
	})
	if !strings.Contains(metrics(), `eyelet_deliveries_total{code="accepted",endpoint="gh"} 1`) {
		t.Error("the metrics of the other producer are gone")
	}
}

// countingTarget is a target of forwarding that fails the test if it gets a body twice.
func countingTarget(t *testing.T, forwarded *sync.Map) (url string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, twice := forwarded.LoadOrStore(string(body), true); twice {
			t.Errorf("%s was forwarded twice", body)
		}
	}))
	t.Cleanup(target.Close)
	return target.URL
}
