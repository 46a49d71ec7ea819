package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup"
)

// running is the binary in this process.
type running struct {
	deliveries, operations string
	stop                   context.CancelFunc
	ended                  <-chan int
	out, errs              *servertest.Buffer
}

// launch runs the arguments until they serve. The end of the test stops them.
func launch(t *testing.T, args ...string) *running {
	t.Helper()
	return (&program{}).launch(t, args...)
}

func (p *program) launch(t *testing.T, args ...string) *running {
	t.Helper()
	up := make(chan [2]string, 1)
	r := &running{out: &servertest.Buffer{}, errs: &servertest.Buffer{}}
	p.In, p.Out, p.Err = strings.NewReader(""), r.out, r.errs
	p.Serving = func(l, o string) { up <- [2]string{l, o} }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- p.Run(ctx, args...)
	}()
	r.stop, r.ended = cancel, ended
	t.Cleanup(func() { cancel(); <-done })
	select {
	case at := <-up:
		r.deliveries, r.operations = "http://"+at[0], "http://"+at[1]
	case code := <-ended:
		t.Fatalf("%v ended with %d: %s", args, code, r.errs.String())
	}
	return r
}

// configured writes a configuration with a GitHub endpoint and returns its name.
func configured(t *testing.T, rest string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eyelet.yaml")
	text := "listen: 127.0.0.1:0\noperations: 127.0.0.1:0\nlog: {level: error}\nproducers:\n  gh: {preset: github, " +
		"secret: [octo-secret]}\n" + rest
	check(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// pushRequest is a signed push.
func pushRequest(t *testing.T, base, id, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, base+"/webhooks/gh", strings.NewReader(body))
	check(t, err)
	signGitHub(r, id, body)
	return r
}

// push sends a signed push and returns the status and its Retry-After.
func push(t *testing.T, client *http.Client, base, id, body string) (status int, retryAfter string) {
	t.Helper()
	r := pushRequest(t, base, id, body)
	res, err := client.Do(r)
	if err != nil {
		t.Errorf("push %s: %v", id, err)
		return 0, ""
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Retry-After")
}

// signGitHub makes a request a push of the producer gh.
func signGitHub(r *http.Request, id, body string) {
	mac := hmac.New(sha256.New, []byte("octo-secret"))
	mac.Write([]byte(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "push")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

// state returns the state of an event as the binary lists it.
func state(t *testing.T, file, id string) string {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: &errs}
	if code := p.Run(context.Background(), "events", "list", "--config", file, "--id", id); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(lines) != 2 || len(fields) < 7 { // a reason may follow the state
		return ""
	}
	return fields[4] + " " + fields[len(fields)-2]
}

// eventually waits for what nothing signals.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

func TestStoppingFinishesRunningWorkAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	file := configured(t, `handlers: [{producer: gh, type: "*", exec: [sh, -c, "touch began; while [ ! -f go ]; do `+
		`sleep 0.02; done"], answer: true}]`+"\n")
	r := launch(t, "serve", "--config", file)
	dir := filepath.Dir(file)
	// Connections that are open are still answered.
	warm := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer warm.CloseIdleConnections()
	if res, err := warm.Get(r.deliveries + "/policy"); err != nil {
		t.Fatal(err)
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	first := make(chan int, 1)
	go func() {
		status, _ := push(t, &http.Client{}, r.deliveries, "g-1", "{}")
		first <- status
	}()
	eventually(t, "the handler runs", func() bool { return exists(filepath.Join(dir, "began")) })
	r.stop()
	eventually(t, "readiness is refused", func() bool {
		res, err := http.Get(r.operations + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable
	})
	if status, after := push(t, warm, r.deliveries, "g-2", "{}"); status != 503 || after == "" {
		t.Errorf("while stopping: status %d, Retry-After %q", status, after)
	}
	check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	if status := <-first; status != 200 {
		t.Errorf("the delivery under way was answered %d", status)
	}
	if code := <-r.ended; code != 0 {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
	if got := state(t, file, "g-1"); got != "done 1" {
		t.Errorf("the event is %q", got)
	}
}

// failing is a store that fails.
type failing struct {
	dedup.Store
	failed chan struct{}
}

func (f failing) Failed() <-chan struct{} { return f.failed }

// failingServer is a server whose store fails when the channel is closed.
func failingServer(t *testing.T, p *program, s *config.Settings, failed chan struct{}) *server.Server {
	t.Helper()
	_, o, err := p.serverOptions(context.Background(), s)
	check(t, err)
	open := o.OpenStore
	o.OpenStore = func(ctx context.Context, log *slog.Logger) (dedup.Store, error) {
		store, err := open(ctx, log)
		return failing{store, failed}, err
	}
	srv, err := server.New(context.Background(), o)
	check(t, err)
	return srv
}

// TestAFailedStoreIsNotDrained runs a handler that outlasts any test, with an hour to drain.
func TestAFailedStoreIsNotDrained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	s, err := config.Source{File: configured(t, "store: memory\nlimits: {drain: 1h, timeout: 1h}\n"+
		"handlers: [{producer: gh, type: \"*\", exec: "+
		"[sh, -c, \"trap '' TERM; touch "+began+"; while kill -0 $PPID; do sleep 0.1; done\"]}]\n")}.Load()
	check(t, err)
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	var listen string
	p.Starting = func(l, _ string) { listen = l }
	failed := make(chan struct{})
	srv := failingServer(t, p, s, failed)
	code := make(chan int, 1)
	go func() { code <- p.explain(srv.Run(context.Background())) }()
	if status, _ := push(t, &http.Client{}, "http://"+listen, "g-1", "{}"); status != 200 {
		t.Fatalf("status %d", status)
	}
	eventually(t, "the handler runs", func() bool { return exists(began) })
	close(failed)
	select {
	case code := <-code:
		if code != exitFailed {
			t.Errorf("exit %d, want %d", code, exitFailed)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server waits for what the store cannot record")
	}
}

func TestServingOverTLS(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rest  string
		major int
	}{"HTTP/1.1": {"", 1}, "HTTP/2": {"http2: true\n", 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := configured(t, row.rest+"tls: {cert_file: cert.pem, key_file: key.pem}\nurl: https://127.0.0.1\n")
			client := trusting(servertest.Issue(t, filepath.Dir(file), 1))
			defer client.CloseIdleConnections()
			r := launch(t, "serve", "--config", file)
			secure := strings.Replace(r.deliveries, "http:", "https:", 1)
			if status, _ := push(t, client, secure, "g-1", "{}"); status != 200 {
				t.Errorf("status is %d", status)
			}
			res, err := client.Get(secure + "/policy")
			check(t, err)
			_ = res.Body.Close()
			if res.ProtoMajor != row.major {
				t.Errorf("the protocol is %s", res.Proto)
			}
			if res, err := http.Get(r.deliveries + "/policy"); err == nil {
				_ = res.Body.Close()
				if res.StatusCode == http.StatusOK {
					t.Error("HTTP without TLS is served")
				}
			}
		})
	}
}

// trusting is a client for HTTP/1.1 and HTTP/2 that trusts one certificate.
func trusting(certificate *x509.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
}

func TestAnUnreadableCertificateIsAUsageError(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
	code := p.Run(context.Background(), "serve", "--config",
		configured(t, "tls: {cert_file: none.pem, key_file: none.pem}\n"))
	if code != 2 || !strings.Contains(errs.String(), "eyelet.yaml:6: tls: no such file or directory\n  hint: ") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestDevServesWithNewKeys(t *testing.T) {
	t.Parallel()
	r := launch(t, "dev", "--serve-at", "127.0.0.1:0")
	eventually(t, "the commands are shown", func() bool {
		return strings.Contains(r.out.String(), "events list --config ")
	})
	_, rest, _ := strings.Cut(r.out.String(), "events list --config ")
	file := strings.Fields(rest)[0]
	// The bundled keys are accepted for the bundled deliveries only.
	bundled := unpacked(t)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"send", filepath.Join(bundled, "shop", "01-order-new.http"), "--url", r.deliveries}, 1, "401 "},
		{[]string{"send", filepath.Join(bundled, "github", "07-ping-new.http"), "--url", r.deliveries}, 1, "401 "},
		{[]string{"send", "-", "--config", file, "--producer", "shop", "--key",
			filepath.Join(filepath.Dir(file), "shop.pem"), "--id", "order-1"}, 0, "202 accepted"},
		{[]string{"send", "-", "--config", file, "--producer", "github", "-H", "X-GitHub-Event: ping", "--id",
			"ping-1"}, 0, "200 accepted"},
		{[]string{"send", "stripe", "--config", file, "--producer", "stripe"}, 0, "200 accepted"},
		{[]string{"send", "standard-webhooks", "--config", file, "--producer", "standard-webhooks"}, 0, "200 accepted"},
		{[]string{"events", "list", "--config", file}, 0, "order-1"},
		{[]string{"events", "list", "--config", file}, 0, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
	} {
		var out, errs bytes.Buffer
		p := &program{In: strings.NewReader(`{"type":"order.paid"}`), Out: &out, Err: &errs}
		if code := p.Run(context.Background(), tt.args...); code != tt.code ||
			!strings.Contains(out.String(), tt.says) {
			t.Errorf("%v: exit %d, %s%s", tt.args, code, out.String(), errs.String())
		}
	}
	r.stop()
	if code := <-r.ended; code != 0 {
		t.Errorf("exit %d: %s", code, r.errs.String())
	}
	if exists(filepath.Dir(file)) {
		t.Error("the folder of the run is left")
	}
}

func TestListsCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	file := configured(t, "")
	r := launch(t, "serve", "--config", file)
	push(t, http.DefaultClient, r.deliveries, "g-\u202e31m1", "{}")
	var out bytes.Buffer
	p := &program{In: strings.NewReader(""), Out: &out, Err: io.Discard}
	if code := p.Run(context.Background(), "events", "list", "--config", file); code != 0 {
		t.Fatalf("exit %d", code)
	}
	if !strings.Contains(out.String(), "g- 31m1") {
		t.Errorf("the list is %q", out.String())
	}
}
