package badgerstore

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

// The ways in which a life of the campaign ends.
const (
	endKill   = "kill"   // SIGKILL under load
	endOpen   = "open"   // SIGKILL while the store is opened
	endStep   = "step"   // SIGKILL before a step of a commit
	endPause  = "pause"  // SIGSTOP, SIGCONT, SIGKILL
	endPower  = "power"  // a power cut: unflushed writes are kept, dropped or torn
	endMarked = "marked" // the write that holds a certain body fails
	endWrite  = "write"  // some write fails
	endClose  = "close"  // SIGTERM
)

var campaignEnds = []string{endKill, endPower, endOpen, endMarked, endStep, endPower, endWrite, endPause,
	endPower, endClose}

// TestCampaign lets a store with small files live and end in every way, over and over. In each
// life memory tables are flushed, tables compacted, segments used again, value files reclaimed, and
// windows swept. No acknowledged event may be lost, accepted twice or changed, and no start may
// refuse what the machine did.
//
// It takes EYELET_LONG; EYELET_CAMPAIGN_LIVES is the number of lives, one of each end by default.
// EYELET_CAMPAIGN_SEED repeats the random choices of a campaign.
func TestCampaign(t *testing.T) {
	t.Parallel()
	lives, seed := len(campaignEnds), rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("EYELET_CAMPAIGN_LIVES")); err == nil {
		lives = n
	}
	if n, err := strconv.ParseUint(os.Getenv("EYELET_CAMPAIGN_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	c := &campaign{
		disk: faultdisk.New(t, 2<<30), chance: rand.New(rand.NewPCG(seed, 0)),
		ends: map[string]int{}, verbose: lives > len(campaignEnds),
	}
	for life := 0; life < lives || life < 2*lives && !c.lost(t); life++ {
		if life%campaignLives == 0 {
			c.begin(t, life)
		}
		end := campaignEnds[life%len(campaignEnds)]
		if life >= lives {
			end = endPower
		}
		c.live(t, life, end)
		if t.Failed() {
			t.Fatalf("in life %d, of store %s", life, c.dir)
		}
	}
	c.finish(t)
}

// lost reports whether a power cut dropped or tore a write. One in a hundred campaigns of few lives
// has only cuts that happen to keep everything, and goes on.
func (c *campaign) lost(t *testing.T) bool {
	t.Helper()
	stats, err := c.disk.Stats()
	c.must(t, err)
	return stats.Dropped+stats.Torn > 0
}

// campaignLives is the number of lives of a store.
const campaignLives = 45

type campaign struct {
	disk    *faultdisk.Disk
	dir     string
	ledger  *ledger
	chance  *rand.Rand
	verbose bool

	ends                              map[string]int
	accepted, known, finished, failed int
	warm                              int // starts over the page cache of a failed write
	// The largest number of damaged values of events that were never acknowledged.
	halves int
	hung   atomic.Int64 // children that did not end when their disk was gone
}

// childMax bounds the life of a child. One whose disk is gone may wait for it forever.
const childMax = 20 * time.Second

// begin starts with a new store.
func (c *campaign) begin(t *testing.T, life int) {
	t.Helper()
	if c.dir != "" {
		c.check(t)
		if err := os.RemoveAll(c.dir); err != nil {
			t.Fatal(err)
		}
	}
	c.dir, c.ledger = filepath.Join(c.disk.Dir, fmt.Sprintf("store-%d", life)), newLedger()
}

// progresses reports whether a life that ends so answers something before, however slow the machine
// is.
func progresses(end string) bool { return end == endKill || end == endPause || end == endClose }

// live runs one child and ends it.
func (c *campaign) live(t *testing.T, life int, end string) {
	t.Helper()
	c.ends[end]++
	name := fmt.Sprintf("L%d", life)
	var env []string
	switch end {
	case endStep:
		env = append(env, fmt.Sprintf("%s=%d %d", campaignStepEnv, c.chance.IntN(int(stepEnd)), 1+c.chance.IntN(60)))
	case endMarked:
		c.must(t, c.disk.FailWrite(campaignBody(campaignMarked + name)[:48]))
		env = append(env, campaignMarkedEnv+"="+campaignMarked+name)
	case endPower:
		c.must(t, errors.Join(c.disk.Seed(c.chance.Uint64()), c.disk.CutIn(1+c.chance.IntN(600), 1+c.chance.IntN(4))))
	case endWrite:
		c.must(t, c.disk.FailIn(1+c.chance.IntN(400)))
	}
	before := c.accepted + c.known + c.finished
	c.child(t, name, end, env...)
	if progresses(end) && c.accepted+c.known+c.finished == before {
		t.Errorf("life %s (%s) made no progress", name, end)
	}
	switch end {
	case endPower:
		c.must(t, errors.Join(c.disk.Unmount(), c.disk.Mount()))
	case endMarked, endWrite:
		// Content that only the page cache has is trusted once, and then it is gone.
		c.warm++
		c.child(t, name+"w", endKill)
		c.must(t, errors.Join(c.disk.FailIn(0), c.disk.FailWrite(nil))) // if it did not fail yet, it is over
		c.must(t, errors.Join(c.disk.Unmount(), c.disk.Mount()))
	}
	if end != endClose && c.chance.IntN(2) == 0 && c.dir != "" {
		return // the next life continues from here, without a clean close in between
	}
	c.check(t)
	if c.verbose {
		t.Logf("life %d (%s): %d events, %d duplicates, %d finished", life, end, c.accepted, c.known, c.finished)
	}
}

