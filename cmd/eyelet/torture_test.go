package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/torture"
)

// childDir names the folder of the torture run whose child this test binary is.
const childDir = "EYELET_TEST_TORTURE_DIR"

// TestTortureChild is not a test: it is the receiver that TestKillsLoseNothing kills.
func TestTortureChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("the child of TestKillsLoseNothing")
	}
	if err := torture.Child(t.Context(), dir, os.Stdout, sabotageOf(os.Getenv(childSabotage), dir)); err != nil {
		t.Fatal(err)
	}
}

// TestKillsLoseNothing kills a receiver again and again under load, 25 times with EYELET_LONG. The
// command torture has more.
func TestKillsLoseNothing(t *testing.T) {
	rounds := 6
	if os.Getenv("EYELET_LONG") != "" {
		rounds = 25
	}
	sum := tortureOne(t, &torture.Harness{Rounds: rounds})
	if sum.Acknowledged == 0 || sum.Duplicates == 0 || sum.Crashes == 0 || sum.Laned == 0 || sum.Answered == 0 {
		t.Error("the run proved nothing: it needs acknowledgements, duplicates, crashers, lanes and answers")
	}
}

// tortureOne runs a short torture of one receiver.
func tortureOne(t *testing.T, run *torture.Harness) torture.Tally {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run.Dir, run.Clients, run.Seed = t.TempDir(), 8, uint64(time.Now().UnixNano())
	if err := os.Chmod(filepath.Dir(run.Dir), 0o711); err != nil { // a database does not run as root
		t.Fatal(err)
	}
	run.MinLife, run.MaxLife, run.Progress = 20*time.Millisecond, 200*time.Millisecond, testLog{t}
	run.Child = func(dir string) []string {
		return []string{"/usr/bin/env", childDir + "=" + dir, self, "-test.run=^TestTortureChild$"}
	}
	t.Logf("seed %d", run.Seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	sum, err := run.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", sum)
	if sum.Broken() {
		t.Error("the promise was broken")
	}
	return sum
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

var _ io.Writer = testLog{}
