package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// The child of the kill test opens the store in killDirEnv and prints what was acknowledged:
// "new ID EVENT", "known ID", "done EVENT".
const (
	killDirEnv   = "EYELET_KILL_DIR"
	killRoundEnv = "EYELET_KILL_ROUND"
	killFileEnv  = "EYELET_KILL_ACKED"
)

// childMain runs the child if this process is one.
func childMain() bool {
	dir := os.Getenv(killDirEnv)
	if dir == "" {
		return false
	}
	o := cramped()
	o.step = killAtStep()
	s, err := Open(dir, o)
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	acked, _ := os.ReadFile(os.Getenv(killFileEnv))
	c := &killChild{store: s, round: os.Getenv(killRoundEnv), before: strings.Fields(string(acked))}
	c.run()
	return true
}

type killChild struct {
	store  *Store
	round  string
	before []string
	mu     sync.Mutex
}

func (c *killChild) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (c *killChild) run() {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() { c.claim(n) })
	}
	for range 2 {
		wg.Go(c.work)
	}
	wg.Wait()
}

func (c *killChild) claim(n int) {
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s-%d-%d", c.round, n, i)
		if len(c.before) > 0 && i%3 == 0 {
			id = c.before[rand.IntN(len(c.before))]
		}
		ds, err := c.store.Claim(context.Background(), killClaim(id))
		switch {
		case err != nil:
			c.tell("error %v", err)
			return
		case ds[0].Verdict == dedup.New:
			c.tell("new %s %s", id, ds[0].Record.Event)
		default:
			c.tell("%s %s", ds[0].Verdict, id)
		}
	}
}

func (c *killChild) work() {
	for {
		work, err := c.store.Take(context.Background(), dedup.Want{Tasks: 16, Bytes: 1 << 20, Lease: time.Minute})
		if err != nil {
			c.tell("error %v", err)
			return
		}
		for _, w := range work {
			if want := killBody(w.Record.Key.ID); !bytes.Equal(w.Record.Payload.Body, want) {
				c.tell("error body of %s", w.Record.Key.ID)
			}
			if err := c.store.Finish(context.Background(), w.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
				c.tell("error %v", err)
				return
			}
			c.tell("done %s", w.Record.Event)
		}
	}
}

// killBody returns the body of an id: every hundredth is large.
func killBody(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	size := 200 + int(sum[0])*4
	if sum[1] < 2 {
		size = record.InlineMost + 1000 + int(sum[2])<<13 // more than a segment, or less
	}
	return bytes.Repeat(sum[:], size/len(sum)+1)[:size]
}

func killClaim(id string) dedup.Claim {
	return dedup.Claim{
		Key:      dedup.Key{Principal: "p", Endpoint: "e", ID: id},
		Payload:  dedup.Payload{Producer: "p", Endpoint: "e", Body: killBody(id)},
		Tasks:    []dedup.NewTask{{Handler: "h"}},
		Response: dedup.Response{Status: 202},
	}
}

// killed is the knowledge of the oracle: the acknowledgements of all children.
type killed struct {
	events map[string]string // by id
	done   map[string]bool   // by event
	known  int
	late   int         // reported after the power was cut
	cut    atomic.Bool // the power is cut: later reports promise nothing
}

func newKilled() *killed { return &killed{events: map[string]string{}, done: map[string]bool{}} }

func TestNothingAcknowledgedIsLostWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	rounds := faultdisk.Count(2, 25)
	dir := t.TempDir()
	k := newKilled()
	for round := range rounds {
		before := len(k.events) + len(k.done) + k.known
		k.child(t, dir, round)
		k.check(t, dir)
		if len(k.events)+len(k.done)+k.known == before {
			t.Errorf("the life made no progress")
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if len(k.events) == 0 || len(k.done) == 0 || k.known == 0 {
		t.Fatalf("%d events, %d finished, %d duplicates: the test tested nothing", len(k.events), len(k.done), k.known)
	}
	recycled(t, dir, rounds)
	t.Logf("%d rounds: %d events, %d finished, %d duplicates", rounds, len(k.events), len(k.done), k.known)
}

// child runs a child, kills it at some moment, and reads its output. The child may also kill
// itself, as env says.
func (k *killed) child(t *testing.T, dir string, round int, env ...string) {
	t.Helper()
	k.run(t, dir, round, env, func(p *os.Process) { _ = p.Kill() })
}

// run runs a child and ends it after some of its acknowledgements, of which one is of a finished
// event. A child that ends itself, as env says, is given a minute.
func (k *killed) run(t *testing.T, dir string, round int, env []string, end func(*os.Process)) {
	t.Helper()
	var ids []string
	for id := range k.events {
		ids = append(ids, id)
	}
	acked := t.TempDir() + "/acked"
	if err := os.WriteFile(acked, []byte(strings.Join(ids, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killDirEnv+"="+dir, killRoundEnv+"="+strconv.Itoa(round), killFileEnv+"="+acked)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, done, ended := bufio.NewReader(out), len(k.done), len(env) > 0
	for left := 20 + rand.IntN(500); ; left-- {
		line, err := lines.ReadString('\n')
		if err != nil { // a line without its end does not count
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
		if k.cut.Load() {
			k.late++
			continue
		}
		k.record(t, strings.Fields(line))
		if !ended && left <= 0 && len(k.done) > done {
			ended = true
			end(cmd.Process)
		}
	}
	if err := cmd.Wait(); err == nil && !k.cut.Load() { // a store without a disk may end it first
		t.Fatal("the child ended by itself")
	}
	if ctx.Err() != nil {
		t.Fatal("the child did not end")
	}
}

func (k *killed) record(t *testing.T, words []string) {
	t.Helper()
	switch words[0] {
	case "new":
		if event, ok := k.events[words[1]]; ok {
			t.Errorf("%s was new twice: %s and %s", words[1], event, words[2])
		}
		k.events[words[1]] = words[2]
	case "known":
		k.known++
	case "done":
		if k.done[words[1]] {
			t.Errorf("%s was finished twice", words[1])
		}
		k.done[words[1]] = true
	default:
		t.Errorf("the child said %q", words)
	}
}

// check opens the store and compares everything that was acknowledged.
func (k *killed) check(t *testing.T, dir string) {
	t.Helper()
	k.inspect(dir, t.Errorf)
}

func (k *killed) inspect(dir string, fault func(format string, args ...any)) {
	s, err := Open(dir, cramped())
	if err != nil {
		fault("%v", err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			fault("%v", err)
		}
	}()
	ctx := context.Background()
	for id, event := range k.events {
		r, err := s.Get(ctx, event)
		if err != nil {
			fault("%s: %v", id, err)
			continue
		}
		if r.Key.ID != id || !bytes.Equal(r.Payload.Body, killBody(id)) {
			fault("%s: record of %q with %d bytes", id, r.Key.ID, len(r.Payload.Body))
		}
		if k.done[event] && r.Tasks[0].State != dedup.Done {
			fault("%s was finished and is %v", id, r.Tasks[0].State)
		}
	}
	probes := 0
	for id, event := range k.events {
		if probes++; probes > 200 {
			break
		}
		ds, err := s.Claim(ctx, killClaim(id))
		if err != nil || ds[0].Verdict != dedup.Known || ds[0].Record.Event != event {
			fault("claim of %s again: %v, %v", id, ds, err)
		}
	}
}
