package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

// childSabotage names the fault of the child's store; the child is this test binary, because the
// program has no faults to inject. "claim-after 17" kills the child after its 17th Claim and
// records it in a file.
const childSabotage = "EYELET_TEST_TORTURE_SABOTAGE"

// sabotageOf returns the store to insert between the receiver and Badger.
func sabotageOf(name, dir string) func(dedup.Store) dedup.Store {
	switch name {
	case "":
		return nil
	case "early":
		return func(s dedup.Store) dedup.Store {
			return early{s, memstore.New(memstore.Options{})}
		}
	}
	if point, at, ok := strings.Cut(name, " "); ok {
		var n int64
		if _, err := fmt.Sscan(at, &n); err != nil {
			panic(err)
		}
		return func(s dedup.Store) dedup.Store { return &mined{Store: s, dir: dir, point: point, left: n} }
	}
	return func(s dedup.Store) dedup.Store { return bent{s, name} }
}

// early acknowledges before the commit: it decides in memory, and stores a little later.
type early struct {
	dedup.Store
	front *memstore.Store
}

func (e early) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	if slices.ContainsFunc(claims, func(c dedup.Claim) bool { return c.Hold || c.OnlyKnown }) {
		return e.Store.Claim(ctx, claims...)
	}
	decisions, err := e.front.Claim(ctx, claims...)
	time.AfterFunc(50*time.Millisecond, func() { _, _ = e.Store.Claim(context.Background(), claims...) })
	return decisions, err
}

// bent has one fault.
type bent struct {
	dedup.Store
	wrong string
}

func (b bent) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	claims = slices.Clone(claims)
	for i := range claims {
		c := &claims[i]
		switch b.wrong {
		case "always-new":
			if !c.Hold { // those would always fail at their first attempt
				c.Key.Space, c.Aliases, c.Occurrence, c.Former = rand.Text(), nil, nil, nil
			}
		case "other-payload":
			c.Payload.Body = bytes.ToUpper(c.Payload.Body)
		case "no-lanes":
			c.Tasks = slices.Clone(c.Tasks)
			for j := range c.Tasks {
				c.Tasks[j].Lane = ""
			}
		}
	}
	decisions, err := b.Store.Claim(ctx, claims...)
	for i := range decisions {
		if b.wrong == "other-answers" && decisions[i].Verdict == dedup.Known {
			a := &decisions[i].Record.Response
			a.Body = append(bytes.Clone(a.Body), '!')
		}
	}
	return decisions, err
}

func (b bent) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	for {
		works, err := b.Store.Take(ctx, want)
		if b.wrong != "never-run" {
			return works, err
		}
		kept := works[:0]
		for _, w := range works {
			if w.Record.Seq%10 != 0 {
				kept = append(kept, w)
			} else if err := b.Finish(ctx, w.Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
				return kept, err
			}
		}
		if len(kept) > 0 || err != nil {
			return kept, err
		}
	}
}

// Finish delays retries, so that only a lane keeps a later task from running first.
func (b bent) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	if b.wrong == "no-lanes" && r.Kind == dedup.ResultRetry {
		r.After += 200 * time.Millisecond
	}
	return b.Store.Finish(ctx, l, r)
}

// FinishMany implements dedup.Store.
func (b bent) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	return deduptest.FinishEach(ctx, b, results)
}

// mined kills its process at one point.
type mined struct {
	dedup.Store
	dir, point string
	left       int64
}

func (m *mined) at(point string) {
	if point != m.point || atomic.AddInt64(&m.left, -1) != 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(m.dir, point), nil, 0o600); err != nil {
		panic(err)
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

func (m *mined) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	m.at("claim-before")
	defer m.at("claim-after")
	return m.Store.Claim(ctx, claims...)
}

func (m *mined) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	m.at("take-before")
	defer m.at("take-after")
	return m.Store.Take(ctx, want)
}

