package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
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
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// aim is a target that counts requests, and whose response the test sets.
type aim struct {
	url    string
	status atomic.Int32
	calls  atomic.Int32
	mu     sync.Mutex
	last   *http.Request
}

func newAim(t *testing.T, status int32, header ...string) *aim {
	t.Helper()
	a := &aim{}
	a.status.Store(status)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		a.mu.Lock()
		a.last = r.Clone(context.Background())
		a.mu.Unlock()
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(int(a.status.Load()))
	}))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

// run runs a command to its end.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = (&program{In: strings.NewReader(""), Out: &o, Err: &e}).Run(context.Background(), args...)
	return code, o.String(), e.String()
}

// pushOwn sends a push with a payload of its own: the same payload under another id would be
// quarantined.
func pushOwn(t *testing.T, r *running, id string) (status int, retryAfter string) {
	t.Helper()
	return push(t, http.DefaultClient, r.deliveries, id, `{"id":"`+id+`"}`)
}

func readiness(t *testing.T, r *running) (int, string) {
	t.Helper()
	return operation(t, r, "/readyz")
}

// operation sends a request without the token to the operations port.
func operation(t *testing.T, r *running, path string) (status int, body string) {
	t.Helper()
	status, _, body = fetch(t, getRequest(t, r.operations+path))
	return status, body
}

// TestARefusingTargetIsOffUntilAPersonSwitchesItOn is row R177 from outside: ten refusals, a
// restart, and the commands, with the server running and without.
func TestARefusingTargetIsOffUntilAPersonSwitchesItOn(t *testing.T) {
	t.Parallel()
	a := newAim(t, 404)
	file := configured(t, "limits: {postpone_max: 100ms}\nhandlers:\n"+
		"  - {producer: gh, type: push, forward: \""+a.url+"\", name: deploy}\n")
	r := launch(t, "serve", "--config", file)
	for i := range 10 {
		id := fmt.Sprintf("g-%d", i)
		if status, _ := pushOwn(t, r, id); status != 200 {
			t.Fatalf("status %d", status)
		}
		eventually(t, "the dead letter of "+id, func() bool { return state(t, file, id) == "dead 1" })
		if t.Failed() {
			t.FailNow() // the others would take as long
		}
	}
	pushOwn(t, r, "waits")
	eventually(t, "a postponed event", func() bool { return strings.HasPrefix(state(t, file, "waits"), "pending") })
	if status, text := readiness(t, r); status != 200 || !strings.Contains(text, "target deploy is switched off") ||
		!strings.Contains(text, "404") {
		t.Errorf("readiness is %d %s", status, text)
	}
	r.stop()
	if code := <-r.ended; code != 0 {
		t.Fatalf("serve ended with %d: %s", code, r.errs.String())
	}
	if code, out, errs := run(t, "targets", "--config", file); code != 0 ||
		!strings.Contains(out, "deploy  off since") {
		t.Errorf("targets: %d %s %s", code, out, errs)
	}
	a.status.Store(200)
	r = launch(t, "serve", "--config", file)
	if _, text := readiness(t, r); !strings.Contains(text, "target deploy is switched off") {
		t.Errorf("after a restart readiness says %s", text)
	}
	eventually(t, "the task is taken and postponed again", func() bool {
		return strings.Contains(scraped(t, r), `eyelet_attempts_total{endpoint="gh",handler="deploy",state="pending"}`)
	})
	if n := a.calls.Load(); n != 10 {
		t.Errorf("%d requests, want 10", n)
	}
	if text := scraped(t, r); !strings.Contains(text, "eyelet_target_off{target=\"deploy\"} 1\n") {
		t.Error("no metric says that the target is off")
	}
	if code, out, errs := run(t, "targets", "deploy", "on", "--config", file); code != 0 ||
		out != "target deploy is switched on\n" {
		t.Errorf("targets deploy on: %d %s %s", code, out, errs)
	}
	eventually(t, "the event that waited", func() bool { return strings.HasPrefix(state(t, file, "waits"), "done") })
	if _, text := readiness(t, r); text != "ready\n" {
		t.Errorf("readiness says %s", text)
	}
	if text := scraped(t, r); !strings.Contains(text, "eyelet_target_off{target=\"deploy\"} 0\n") {
		t.Error("the metric says that the target is off still")
	}
}

// scraped returns the metrics of the server.
func scraped(t *testing.T, r *running) string {
	t.Helper()
	_, text := operation(t, r, "/metrics")
	return text
}

