package badgerstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// killStepEnv makes the child of the kill tests end itself: "2 17" means before step 2 of the
// 17th commit since its store was opened.
const killStepEnv = "EYELET_KILL_STEP"

// killAtStep returns the hook that kills the process where the environment says, by a signal
// that cannot be handled.
func killAtStep() func(commitStep) {
	text := os.Getenv(killStepEnv)
	if text == "" {
		return nil
	}
	var at commitStep
	var countdown int
	if _, err := fmt.Sscan(text, &at, &countdown); err != nil {
		panic(err)
	}
	return func(now commitStep) {
		if now != at {
			return
		}
		if countdown--; countdown <= 0 {
			killSelf()
			select {} // the signal is on its way
		}
	}
}

// killSelf ends this process as SIGKILL does, possibly a moment later.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
}

// TestAKillBeforeEachStepOfACommitLosesNothing kills the process before each step of a commit
// in turn, early and late in its life, over the same store.
func TestAKillBeforeEachStepOfACommitLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKilled()
	round := 0
	for _, commit := range []int{2, 40} {
		for at := stepStage; at < stepEnd; at++ {
			round++
			// Twice the rounds of the oracle's numbers, so that identifiers differ from the others.
			k.child(t, dir, round, killStepEnv+"="+strconv.Itoa(int(at))+" "+strconv.Itoa(commit))
			k.check(t, dir)
			if t.Failed() {
				t.Fatalf("killed before step %d of commit %d", at, commit)
			}
		}
	}
	if len(k.events) == 0 || len(k.done) == 0 {
		t.Fatalf("%d events, %d finished: the test tested nothing", len(k.events), len(k.done))
	}
	t.Logf("%d kills: %d events, %d finished, %d duplicates", round, len(k.events), len(k.done), k.known)
}

// handlerDirEnv is the directory of the store of a child whose handler kills the process.
const handlerDirEnv = "EYELET_HANDLER_DIR"

// handlerMain runs the child if this process is one. A worker waits, an event arrives, and the
// handler ends the process. It prints which attempt it is.
func handlerMain() bool {
	dir := os.Getenv(handlerDirEnv)
	if dir == "" {
		return false
	}
	s, err := Open(dir, quiet())
	if err != nil {
		fmt.Println(err)
		return true
	}
	go func() {
		_, err := s.Claim(context.Background(), claimOf("a"))
		if err != nil {
			fmt.Println(err)
		}
	}()
	work, err := s.Take(context.Background(), dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute})
	if err != nil {
		fmt.Println(err)
		return true
	}
	fmt.Println(work[0].Task().Attempt)
	killSelf()
	select {}
}

// TestAHandlerThatKillsTheProcessUsesUpItsAttempts starts the same task in one process after the
// other.
func TestAHandlerThatKillsTheProcessUsesUpItsAttempts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for attempt := 1; attempt <= 4; attempt++ {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), handlerDirEnv+"="+dir)
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err == nil || got != strconv.Itoa(attempt) {
			t.Fatalf("attempt %q, want %d; %v", got, attempt, err)
		}
	}
}

// TestTheOracleOfTheKillTestsSeesALoss makes sure that the oracle can fail: its ledger lists an
// event that never existed.
func TestTheOracleOfTheKillTestsSeesALoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKilled()
	k.child(t, dir, 1, killStepEnv+"=4 10")
	s := open(t, dir, quiet())
	shut(t, s)
	never := record.EventID(record.HashOf(killClaim("never").Key), 7)
	probe := &killed{events: map[string]string{"never": never}, done: map[string]bool{}}
	var found []string
	probe.inspect(dir, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	if len(found) == 0 || !strings.Contains(found[0], "never") {
		t.Errorf("an event that is not there is found: %v", found)
	}
}
