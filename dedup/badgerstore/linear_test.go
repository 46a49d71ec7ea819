package badgerstore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
	"github.com/eyelet-dev/eyelet/internal/history"
)

// The child of the history test makes random calls of the store in linearDirEnv. It prints
// every call as a line of JSON, at its start and at its end.
const linearDirEnv = "EYELET_LINEAR_DIR"

// linearClients is the number of concurrent callers.
const linearClients = 6

func linearMain() bool {
	dir := os.Getenv(linearDirEnv)
	if dir == "" {
		return false
	}
	s, err := Open(dir, quiet())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true
	}
	var mu sync.Mutex
	lines := json.NewEncoder(os.Stdout)
	r := recorder(s)
	r.Note = func(o history.Operation) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(o)
	}
	var wg sync.WaitGroup
	for client := range linearClients {
		wg.Go(func() { _ = r.Run(context.Background(), client, 10000, rand.New(rand.NewPCG(rand.Uint64(), 1))) })
	}
	wg.Wait()
	return true
}

func recorder(s *Store) *history.Recorder {
	return &history.Recorder{Store: s, Keys: 30, Now: func() int64 { return time.Now().UnixNano() }}
}

func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	for round := range faultdisk.Count(2, 5) {
		s := open(t, t.TempDir(), quiet())
		ops, err := recorder(s).History(t.Context(), linearClients, 60, rand.Uint64())
		if err != nil {
			t.Error(err)
		}
		if len(ops) < 100 {
			t.Errorf("only %d calls", len(ops))
		}
		if err := history.CheckLinearizable(ops); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// TestHistoriesAcrossKillsAreLinearizable kills the process during the history, again and
// again. Calls in flight may have happened before the restart, or not at all.
func TestHistoriesAcrossKillsAreLinearizable(t *testing.T) {
	t.Parallel()
	for range faultdisk.Count(1, 3) {
		dir := t.TempDir()
		var all []history.Operation
		whole, cut := 0, 0
		for life := range 4 {
			ops := oneLife(t, dir, life)
			for _, o := range ops {
				if o.Effect.Unknown {
					cut++
				} else {
					whole++
				}
			}
			all = append(all, ops...)
		}
		if whole < 40 || cut == 0 {
			t.Errorf("%d calls and %d that were cut off: the test tested nothing", whole, cut)
		}
		if err := history.CheckLinearizable(all); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d calls, %d of them cut off by a kill", whole, cut)
	}
}

// oneLife runs a child, kills it, and returns its history: the restart of the store, the calls
// with an end, and the others as unknown.
func oneLife(t *testing.T, dir string, life int) []history.Operation {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), linearDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now().UnixNano()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := map[int64]history.Operation{}
	ops := []history.Operation{{Client: life * 100, Call: history.Call{Restart: true}, Began: started}}
	lines, last := bufio.NewScanner(out), 40+rand.IntN(60)
	for n := 0; lines.Scan(); n++ {
		var o history.Operation
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			break // cut off by the kill
		}
		if n == 0 {
			ops[0].Ended = o.Began - 1
		}
		if n == last {
			_ = cmd.Process.Kill()
		}
		o.Client += life*100 + 1
		switch {
		case o.Ended == 0:
			begun[o.ID] = o
		case o.Void:
			delete(begun, o.ID)
		default:
			delete(begun, o.ID)
			ops = append(ops, o)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	dead := time.Now().UnixNano()
	if ops[0].Ended == 0 {
		ops[0].Ended = dead
	}
	for _, o := range begun {
		o.Effect.Unknown, o.Ended = true, dead
		ops = append(ops, o)
	}
	return ops
}
