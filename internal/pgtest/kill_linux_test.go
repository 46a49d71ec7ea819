package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNothingIsLeftOfAKilledTest kills a test whose server runs, was killed, or was killed and
// stopped. It is the child if its environment says so. All processes that descend from the
// child have the writing end of a pipe, which is closed when the last of them has ended.
func TestNothingIsLeftOfAKilledTest(t *testing.T) {
	t.Parallel()
	const child = "EYELET_PGTEST_CHILD"
	Programs(t)
	if state := os.Getenv(child); state != "" {
		DSN(t)
		Pooler(t)
		lock, err := os.ReadFile(filepath.Join(server.dir, "data", "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		dir, memory := server.dir, strings.Fields(strings.Split(string(lock), "\n")[6])[1]
		if state != "runs" {
			server.postgres.Kill()
		}
		if state == "stopped" {
			Stop()
		}
		fmt.Println("server", dir, memory)
		select {}
	}
	for _, state := range []string{"runs", "crashed", "stopped"} {
		end, lifeline, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"="+state, existing+"=")
		cmd.ExtraFiles = []*os.File{lifeline}
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start(), lifeline.Close()); err != nil {
			t.Fatal(err)
		}
		var words []string
		for lines := bufio.NewScanner(out); len(words) == 0 && lines.Scan(); {
			if line, is := strings.CutPrefix(lines.Text(), "server "); is {
				words = strings.Fields(line)
			}
		}
		err = errors.Join(cmd.Process.Kill(), end.SetReadDeadline(time.Now().Add(30*time.Second)))
		if _ = cmd.Wait(); err != nil || len(words) != 2 {
			t.Fatalf("%s: the child has %q, %v", state, words, err)
		}
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("%s: processes of the child are left: %v", state, err)
		}
		if _, err := os.Stat(words[0]); err == nil {
			t.Errorf("%s: %s is left", state, words[0])
		}
		memory, err := os.ReadFile("/proc/sysvipc/shm")
		if err != nil || strings.Contains(string(memory), " "+words[1]+" ") {
			t.Errorf("%s: the shared memory %s is left, %v", state, words[1], err)
		}
	}
}
