package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

// startListen runs `eyelet listen` with secrets in home, and returns it with a function that waits
// for output.
func startListen(t *testing.T, home string, args ...string) (*running, func(want string) string) {
	t.Helper()
	up := make(chan string, 1)
	r := &running{out: &servertest.Buffer{}, errs: &servertest.Buffer{}}
	p := &program{In: strings.NewReader(""), Out: r.out, Err: r.errs, Environ: []string{"XDG_CONFIG_HOME=" + home,
		"SECRET=from-the-environment-17"}, Serving: func(l, _ string) { up <- l }}
	ended, ctx := make(chan int, 1), t.Context()
	go func() { ended <- p.Run(ctx, append([]string{"listen"}, args...)...) }()
	select {
	case at := <-up:
		r.deliveries = "http://" + at
	case code := <-ended:
		t.Fatalf("ended with %d: %s", code, r.errs.String())
	}
	return r, func(want string) string {
		eventually(t, want, func() bool { return strings.Contains(r.out.String(), want) })
		return r.out.String()
	}
}

// TestListenForwardsToAnApplication, with a secret that stays the same and that only its owner can
// read, and a line for each delivery.
func TestListenForwardsToAnApplication(t *testing.T) {
	t.Parallel()
	paths, home := make(chan string, 10), t.TempDir()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("X-Hub-Signature-256") == "" ||
			!strings.Contains(string(body), `"action":"opened"`) {
			t.Errorf("%v: %v %s", err, r.Header, body)
		}
		paths <- r.URL.Path
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(app.Close)
	at, wait := startListen(t, home, app.URL, "github", "stripe", "--listen", "127.0.0.1:0", "--secret",
		"stripe=${SECRET}")
	file := filepath.Join(home, "eyelet", "listen", "github.secret")
	kept, err := os.ReadFile(file)
	check(t, err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(home, "eyelet", "listen", "stripe.secret")); err == nil {
		t.Error("a given secret is kept")
	}
	code, _, errs := run(t, "send", "github", "issues", "--id", "d-17", "--secret-file", file, "--url",
		at.deliveries+"/webhooks/github")
	if code != exitOK {
		t.Fatal(code, errs)
	}
	if path := <-paths; path != "/webhooks/github" {
		t.Errorf("forwarded to %s", path)
	}
	if line := wait("forwarded"); !strings.Contains(line, "github") || !strings.Contains(line, "d-17") {
		t.Error(line)
	}
	run(t, "send", "stripe", "--secret-file", file, "--url", at.deliveries+"/webhooks/stripe")
	wait("401 signature mismatch")
	if all := at.out.String() + at.errs.String(); strings.Contains(all, "from-the-environment-17") {
		t.Errorf("a given secret is shown: %s", all)
	}
	second, _ := startListen(t, home, app.URL, "github", "--listen", "127.0.0.1:0")
	if shown := "secret: " + string(bytes.TrimSpace(kept)); !strings.Contains(second.errs.String(), shown) {
		t.Errorf("the second run shows %s, want %s", second.errs.String(), shown)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, kept) {
		t.Errorf("the secret was %s and is %s, %v", kept, again, err)
	}
}

// TestSendSignsForListen without any flag, for every preset that listen serves, and for files.
func TestSendSignsForListen(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	home, dir := t.TempDir(), t.TempDir()
	send := func(t *testing.T, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		p := &program{In: strings.NewReader(""), Out: &out, Err: &errs, Environ: []string{"XDG_CONFIG_HOME=" + home,
			"SECRET=from-the-environment-17"}}
		if code := p.Run(t.Context(), append([]string{"send"}, args...)...); code != exitOK {
			t.Errorf("%v: exit %d: %s%s", args, code, out.String(), errs.String())
		}
	}
	var names []string
	for _, vendor := range preset.All() {
		if _, err := trialOf(vendor, "s", ""); err == nil && vendor.Name != "gitlab" {
			names = append(names, vendor.Name)
		}
	}
	startListen(t, home, append([]string{app.URL, "--listen", "127.0.0.1:0"}, names...)...)
	startListen(t, home, app.URL, "gitlab", "--listen", "127.0.0.1:0", "--secret", "gitlab=${SECRET}")
	for _, name := range append(names, "gitlab") {
		send(t, name)
	}
	for _, name := range []string{"github-push.json", "stripe.json"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(`{"id":"evt_17","type":"invoice.paid"}`), 0o600))
	}
	t.Run("folder", func(t *testing.T) { send(t, dir) })
}

