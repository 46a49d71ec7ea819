package forward

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// opened makes a target whose state has a file, as a start of the process does.
func opened(t *testing.T, address, file string, change func(*Config)) *Target {
	t.Helper()
	target := to(t, address, change)
	check(t, target.cfg.State.Open(file, nil))
	return target
}

// TestRepeatedTerminalOutcomesSwitchTheTargetOff is row R177, with a restart and a person.
func TestRepeatedTerminalOutcomesSwitchTheTargetOff(t *testing.T) {
	t.Parallel()
	f := plain(t, says(404))
	file := stateFileOf(t)
	target := opened(t, f.URL, file, nil)
	for _, id := range ids("e", DefaultTerminalLimit) {
		want(t, deliver(t, target, id), Terminal, 404)
	}
	r := deliver(t, target, "waits")
	want(t, r, Deferred, 0)
	if !errors.Is(r.Err, ErrOff) || r.NotBefore <= 0 || r.NotBefore > LongestOffWait ||
		!strings.Contains(r.Err.Error(), "404") {
		t.Errorf("not before %v: %v", r.NotBefore, r.Err)
	}
	again := opened(t, f.URL, file, nil)
	want(t, deliver(t, again, "waits"), Deferred, 0)
	if n := len(f.requests()); n != DefaultTerminalLimit {
		t.Errorf("%d requests, want %d", n, DefaultTerminalLimit)
	}
	check(t, again.cfg.State.SwitchOn("shop"))
	// The count starts at zero: one more refusal does not switch it off again, also after another
	// restart.
	last := opened(t, f.URL, file, nil)
	want(t, deliver(t, last, "waits"), Terminal, 404)
	want(t, deliver(t, last, "another"), Terminal, 404)
}

// TestA410SwitchesTheTargetOffAtOnce is row R172.
func TestA410SwitchesTheTargetOffAtOnce(t *testing.T) {
	t.Parallel()
	f := plain(t, says(410), says(200))
	file := stateFileOf(t)
	want(t, deliver(t, opened(t, f.URL, file, nil), "1"), Terminal, 410)
	target := opened(t, f.URL, file, nil)
	want(t, deliver(t, target, "2"), Deferred, 0)
	check(t, target.cfg.State.SwitchOn("shop"))
	want(t, deliver(t, target, "2"), Accepted, 200)
	if n := len(f.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestAnAcceptanceResetsTheCount: a target that alternates is never switched off.
func TestAnAcceptanceResetsTheCount(t *testing.T) {
	t.Parallel()
	n := 0
	f := plain(t, says(404), says(404), says(200), says(404), says(503), says(404), says(200), says(404), says(404),
		says(404))
	target := to(t, f.URL, func(c *Config) { c.TerminalLimit = 3 })
	for _, id := range ids("e", 10) {
		if r := deliver(t, target, id); r.Outcome == Deferred {
			t.Fatalf("%s waits", id)
		}
		n++
	}
	if r := deliver(t, target, "last"); r.Outcome != Deferred || n != 10 {
		t.Errorf("after three in a row it is %v", r.Outcome)
	}
}

// TestA451IsReported is row R172.
func TestA451IsReported(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := plain(t, says(451))
	target := to(t, f.URL+"/?token=s3cret", nil)
	check(t, target.cfg.State.Open(stateFileOf(t), slog.New(slog.NewTextHandler(&log, nil))))
	want(t, deliver(t, target, "1"), Terminal, 451)
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "451") ||
		!strings.Contains(log.String(), "target=shop") {
		t.Errorf("log is %s", log.String())
	}
	if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), f.URL) {
		t.Error("the URL is in the log")
	}
	if target.cfg.State.List()[0].Legal.IsZero() {
		t.Error("the list does not show it")
	}
}

func TestOffWait(t *testing.T) {
	t.Parallel()
	for off, most := range map[time.Duration]time.Duration{0: offLeast, time.Minute: offLeast,
		8 * time.Minute: time.Minute, 24 * time.Hour: LongestOffWait, -time.Hour: offLeast} {
		for range 100 {
			if wait := offWait(off); wait < most/2 || wait > most {
				t.Fatalf("off for %v waits %v, want %v to %v", off, wait, most/2, most)
			}
		}
	}
}

func TestSwitchingByHand(t *testing.T) {
	t.Parallel()
	s := NewState()
	if err := errors.Join(s.SwitchOn("none"), s.SwitchOff("none", "", time.Now())); !errors.Is(err, ErrUnknownTarget) {
		t.Errorf("error is %v", err)
	}
	f := plain(t, says(200))
	target := to(t, f.URL, func(c *Config) { c.State = s })
	check(t, s.SwitchOff("shop", "maintenance", newClock().Now()))
	if r := deliver(t, target, "1"); r.Outcome != Deferred || !strings.Contains(r.Err.Error(), "maintenance") {
		t.Errorf("%v: %v", r.Outcome, r.Err)
	}
	check(t, s.SwitchOff("shop", "another reason", newClock().Now().Add(time.Hour)))
	if st := s.List()[0]; st.Reason != "maintenance" || !st.Since.Equal(newClock().Now()) {
		t.Errorf("the first reason is gone: %+v", st)
	}
	check(t, s.SwitchOn("shop"))
	want(t, deliver(t, target, "1"), Accepted, 200)
}

func TestAnUnreadableStateIsAnError(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{"{": "damaged", "": "damaged", "{}": "damaged",
		`{"format":2,"targets":[]}`: "format 2"} {
		file := stateFileOf(t)
		check(t, os.WriteFile(file, []byte(text), 0o600))
		if err := NewState().Open(file, nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: error is %v", text, err)
		}
	}
	if err := NewState().Open(t.TempDir(), nil); err == nil {
		t.Error("a folder is accepted as a state")
	}
}

