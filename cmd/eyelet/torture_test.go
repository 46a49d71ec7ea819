package main

import (
	"context"
	"io"
	"os"
	"strconv"
	"testing"
	"time"
)

// childDir names the folder of the torture run whose child this test binary is.
const childDir = "EYELET_TEST_TORTURE_DIR"

// TestTortureChild is no test: it is the receiver that TestKillsLoseNothing kills.
func TestTortureChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("the child of TestKillsLoseNothing")
	}
	if err := tortureChild(t.Context(), dir, os.Stdout, sabotageOf(os.Getenv(childSabotage), dir)); err != nil {
		t.Fatal(err)
	}
}

// TestKillsLoseNothing kills a receiver again and again under load, 25 times by default; set EYELET_KILL_ROUNDS
// for more.
func TestKillsLoseNothing(t *testing.T) {
	rounds := 25
	if text := os.Getenv("EYELET_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := &torture{
		dir: t.TempDir(), rounds: rounds, clients: 8, seed: uint64(time.Now().UnixNano()),
		minLife: 20 * time.Millisecond, maxLife: 200 * time.Millisecond, progress: testLog{t},
		child: func(dir string) []string {
			return []string{"/usr/bin/env", childDir + "=" + dir, self, "-test.run=^TestTortureChild$"}
		},
	}
	t.Logf("seed %d", run.seed)
	if err := run.check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	sum, err := run.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", sum)
	if sum.bad() {
		t.Error("the promise was broken")
	}
	if sum.Acknowledged == 0 || sum.Duplicates == 0 || sum.Bombs == 0 || sum.Laned == 0 || sum.Answered == 0 {
		t.Error("the run proved nothing: it needs acknowledgements, duplicates, bombs, lanes and answers")
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

var _ io.Writer = testLog{}
