package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/freeport"
)

// server is a running eyelet serve with an endpoint for every sender.
type server struct {
	binary, dir, address string
	process              *exec.Cmd
	stdout, log          bytes.Buffer // to be read after the end of the process
}

// buildEyelet builds the binary and returns its file.
func buildEyelet(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "eyelet")
	build := exec.Command("go", "build", "-o", binary, "./cmd/eyelet")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// serve starts a server with an endpoint for every sender.
func serve(t *testing.T, binary string, keys map[string][2]string) *server {
	t.Helper()
	s := &server{binary: binary, dir: t.TempDir(), address: freeport.Address()}
	s.start(t, settings(s.address, keys))
	return s
}

// start writes eyelet.yaml and waits until the server has started.
func (s *server) start(t *testing.T, settings string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "eyelet.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process = s.command("serve")
	s.process.Stdout, s.process.Stderr = &s.stdout, &s.log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.process.Process.Kill() }) // fails if it has ended
	for range 600 {
		res, err := http.Get("http://" + s.address + "/policy")
		if err == nil {
			_ = res.Body.Close()
		}
		if err == nil && res.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	t.Fatalf("eyelet serve does not answer\n%s", &s.log)
}

func (s *server) command(args ...string) *exec.Cmd {
	c := exec.Command(s.binary, args...)
	c.Dir = s.dir
	return c
}

// settings returns eyelet.yaml.
func settings(address string, keys map[string][2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\noperations: \"off\"\nurl: %s\nstore: badger:./data\nproducers:\n", address, publicURL)
	for _, s := range senders {
		fmt.Fprintf(&b, "  %s: "+s.settings+"\n", s.name, strconv.Quote(keys[s.name][1]))
	}
	b.WriteString("handlers:\n")
	for _, s := range senders {
		fmt.Fprintf(&b, "  - {producer: %s, type: \"*\", stdout: true}\n", s.name)
	}
	return b.String()
}

// stop ends the server, which finishes its work first.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.process.Wait(); err != nil {
		t.Fatalf("eyelet serve: %v\n%s", err, &s.log)
	}
	if t.Failed() {
		t.Logf("the log of eyelet serve:\n%s", &s.log)
	}
}

// events returns the states of the stored events of each endpoint. A quarantined one has the
// reason.
func (s *server) events(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, flags := range [][]string{nil, {"--quarantined"}} {
		out, err := s.command(append([]string{"events", "list", "--all", "-o", "json"}, flags...)...).Output()
		if err != nil {
			t.Fatalf("eyelet events list: %v", err)
		}
		for line := range bytes.Lines(out) {
			var e struct {
				Endpoint, State string
				Reason          string `json:"quarantined"`
			}
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			if (e.Reason != "") != (flags != nil) {
				continue
			}
			if e.Reason != "" {
				e.State = "quarantined: " + e.Reason
			}
			all[e.Endpoint] = append(all[e.Endpoint], e.State)
		}
	}
	return all
}

// handled returns what the handlers of each endpoint got: the payload as JSON or as a text.
func (s *server) handled(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for line := range bytes.Lines(s.stdout.Bytes()) {
		var e struct {
			Endpoint, Text string
			Data           json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		payload := "JSON " + string(e.Data)
		if e.Data == nil {
			payload = "text " + e.Text
		}
		all[e.Endpoint] = append(all[e.Endpoint], payload)
	}
	return all
}