func TestAnUnwritableStateAppliesToTheProcess(t *testing.T) {
	t.Parallel()
	f := plain(t, says(410))
	dir := filepath.Join(t.TempDir(), "gone")
	target := opened(t, f.URL, filepath.Join(dir, "targets.json"), nil)
	want(t, deliver(t, target, "1"), Terminal, 410)
	want(t, deliver(t, target, "2"), Deferred, 0)
	if err := target.cfg.State.SwitchOn("shop"); err == nil {
		t.Error("a change that is not on disk is no error")
	}
	check(t, os.Mkdir(dir, 0o700))
	if err := target.cfg.State.SwitchOff("shop", "x", time.Now()); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "targets.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v (%v)", info, err)
	}
}

func TestTargetsOfOneStateAreIndependent(t *testing.T) {
	t.Parallel()
	s := NewState()
	gone, good := plain(t, says(410)), plain(t, says(200))
	one := to(t, gone.URL, func(c *Config) { c.State, c.Name = s, "gone" })
	two := to(t, good.URL, func(c *Config) { c.State, c.Name = s, "good" })
	var wg sync.WaitGroup
	for _, id := range ids("e", 8) {
		wg.Go(func() { one.Deliver(t.Context(), event(id)) })
		wg.Go(func() { want(t, deliver(t, two, id), Accepted, 200) })
	}
	wg.Wait()
	if list := s.List(); len(list) != 2 || !list[0].Off || list[1].Off {
		t.Errorf("list is %+v", list)
	}
	if _, err := New(Config{Name: "good", URL: "http://h/", State: s}); err == nil {
		t.Error("two targets have one name")
	}
}

// TestANewStateSucceedsAnOldOne, as at a reload: a target that is switched off stays so, unless its
// URL is another, and what the old target finds applies to the new one and its file.
func TestANewStateSucceedsAnOldOne(t *testing.T) {
	t.Parallel()
	f := plain(t, says(410), says(200))
	file := stateFileOf(t)
	old := opened(t, f.URL, file, nil)
	want(t, deliver(t, old, "1"), Terminal, 410)
	same := to(t, f.URL, nil)
	same.cfg.State.Succeed(old.cfg.State)
	want(t, deliver(t, same, "2"), Deferred, 0)
	check(t, old.cfg.State.SwitchOn("shop"))
	want(t, deliver(t, same, "2"), Accepted, 200)
	want(t, deliver(t, opened(t, f.URL, file, nil), "2"), Accepted, 200)
	check(t, old.cfg.State.SwitchOff("shop", "by hand", time.Now()))
	want(t, deliver(t, same, "3"), Deferred, 0)
	moved := to(t, f.URL+"/moved", nil)
	moved.cfg.State.Succeed(same.cfg.State)
	want(t, deliver(t, moved, "3"), Accepted, 200)
	removed := NewState()
	removed.Succeed(same.cfg.State, "shop")
	if list := removed.List(); len(list) != 1 || list[0].Name != "shop" {
		t.Errorf("a target that still has work is lost: %+v", list)
	}
}

// TestAStateOfARefusedReloadChangesNothing: what happens meanwhile and afterwards applies to the
// old state, to its file, and to the state of a later reload.
func TestAStateOfARefusedReloadChangesNothing(t *testing.T) {
	t.Parallel()
	f := plain(t, says(410), says(410), says(200))
	file := stateFileOf(t)
	old := opened(t, f.URL, file, nil)
	for _, when := range []string{"once", "again"} {
		refused := to(t, f.URL, nil)
		refused.cfg.State.Succeed(old.cfg.State)
		want(t, deliver(t, old, when), Terminal, 410)
		want(t, deliver(t, old, "waits"), Deferred, 0)
		if list := old.cfg.State.List(); len(list) != 1 || !list[0].Off {
			t.Errorf("%s: the list is %+v", when, list)
		}
		want(t, deliver(t, opened(t, f.URL, file, nil), "waits"), Deferred, 0)
		next := to(t, f.URL, nil)
		next.cfg.State.Succeed(old.cfg.State)
		want(t, deliver(t, next, "waits"), Deferred, 0)
		check(t, next.cfg.State.SwitchOn("shop"))
		old = next
	}
	moved := to(t, f.URL+"/moved", nil)
	moved.cfg.State.Succeed(old.cfg.State)
	check(t, moved.cfg.State.SwitchOff("shop", "by hand", time.Now()))
	want(t, deliver(t, old, "again"), Accepted, 200) // the status of another URL is not its own
}

// TestTargetsChangeWhileAStateSucceeds: no change is lost, and there is no deadlock.
func TestTargetsChangeWhileAStateSucceeds(t *testing.T) {
	t.Parallel()
	old := to(t, "http://h.example/", nil).cfg.State
	var changes sync.WaitGroup
	var changed atomic.Int64
	stop := make(chan struct{})
	for range 2 {
		changes.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := old.update("shop", false, func(st *Status) { st.Terminals++ }); err != nil {
					t.Error(err)
				}
				changed.Add(1)
			}
		})
	}
	for range 2000 {
		refused := to(t, "http://h.example/", nil).cfg.State
		refused.Succeed(old)
	}
	close(stop)
	changes.Wait()
	if now := old.List()[0]; int64(now.Terminals) != changed.Load() {
		t.Errorf("%d changes of %d are known", now.Terminals, changed.Load())
	}
}
