package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/internal/freeport"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestTheScriptCountsEveryPaymentOnce runs the script, which starts a server of its own.
func TestTheScriptCountsEveryPaymentOnce(t *testing.T) {
	pgtest.Programs(t)
	cmd := exec.CommandContext(t.Context(), "bash", "run.sh", "15")
	cmd.Env = append(os.Environ(), "DATABASE_URL=")
	for _, name := range []string{"PORT_ONE", "PORT_TWO"} {
		cmd.Env = append(cmd.Env, name+"="+strconv.Itoa(freeport.Port()))
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the counter counted 15\n") ||
		!strings.Contains(string(out), "receiver 1 was killed after 4 of 15 payments\n") {
		t.Errorf("%v: %s", err, out)
	}
}
