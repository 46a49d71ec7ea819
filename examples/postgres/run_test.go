package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestTheScriptCountsEveryPaymentOnce runs the script, which starts a server of its own.
func TestTheScriptCountsEveryPaymentOnce(t *testing.T) {
	pgtest.Programs(t)
	cmd := exec.CommandContext(t.Context(), "bash", "run.sh", "15")
	cmd.Env = append(os.Environ(), "DATABASE_URL=")
	for _, name := range []string{"PORT_ONE", "PORT_TWO"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		cmd.Env = append(cmd.Env, name+"="+port)
		_ = ln.Close()
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the counter counted 15\n") ||
		!strings.Contains(string(out), "receiver 1 was killed after 4 of 15 payments\n") {
		t.Errorf("%v: %s", err, out)
	}
}
