package browser_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

const secret = "a secret that only this test has"

// server is a running eyelet serve.
type server struct {
	binary, dir         string
	deliveries, address string // of the two ports
	log                 bytes.Buffer
}

// settings has handlers that succeed, always fail, and refuse until the file "fixed" exists.
const settings = `
url: http://%[1]s
listen: %[1]s
operations: %[2]s
store: badger:./data
inspector: send
limits: {attempts: 3, backoff_base: 1s, backoff_cap: 1s}
producers:
  gh: {preset: github, secret: [%[3]q]}
  stripe: {preset: stripe, secret: [whsec_%[4]s]}
handlers:
  - {producer: gh, type: push, exec: [/bin/true]}
  - {producer: gh, type: issues, exec: [/bin/sh, -c, "echo 'dial ledger:5432: connection refused' >&2; exit 1"]}
  - producer: gh
    type: release
    exec: [/bin/sh, -c, "test -e %[5]s/fixed || { echo 'no such project' >&2; exit 65; }"]
`

// serve builds the program, starts it and waits until it accepts deliveries.
func serve(t *testing.T) *server {
	t.Helper()
	s := &server{dir: t.TempDir(), deliveries: freeport.Address(), address: freeport.Address()}
	s.binary = filepath.Join(s.dir, "eyelet")
	build := exec.Command("go", "build", "-o", s.binary, "./cmd/eyelet")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	text := fmt.Sprintf(settings, s.deliveries, s.address, secret, strings.Repeat("c2VjcmV0", 4), s.dir)
	if err := os.WriteFile(filepath.Join(s.dir, "eyelet.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := s.command("serve")
	process.Stderr = &s.log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := process.Wait(); err != nil {
			t.Errorf("eyelet serve: %v", err)
		}
		if t.Failed() {
			t.Logf("the log of eyelet serve ends with:\n%s", s.log.Bytes()[max(0, s.log.Len()-4000):])
		}
	})
	eventually(t, "the server is ready", func() bool {
		res, err := http.Get("http://" + s.address + "/readyz")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	return s
}

func (s *server) command(args ...string) *exec.Cmd {
	c := exec.Command(s.binary, args...)
	c.Dir = s.dir
	return c
}

// output runs a command of the program.
func (s *server) output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(args...).Output()
	if err != nil {
		t.Fatalf("eyelet %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// token returns a token of the operations port.
func (s *server) token(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "data", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// deliver sends a signed delivery, or with a wrong signature, and requires the status.
func (s *server) deliver(t *testing.T, id, typ, body string, signed bool, want int) {
	t.Helper()
	over := body
	if !signed {
		over += "changed"
	}
	s.deliverSigned(t, id, typ, body, secret, over, want)
}

// deliverSigned sends a delivery that was signed with a secret over a body, which may be another.
func (s *server) deliverSigned(t *testing.T, id, typ, body, with, over string, want int) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(with))
	mac.Write([]byte(over))
	r, err := http.NewRequest(http.MethodPost, "http://"+s.deliveries+"/webhooks/gh", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Github-Event", typ)
	r.Header.Set("X-Github-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != want {
		t.Fatalf("delivery %s: status %d, want %d (%v)", id, res.StatusCode, want, err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}
