package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		t.Errorf("%v %v", info, err)
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

// TestActionsOfTheListOfListen: t sends a sample of each preset in turn, r the selected event again
// to the application, as it was, and d, c and e show a delivery.
func TestActionsOfTheListOfListen(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signature := r.Header.Get("X-Hub-Signature-256") + r.Header.Get("Stripe-Signature")
		got <- r.URL.Path + " " + signature + string(body)
		w.Header().Set("Set-Cookie", "session=s3cr3t")
		_, _ = io.WriteString(w, "the kettle\x1b[2J is on")
	}))
	t.Cleanup(app.Close)
	out, up, ended := &servertest.Buffer{}, make(chan string, 1), make(chan error, 1)
	f := &listenCmd{listen: "127.0.0.1:0", format: "json", program: &program{
		Out: out, Err: out, Environ: []string{"XDG_CONFIG_HOME=" + t.TempDir(), "SECRET=from-the-environment-17"},
		Serving: func(at, _ string) { up <- at }}}
	f.secrets = []string{"stripe=${SECRET}", "gitlab=${SECRET}"}
	check(t, f.parse([]string{app.URL, "github", "stripe", "gitlab"}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- f.run(ctx) }()
	deliveries := "http://" + <-up
	keys := f.actions(ctx)
	if shown := keys["d"](nil); shown.Note != "there is no delivery yet" {
		t.Error(shown)
	}
	for i, want := range []string{"/webhooks/github sha256=", "/webhooks/stripe t=", "/webhooks/gitlab {"} {
		keys["t"](nil)
		first := <-got
		if !strings.HasPrefix(first, want) {
			t.Errorf("t sends %s, want %s...", first, want)
		}
		eventually(t, "its line", func() bool { return strings.Count(out.String(), `"state":"done"`) == i+1 })
		var line listenLine
		lines := out.String()
		check(t, json.Unmarshal([]byte(lines[strings.LastIndex(lines, `{"time"`):]), &line))
		if shown := keys["r"](line); !strings.HasPrefix(shown.Note, "sent again: 200") {
			t.Error(shown)
		}
		if again := <-got; again != first {
			t.Errorf("r sends %s, not %s", again, first)
		}
		text := keys["d"](line).Text
		for _, want := range []string{"\nRESPONSE\n200 OK\n", "Set-Cookie: REDACTED(14)\n", "\nthe kettle [2J is on\n",
			"\nDELIVERY\nid ", first[strings.Index(first, "{"):]} {
			if !strings.Contains(text, want) {
				t.Errorf("d shows %s\nwant %s", text, want)
			}
		}
		text = keys["c"](line).Text
		if !strings.Contains(text, "curl -g -X 'POST' '"+app.URL+"/webhooks/"+line.Producer+"' \\\n  -H 'C") ||
			!strings.Contains(out.String(), "\x1b]52;c;") {
			t.Errorf("c shows %s", text)
		}
		if strings.Contains(keys["d"](line).Text+text+out.String(), "from-the-environment-17") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	request := pushRequest(t, deliveries, "d1", "{}")
	request.URL.Path = "/webhooks/github"
	res, err := http.DefaultClient.Do(request)
	check(t, err)
	_ = res.Body.Close()
	refused := listenLine{Time: time.Now(), Producer: "github", Code: "signature_mismatch"}
	eventually(t, "the delivery is kept", func() bool {
		return strings.Contains(keys["d"](refused).Text, "signature_mismatch")
	})
	if text := keys["e"](refused).Text; !strings.Contains(text, "signature") {
		t.Errorf("e shows %s", text)
	}
	for _, key := range []string{"r", "c"} {
		if shown := keys[key](refused); !strings.HasPrefix(shown.Note, "it was refused") {
			t.Error(key, shown)
		}
	}
	cancel()
	check(t, <-ended)
	if exists(f.sendsFrom("stripe")) || !exists(f.sendsFrom("github")) {
		t.Error("the given secret is left, or what send needs for the kept one is not")
	}
	if shown := keys["t"](nil); !strings.Contains(shown.Note, "eyelet: ") {
		t.Errorf("without a server t says %q", shown)
	}
}

// TestListenChoosesWhatTheApplicationGets and what the sender gets: --status, also for retries, but
// not for what is refused.
func TestListenChoosesWhatTheApplicationGets(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.URL.Path + " " + r.Header.Get("X-GitHub-Event") + " " + r.Header.Get("X-Extra")
	}))
	t.Cleanup(app.Close)
	home := t.TempDir()
	at, wait := startListen(t, home, app.URL, "github", "--listen", "127.0.0.1:0", "--status", "503", "--events",
		"issues,pu*", "-H", "X-Extra: one", "--path", "hooks/here")
	file := filepath.Join(home, "eyelet", "listen", "github.secret")
	to := at.deliveries + "/webhooks/github"
	now := strconv.FormatInt(time.Now().Unix(), 10) // in the samples: the second push is the same event
	for _, typ := range []string{"star", "issues", "push", "push"} {
		code, out, errs := run(t, "send", "github", typ, "--id", typ, "--now", now, "--secret-file", file, "--url", to)
		if code != exitTransient || !strings.HasPrefix(out, "503") {
			t.Errorf("%s: exit %d: %s %s", typ, code, out, errs)
		}
	}
	requests := []string{<-got, <-got}
	slices.Sort(requests)
	if want := []string{"/hooks/here issues one", "/hooks/here push one"}; !slices.Equal(requests, want) {
		t.Errorf("the application gets %q", requests)
	}
	wait("503 replayed")
	check(t, os.WriteFile(file, []byte("another-secret-of-the-sender"), 0o600))
	if _, out, _ := run(t, "send", "github", "--secret-file", file, "--url", to); !strings.HasPrefix(out, "401") {
		t.Error(out)
	}
	for args, want := range map[string]string{
		"--status 99": "not a status", "--status 500 --relay": "leave one out", "-H x": "not NAME: VALUE",
		"--tunnel --url http://x.example": "leave one out",
		"--tunnel=wormhole":               `unknown program for tunnels "wormhole"`,
	} {
		code, _, errs := run(t, append([]string{"listen", "3000", "github"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
}

// TestListenStartsATunnel, whose address is in what it prints, and ends it.
func TestListenStartsATunnel(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	check(t, os.WriteFile(filepath.Join(dir, "ngrok"), []byte("#!/bin/sh\n"+
		"trap '/bin/sleep 0.2; echo ended > "+dir+"/ended; exit' INT\n"+
		"echo $* > "+dir+"/args\necho lvl=info url=https://tea.example\n"+
		"while :; do /bin/sleep 0.01; done\n"), 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, up := &servertest.Buffer{}, &servertest.Buffer{}, make(chan string, 1)
	p := &program{In: strings.NewReader(""), Out: out, Err: errs,
		Environ: []string{"XDG_CONFIG_HOME=" + t.TempDir()}, Serving: func(at, _ string) { up <- at }}
	ended := make(chan int, 1)
	go func() { ended <- p.Run(ctx, "listen", "3000", "github", "--listen", "127.0.0.1:0", "--tunnel") }()
	select {
	case <-up:
	case code := <-ended:
		t.Fatal(code, errs)
	}
	if !strings.Contains(errs.String(), "https://tea.example/webhooks/github") {
		t.Error(errs)
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Error(code, errs)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	check(t, err)
	if !strings.HasPrefix(string(args), "http 127.0.0.1:") || !exists(filepath.Join(dir, "ended")) {
		t.Errorf("arguments %s, or the program was not interrupted", args)
	}
}
