package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
)

// refuse sends a request that is refused, and returns its status.
func refuse(t *testing.T, target, body string, header ...string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, target, strings.NewReader(body))
	check(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	check(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// refusedLines returns the list, once it has n lines: a delivery is kept after it was answered.
func refusedLines(t *testing.T, n int, args ...string) (all []inspect.Refused) {
	t.Helper()
	eventually(t, "deliveries are kept", func() bool {
		out, _ := command(t, 0, "", append([]string{"events", "refused", "-o", "json"}, args...)...)
		all = nil
		for line := range strings.Lines(out) {
			var d inspect.Refused
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			all = append(all, d)
		}
		return len(all) == n
	})
	return all
}

func TestRefusedDeliveriesAreShown(t *testing.T) {
	t.Parallel()
	file := configured(t, "  gl: {preset: gitlab, secret: [gitlab-secret]}\nredact: [\"query:k\"]\n")
	s := launch(t, "serve", "--config", file)
	const secret = "s3cr3t-credential"
	status := refuse(t, s.deliveries+"/webhooks/gh?k=s3cr3t-parameter", `{"a":1}`, "X-Hub-Signature-256", "sha256=00",
		"Authorization", "Bearer "+secret, "Content-Type", "application/json", "X-GitHub-Event", "push")
	if status != 401 {
		t.Fatal("status", status)
	}
	refusedLines(t, 1, "--config", file)
	// An unknown path has no producer, and a credential of any may be in it.
	if status := refuse(t, s.deliveries+"/webhooks/ghx", `{"a":1}`, "X-Gitlab-Token", secret); status != 404 {
		t.Fatal("status", status)
	}
	lines := refusedLines(t, 2, "--config", file)
	if d := lines[1]; d.Number != 1 || d.Endpoint != "gh" || d.Status != 401 || d.Peer != "127.0.0.1" || d.Size != 7 ||
		d.Target != "/webhooks/gh?k=REDACTED(16)" || d.Code == "" || d.Why == "" {
		t.Errorf("%+v", d)
	}
	if d := lines[0]; d.Number != 2 || d.Endpoint != "" || d.Code != "not_found" {
		t.Errorf("%+v", d)
	}
	refusedLines(t, 1, "--config", file, "--endpoint", "gh", "--since", "1h")
	refusedLines(t, 1, "--config", file, "--code", "not_found")

	saved := filepath.Join(t.TempDir(), "r.http")
	outputs, _ := command(t, 0, "", "events", "refused", "1", "--config", file)
	for _, want := range []string{
		"signature_", "REDACTED(24)", `{"a":1}`, "X-Hub-Signature-256: sha256=00", "whole, 7 bytes",
	} {
		if !strings.Contains(outputs, want) {
			t.Errorf("no %q in\n%s", want, outputs)
		}
	}
	for _, args := range [][]string{{"1", "-o", "json"}, {"2"}, {"2", "-o", "json"}, {}, {"1", "--save", saved}} {
		out, errs := command(t, 0, "", append([]string{"events", "refused", "--config", file}, args...)...)
		outputs += out + errs
	}
	info, err := os.Stat(saved)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(saved)
	check(t, err)
	outputs += string(text) + scraped(t, s) + everything(t, filepath.Dir(file)) + s.errs.String() + s.out.String()
	if strings.Contains(outputs, "s3cr3t") {
		t.Error("a credential is in an output")
	}
	if !strings.Contains(outputs, "eyelet_refused_kept 2") {
		t.Error("the metric does not count")
	}
	rec, err := httpfile.Parse("r", text)
	if err != nil || string(rec.Body) != `{"a":1}` || rec.Note("producer") != "gh" {
		t.Errorf("%v, %+v", err, rec)
	}
	if out, _ := command(t, 1, "", "verify", saved, "--config", file); !strings.Contains(out, lines[1].Code) {
		t.Errorf("the saved delivery: %s", out)
	}
}

func TestRefusedDeliveriesAreSafeOnATerminal(t *testing.T) {
	t.Parallel()
	file := configured(t, "")
	s := launch(t, "serve", "--config", file)
	long := strings.Repeat("A", 10_000)
	refuse(t, s.deliveries+"/webhooks/gh?"+long, "\x00\x1b[31m\x9b\u202e\xff\u009b31m",
		"X-Hub-Signature-256", "sha256=0", "X-GitHub-Event", "\u202e")
	refusedLines(t, 1, "--config", file)
	refuse(t, s.deliveries+"/webhooks/gh?\u202e", "\x1b[31m \u202e \u009b31m",
		"X-Hub-Signature-256", strings.Repeat("\u202e\t", 3000))
	refusedLines(t, 2, "--config", file)
	refuse(t, s.deliveries+"/webhooks/gh", "", "X-GitHub-Event", "<b>"+long)
	refusedLines(t, 3, "--config", file)
	for _, args := range [][]string{{}, {"1"}, {"2"}, {"-o", "json"}, {"1", "-o", "json"}, {"2", "-o", "json"}, {"3"}} {
		out, _ := command(t, 0, "", append([]string{"events", "refused", "--config", file}, args...)...)
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%v: %q", args, out[max(0, i-40):min(len(out), i+40)])
		}
		if len(args) == 0 && len(out) > 2000 {
			t.Errorf("the list has %d bytes", len(out))
		}
	}
}

func TestWrongRequestsForRefusedDeliveries(t *testing.T) {
	t.Parallel()
	file := configured(t, "")
	if _, errs := command(t, 1, "", "events", "refused", "--config", file); !strings.Contains(errs, "no server runs") {
		t.Error(errs)
	}
	launch(t, "serve", "--config", file)
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{0, "no refused deliveries", nil}, {1, "no refused delivery 7", []string{"7"}},
		{1, "no refused delivery 7", []string{"7", "--save", filepath.Join(t.TempDir(), "x")}},
		{2, "is not the number", []string{"x"}}, {2, "is not the number", []string{"--", "-1"}},
		{2, "--save needs the number", []string{"--save", "x"}}, {2, "--since", []string{"--since", "x"}},
		{2, "--limit", []string{"--limit", "0"}},
	} {
		_, errs := command(t, tt.code, "", append([]string{"events", "refused", "--config", file}, tt.args...)...)
		if !strings.Contains(errs, tt.want) {
			t.Errorf("%v: %s", tt.args, errs)
		}
	}
	off := configured(t, "refused: off\n")
	launch(t, "serve", "--config", off)
	if _, errs := command(t, 1, "", "events", "refused", "--config", off); !strings.Contains(errs, "refused: off") {
		t.Error(errs)
	}
}

func TestRefusedDeliveriesAreFilesBesideTheStore(t *testing.T) {
	t.Parallel()
	file := configured(t, "refused: disk\n")
	dir := filepath.Dir(file)
	s := launch(t, "serve", "--config", file)
	const secret = "s3cr3t-credential"
	refuse(t, s.deliveries+"/webhooks/gh?token=x", `{"a":1}`, "X-Hub-Signature-256", "sha256=00", "Cookie", secret)
	refusedLines(t, 1, "--config", file)
	s.stop()
	if code := <-s.ended; code != 0 {
		t.Fatal("exit", code, s.errs.String())
	}
	found, err := filepath.Glob(filepath.Join(dir, "data", "refused", "*-1.http"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if strings.Contains(everything(t, dir), secret) {
		t.Error("a credential is in a file")
	}
	if out, _ := command(t, 1, "", "verify", found[0], "--config", file); !strings.Contains(out, "signature_") {
		t.Error(out)
	}
	command(t, 0, "", "store", "check", "--config", file) // the folder is not the store's
	launch(t, "serve", "--config", file)
	refusedLines(t, 0, "--config", file)
}