// TestAMovedTargetIsReported: row R173 from outside, without secrets of the target.
func TestAMovedTargetIsReported(t *testing.T) {
	t.Parallel()
	a := newAim(t, 308, "Location", "/s3cret/new?token=s3cret")
	file := configured(t, "handlers:\n  - {producer: gh, type: push, mode: relay, forward: \""+a.url+"\"}\n")
	r := launch(t, "serve", "--config", file)
	if status, _ := pushOwn(t, r, "g-1"); status != 503 {
		t.Errorf("moved: %d", status)
	}
	code, out, errs := run(t, "targets", "--config", file)
	if code != 0 || !strings.Contains(out, "moved to "+a.url+"/<secret>") || strings.Contains(out+errs, "s3cret") {
		t.Errorf("targets: %d %s %s", code, out, errs)
	}
	a.status.Store(200)
	if status, _ := pushOwn(t, r, "g-1"); status != 200 {
		t.Errorf("at its new place: %d", status)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.last.URL.RequestURI(); got != "/s3cret/new?token=s3cret" {
		t.Errorf("the request went to %s", got)
	}
}

// TestARelayHidesAndHoldsARetryAfter is rows R168, R169 and R175: the producer never sees the
// target's wait, and the target does not get the event before it.
func TestARelayHidesAndHoldsARetryAfter(t *testing.T) {
	t.Parallel()
	a := newAim(t, 503, "Retry-After", "77")
	file := configured(t, "limits: {retry_after: 2s}\nhandlers:\n"+
		"  - {producer: gh, type: push, forward: \""+a.url+"\", mode: relay}\n")
	r := launch(t, "serve", "--config", file)
	for range 5 {
		status, after := pushOwn(t, r, "g-1")
		if status != 503 || len(after) != 1 || after > "3" {
			t.Errorf("status is %d with Retry-After %q, want 503 with our own", status, after)
		}
	}
	if n := a.calls.Load(); n != 1 {
		t.Errorf("%d requests reached the target before its time", n)
	}
}

// TestAStoredEventWaitsForTheRetryAfter is rows R169 and R175: accepted from the producer, because
// of the mode, and with a wait above the cap of the backoff.
func TestAStoredEventWaitsForTheRetryAfter(t *testing.T) {
	t.Parallel()
	a, b := newAim(t, 503, "Retry-After", "3600"), newAim(t, 503, "Retry-After", "7200")
	file := configured(t, "limits: {backoff_base: 1ms, backoff_cap: 5ms}\nhandlers:\n  - {producer: gh, type: push, "+
		"mode: store, forward: \""+a.url+"\"}\n"+
		"  - {producer: gh, type: p*, mode: store, forward: \""+b.url+"\", total_retry_time: 1h}\n")
	r := launch(t, "serve", "--config", file)
	if status, _ := pushOwn(t, r, "g-1"); status != 200 {
		t.Errorf("status %d", status)
	}
	eventually(t, "both attempts", func() bool { return a.calls.Load() > 0 && b.calls.Load() > 0 })
	eventually(t, "a dead letter beyond the total retry time, and a task that waits", func() bool {
		tasks := listed(t, file)[0].Tasks
		return tasks[0].State == "pending" && tasks[1].State == "dead"
	})
	if due := listed(t, file)[0].Tasks[0].Due; due == nil || time.Until(*due) < 50*time.Minute {
		t.Errorf("the next attempt is due at %v", due)
	}
	if a.calls.Load() != 1 || b.calls.Load() != 1 {
		t.Errorf("%d and %d requests, want one each", a.calls.Load(), b.calls.Load())
	}
	code, out, _ := run(t, "events", "list", "--config", file, "-o", "json")
	if code != 0 || !strings.Contains(out, `"pending"`) || !strings.Contains(out, "beyond the total retry time") {
		t.Errorf("events are %s", out)
	}
}

// TestTheHopIsSignedWithTheConfiguredKey: and after a 401 with the key that is then in the file
// (R172).
func TestTheHopIsSignedWithTheConfiguredKey(t *testing.T) {
	t.Parallel()
	keys := map[string]ed25519.PrivateKey{}
	pems := map[string][]byte{}
	for _, name := range []string{"old", "new"} {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		check(t, err)
		der, err := x509.MarshalPKCS8PrivateKey(private)
		check(t, err)
		keys[name], pems[name] = private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	good, err := verify.NewPublicKey("hop", verify.Ed25519, keys["new"].Public())
	check(t, err)
	scheme := &verify.RFC9421{Keys: verify.StaticKeys(good), KeyRequired: true}
	var file string
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		r.URL.Scheme, r.URL.Host = "http", r.Host
		_, err := scheme.Verify(r, func() ([]byte, error) { return io.ReadAll(r.Body) })
		if err != nil {
			if err := os.WriteFile(filepath.Join(filepath.Dir(file), "hop.pem"), pems["new"], 0o600); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(srv.Close)
	file = configured(t, "handlers:\n  - producer: gh\n    type: push\n    mode: relay\n"+
		"    forward: \""+srv.URL+"\"\n    sign: {id: hop, key_file: hop.pem}\n")
	check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "hop.pem"), pems["old"], 0o600))
	r := launch(t, "serve", "--config", file)
	for _, id := range []string{"g-1", "g-2"} {
		if status, _ := pushOwn(t, r, id); status != 200 {
			t.Errorf("%s: %d", id, status)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d requests, want a refused one, its repetition and one with the new key", n)
	}
}

// TestASecretInTheURLOfATargetIsNeverShown: it is sent to the target, which is switched off
// and on by its name.
func TestASecretInTheURLOfATargetIsNeverShown(t *testing.T) {
	t.Parallel()
	a := newAim(t, 410)
	moved := newAim(t, 308, "Location", "/s3cret%zz")
	file := configured(t, "limits: {attempts: 1}\nhandlers:\n"+
		"  - {producer: gh, type: push, forward: \""+a.url+"/s3cret?key=s3cret\"}\n"+
		"  - {producer: gh, type: push, name: moved, forward: \""+moved.url+"/s3cret\"}\n")
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, os.WriteFile(file, []byte(strings.Replace(string(text), "level: error", "level: debug", 1)),
		0o600))
	r := launch(t, "serve", "--config", file)
	if status, _ := pushOwn(t, r, "g-1"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "both are tried", func() bool { return a.calls.Load() == 1 && moved.calls.Load() == 1 })
	eventually(t, "the dead letter", func() bool { return strings.HasPrefix(state(t, file, "g-1"), "dead") })
	events := listed(t, file)
	for what, args := range map[string][]string{
		"targets": {"targets"}, "targets -o json": {"targets", "-o", "json"},
		"events list --state dead": {"events", "list", "--state", "dead"},
		"events show -o text":      {"events", "show", events[0].Event, "-o", "text"}, "events show": {"events", "show",
			events[0].Event},
		"config show": {"config", "show"}, "config check": {"config", "check"},
	} {
		out, errs := command(t, 0, "", append(args, "--config", file)...)
		if out == "" || strings.Contains(out+errs, "s3cret") {
			t.Errorf("%s: %s%s", what, out, errs)
		}
	}
	_, ready := readiness(t, r)
	if text := ready + scraped(t, r) + r.errs.String(); strings.Contains(text, "s3cret") ||
		!strings.Contains(text, `target="gh/push/forward"`) {
		t.Error(text)
	}
	command(t, 0, "", "targets", "gh/push/forward", "on", "--config", file)
	if out, _ := command(t, 0, "", "targets", "--config", file); !strings.Contains(out, "gh/push/forward  on") {
		t.Error(out)
	}
}

// TestARelayToATargetThatIsOffIsTransient: the producer keeps the event.
func TestARelayToATargetThatIsOffIsTransient(t *testing.T) {
	t.Parallel()
	a := newAim(t, 410)
	file := configured(t, "handlers:\n  - {producer: gh, type: push, forward: \""+a.url+"\", mode: relay, name: "+
		"deploy}\n")
	r := launch(t, "serve", "--config", file)
	if status, _ := pushOwn(t, r, "g-1"); status != 422 {
		t.Errorf("a 410 of the target is %d upstream, want 422: no endpoint of ours is retired", status)
	}
	if status, after := pushOwn(t, r, "g-2"); status != 503 || after == "" {
		t.Errorf("off: %d with Retry-After %q", status, after)
	}
	a.status.Store(200)
	if code, _, errs := run(t, "targets", "deploy", "on", "--config", file); code != 0 {
		t.Error(errs)
	}
	if status, _ := pushOwn(t, r, "g-2"); status != 200 {
		t.Errorf("on again: %d", status)
	}
}