func (c *campaign) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *campaign) check(t *testing.T) {
	t.Helper()
	c.ledger.check(c.dir)
	c.halves = max(c.halves, c.ledger.halves)
	for i, text := range c.ledger.wrong {
		if i == 20 {
			t.Errorf("and %d more", len(c.ledger.wrong)-i)
			break
		}
		t.Error(text)
	}
}

// child runs a child until it is ended or ends by itself, and records its output.
func (c *campaign) child(t *testing.T, name, end string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), campaignDirEnv+"="+c.dir, campaignLifeEnv+"="+name,
		campaignIDsEnv+"="+c.identifiers(t))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	c.must(t, err)
	c.must(t, cmd.Start())
	ended := make(chan struct{})
	var once, failed bool
	finish := func(after time.Duration) {
		if once {
			return
		}
		once = true
		go func() { defer close(ended); time.Sleep(after); c.end(t, cmd, end) }()
	}
	if end == endOpen {
		finish(time.Duration(c.chance.IntN(150)) * time.Millisecond)
	}
	guard := time.AfterFunc(childMax, func() { _ = cmd.Process.Kill(); c.hung.Add(1) })
	defer guard.Stop()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		words := strings.Fields(line)
		switch words[0] {
		case "open":
			if !progresses(end) {
				finish(c.age(end))
			}
			continue
		case "failed":
			failed = true
			if end != endPower && end != endMarked && end != endWrite && !strings.HasSuffix(name, "w") {
				t.Errorf("life %s (%s): %s", name, end, line)
			}
			finish(0)
			continue
		}
		c.count(words[0])
		c.ledger.record(words)
		if progresses(end) && !once {
			finish(c.age(end))
		}
	}
	_ = cmd.Wait()
	if once {
		<-ended
	}
	if failed {
		c.failed++
	}
}

// age returns how long a child lives after its store is open.
func (c *campaign) age(end string) time.Duration {
	switch end {
	case endStep, endMarked, endWrite, endPower:
		return 3 * time.Second // it ends before that
	case endClose:
		return time.Second
	}
	return time.Duration(50+c.chance.IntN(1200)) * time.Millisecond
}

func (c *campaign) count(word string) {
	switch word {
	case "new":
		c.accepted++
	case "known":
		c.known++
	case "done", "dead":
		c.finished++
	}
}

func (c *campaign) end(t *testing.T, cmd *exec.Cmd, end string) {
	p := cmd.Process
	switch end {
	case endPower:
		if err := c.disk.Cut(); err != nil { // if no write triggered it
			t.Error(err)
		}
		time.Sleep(20 * time.Millisecond) // it notices that its disk is gone
	case endPause:
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond)
		_ = p.Signal(syscall.SIGCONT)
		time.Sleep(time.Duration(c.chance.IntN(50)) * time.Millisecond)
	case endClose:
		_ = p.Signal(syscall.SIGTERM)
		return
	}
	_ = p.Kill()
}

// identifiers writes some of the events to a file, for the child to repeat.
func (c *campaign) identifiers(t *testing.T) string {
	t.Helper()
	all := slices.Sorted(maps.Keys(c.ledger.newest))
	var b strings.Builder
	for range min(len(all), 500) {
		id := all[c.chance.IntN(len(all))]
		if event := c.ledger.newest[id]; !c.ledger.events[event].purging {
			fmt.Fprintf(&b, "%s %s\n", id, event)
		}
	}
	path := filepath.Join(t.TempDir(), "identifiers")
	c.must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// finish checks everything once more after a last remount.
func (c *campaign) finish(t *testing.T) {
	t.Helper()
	c.must(t, errors.Join(c.disk.Unmount(), c.disk.Mount()))
	c.check(t)
	recycled(t, c.dir, 5)
	stats, err := c.disk.Stats()
	c.must(t, err)
	if c.accepted == 0 || c.known == 0 || c.finished == 0 || stats.Cuts == 0 || stats.Dropped+stats.Torn == 0 ||
		stats.Failed == 0 {
		t.Errorf("the campaign tested nothing: %d events, %d duplicates, %d finished, disk %+v", c.accepted,
			c.known, c.finished, stats)
	}
	t.Logf("ends %v: %d events acknowledged, %d duplicates, %d finished, %d lives without a disk, %d starts over "+
		"its cache, %d hung, at most %d halves of events that were never acknowledged in a store; disk %+v; 0 "+
		"lost, 0 twice, 0 wrong",
		c.ends, c.accepted, c.known, c.finished, c.failed, c.warm, c.hung.Load(), c.halves, stats)
}