func (m *mined) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	kind := "finish"
	if r.Response.Status != 0 {
		kind = "answer"
	}
	m.at(kind + "-before")
	defer m.at(kind + "-after")
	return m.Store.Finish(ctx, l, r)
}

// FinishMany implements dedup.Store.
func (m *mined) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	return deduptest.FinishEach(ctx, m, results)
}

// lines is what a command prints, also from several goroutines at once.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// tortured runs a short torture of a receiver that breaks a promise, and returns the output and
// the counts.
func tortured(t *testing.T, wrong string) (said string, sum campaign.Tally, code int) {
	t.Helper()
	var out bytes.Buffer
	var errs lines
	self := childOf(t, "", childSabotage+"="+wrong)
	p := program{out: &out, err: &errs, child: self[:len(self)-2]}
	code = p.run(t.Context(), []string{"--rounds", "2", "--clients", "4", "--dir", t.TempDir(), "-o", "json"})
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, errs.String())
	}
	return errs.String(), sum, code
}

// TestTortureSeesEveryKindOfBrokenPromise runs the command over stores that each do one thing
// wrong.
func TestTortureSeesEveryKindOfBrokenPromise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wrong, finding string
		of             func(campaign.Tally) int
	}{
		{"early", "acknowledged and gone", func(t campaign.Tally) int { return t.Lost }},
		{"always-new", "accepted twice", func(t campaign.Tally) int { return t.Doubled }},
		{"other-answers", "first answered", func(t campaign.Tally) int { return t.Wrong }},
		{"other-payload", "stored with another payload", func(t campaign.Tally) int { return t.Damaged }},
		{"never-run", "never ran", func(t campaign.Tally) int { return t.Unhandled }},
		{"no-lanes", "not in that order", func(t campaign.Tally) int { return t.Disordered }},
	} {
		t.Run(tc.wrong, func(t *testing.T) {
			t.Parallel()
			// A busy machine does little in two rounds: a violation that needs chance, such as a
			// wrong order, gets more.
			for try := range 16 {
				said, sum, code := tortured(t, tc.wrong)
				if code == exitFailed && tc.of(sum) > 0 && strings.Contains(said, "the promise was broken") &&
					strings.Contains(said, "BROKEN: ") && strings.Contains(said, tc.finding) {
					return
				}
				t.Logf("try %d: exit %d, %+v", try, code, sum)
			}
			t.Errorf("%q was not found", tc.finding)
		})
	}
}

// TestAKillAtEachStepOfADeliveryBreaksNothing kills the child before and after each step of the
// store for a delivery or a task, and checks everything in the end.
func TestAKillAtEachStepOfADeliveryBreaksNothing(t *testing.T) {
	t.Parallel()
	var points []string
	for _, step := range []string{"claim", "take", "finish", "answer"} {
		for _, when := range []string{"-before", "-after"} {
			points = append(points, step+when)
		}
	}
	starts := 0
	run := &campaign.Harness{
		Dir: t.TempDir(), Rounds: len(points), Clients: 8, Seed: uint64(time.Now().UnixNano()), NoCrashers: true,
		MinLife: 30 * time.Second, MaxLife: 30 * time.Second, // the child is killed before
		Progress: testLog{t},
	}
	run.Child = func(dir string) []string {
		var sabotage []string
		if starts < run.Rounds {
			sabotage = append(sabotage, fmt.Sprintf("%s=%s %d", childSabotage, points[starts], 10+starts))
		}
		starts++
		return childOf(t, dir, sabotage...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sum, err := run.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", sum)
	if sum.Broken() || sum.Laned == 0 || sum.Answered == 0 {
		t.Error("the promise was broken, or nothing was tried")
	}
	for _, point := range points {
		if _, err := os.Stat(filepath.Join(run.Dir, point)); err != nil {
			t.Errorf("no child was killed at %s: %v", point, err)
		}
	}
}
