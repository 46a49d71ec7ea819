package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

// TestMain is the command in the processes that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childWord {
		p := program{out: os.Stdout, err: os.Stderr, between: func(dir string) func(dedup.Store) dedup.Store {
			return sabotageOf(os.Getenv(childSabotage), dir)
		}}
		os.Exit(p.run(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// childOf returns the command line of a receiver, with variables of its environment.
func childOf(t *testing.T, dir string, variables ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]string{"/usr/bin/env"}, variables...), self, childWord, dir)
}

// TestKillsLoseNothing kills a receiver again and again under load, 25 times with EYELET_LONG. The
// command does it more often.
func TestKillsLoseNothing(t *testing.T) {
	rounds := 6
	if os.Getenv("EYELET_LONG") != "" {
		rounds = 25
	}
	sum := tortureOne(t, &campaign.Harness{Rounds: rounds})
	if sum.Acknowledged == 0 || sum.Duplicates == 0 || sum.Crashes == 0 || sum.Laned == 0 || sum.Answered == 0 {
		t.Error("the run proved nothing: it needs acknowledgements, duplicates, crashers, lanes and answers")
	}
}

// tortureOne runs a short torture of one receiver.
func tortureOne(t *testing.T, run *campaign.Harness) campaign.Tally {
	t.Helper()
	run.Dir, run.Clients, run.Seed = t.TempDir(), 8, uint64(time.Now().UnixNano())
	if err := os.Chmod(filepath.Dir(run.Dir), 0o711); err != nil { // a database does not run as root
		t.Fatal(err)
	}
	run.MinLife, run.MaxLife, run.Progress = 20*time.Millisecond, 200*time.Millisecond, testLog{t}
	run.Child = func(dir string) []string { return childOf(t, dir) }
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
