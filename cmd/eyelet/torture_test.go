package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
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

func TestALineOfEffectsThatAKillBrokeOffIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effects.log")
	for _, text := range []string{"first e1 id1 aa" + lineEnd + "\nsecond e1 id1 a", "second e1 id1 aa" + lineEnd + "\n"} {
		file, err := openEffects(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log, err := readEffects(path)
	if err != nil || log.lines != 2 || len(log.of["first id1"]) != 1 || len(log.of["second id1"]) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
}
