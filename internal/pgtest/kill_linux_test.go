package pgtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

// TestTheServerEndsWithAKilledTest kills a test that uses a server. It is the child if its
// environment says so.
func TestTheServerEndsWithAKilledTest(t *testing.T) {
	const child = "EYELET_PGTEST_CHILD"
	DSN(t)
	if os.Getenv(child) == "1" {
		fmt.Println("server", PID(), server.dir)
		select {}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "server" {
			pid, _ = strconv.Atoi(words[1])
			dir = words[2]
		}
	}
	if pid == 0 {
		t.Fatal("the child has no server")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(30 * time.Second); pgserver.Alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server %d of a killed process is still there", pid)
		}
	}
	other, err := pgserver.TempDir() // cleans up
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(other)
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}