func TestListenRelaysTheResponse(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "tea is ready") // the client reports an error
	}))
	t.Cleanup(app.Close)
	home := t.TempDir()
	secret := filepath.Join(home, "secret")
	check(t, os.WriteFile(secret, []byte("from-the-environment-17"), 0o600))
	at, wait := startListen(t, home, app.URL+"/hooks", "github", "--relay", "--listen", "127.0.0.1:0", "-o", "json",
		"--secret", "github=${SECRET}")
	code, out, errs := run(t, "send", "github", "--secret-file", secret, "--url", at.deliveries+"/webhooks/github")
	if code != exitOK || !strings.Contains(out, "tea is ready") {
		t.Errorf("exit %d: %s %s", code, out, errs)
	}
	wait(`"producer":"github","type":"push"`)
}

// TestSamplesAndEventsAreSentByAKey: t sends a sample of each preset in turn, and r the last event
// again to the application, as it was.
func TestSamplesAndEventsAreSentByAKey(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signature := r.Header.Get("X-Hub-Signature-256") + r.Header.Get("Stripe-Signature")
		got <- r.URL.Path + " " + signature + string(body)
	}))
	t.Cleanup(app.Close)
	out, up, ended := &servertest.Buffer{}, make(chan string, 1), make(chan error, 1)
	f := &listenCmd{listen: "127.0.0.1:0", secrets: []string{"stripe=${SECRET}"}, program: &program{Out: out,
		Err: out, Environ: []string{"XDG_CONFIG_HOME=" + t.TempDir(), "SECRET=from-the-environment-17"},
		Serving: func(string, string) { up <- "" }}}
	check(t, f.parse([]string{app.URL, "github", "stripe"}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- f.run(ctx) }()
	<-up
	for _, want := range []string{"/webhooks/github sha256=", "/webhooks/stripe t=", "/webhooks/github sha256="} {
		f.press(ctx, 't')
		first := <-got
		if !strings.HasPrefix(first, want) {
			t.Errorf("t sends %s, want %s...", first, want)
		}
		eventually(t, "its line", func() bool { return strings.Count(out.String(), "forwarded") == f.samples })
		f.press(ctx, 'r')
		if again := <-got; again != first {
			t.Errorf("r sends %s, not %s", again, first)
		}
	}
	cancel()
	check(t, <-ended)
	if exists(f.sendsFrom("stripe")) || !exists(f.sendsFrom("github")) {
		t.Error("the given secret is left, or what send needs for the kept one is not")
	}
	f.press(t.Context(), 't')
	if !strings.Contains(out.String(), "eyelet: ") {
		t.Errorf("without a server t says nothing: %s", out)
	}
}

// TestKeysOfListen: a filter hides lines, its letters are no commands, and q ends.
func TestKeysOfListen(t *testing.T) {
	t.Parallel()
	out := &servertest.Buffer{}
	p := &program{Out: out, Err: out}
	f := &listenCmd{program: p, screen: newScreen(p, "text")}
	readKeys(strings.NewReader("r/qrx\x7f\rq/never read\r"), func(key byte) bool { return f.press(t.Context(), key) })
	if f.screen.filter != "qr" || !strings.Contains(out.String(), "there is no event yet") {
		t.Errorf("filter %q, %s", f.screen.filter, out)
	}
	f.screen.show(listenLine{Producer: "shown", Type: "a.QR.b"})
	f.screen.show(listenLine{Producer: "hidden", Type: "a.b"})
	if text := out.String(); !strings.Contains(text, "shown") || strings.Contains(text, "hidden") {
		t.Error(text)
	}
}
