package forward

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// slowDisk is a file of targets whose every write waits for the test.
type slowDisk struct {
	begun chan string // a write has begun, with its text
	goOn  chan error  // its result
}

// onSlowDisk makes a state over a slow disk, with the targets a and b.
func onSlowDisk(t *testing.T) (*State, *slowDisk, string) {
	t.Helper()
	s, d, file := NewState(), &slowDisk{make(chan string), make(chan error)}, stateFileOf(t)
	for _, name := range []string{"a", "b"} {
		check(t, s.register(name, "u"))
	}
	check(t, s.Open(file, nil))
	s.known.replace = func(path, text string) error {
		d.begun <- text
		if err := <-d.goOn; err != nil {
			return err
		}
		return atomicfile.WriteText(path, text)
	}
	return s, d, file
}

// within fails the test when do does not return, and then unblocks it.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
}

func off(s *State, name, why string) <-chan error {
	out := make(chan error, 1)
	go func() { out <- s.SwitchOff(name, why, time.Now()) }()
	return out
}

func kept(t *testing.T, file string) map[string]Status {
	t.Helper()
	all, err := readState(file)
	check(t, err)
	out := map[string]Status{}
	for _, st := range all {
		out[st.Name] = st
	}
	return out
}

func TestASlowDiskDelaysNoDelivery(t *testing.T) {
	t.Parallel()
	s, d, file := onSlowDisk(t)
	a := off(s, "a", "one")
	<-d.begun
	within(t, "a delivery waits for the disk", func() {
		if !s.get("a").Off || s.get("b").Off || len(s.List()) != 2 {
			t.Error("the status does not show the change")
		}
		if err := s.update("b", false, func(st *Status) { st.Terminals = 0 }); err != nil { // as after most deliveries
			t.Error(err)
		}
	})
	select {
	case err := <-a:
		t.Fatalf("a change that is not on disk returned %v", err)
	default:
	}
	// All changes made meanwhile are one write, and each is on disk when its call returns.
	more := make(chan error)
	for range 8 {
		go func() { more <- s.update("b", false, func(st *Status) { st.Terminals++ }) }()
	}
	within(t, "a change waits for the disk before it applies", func() {
		for s.get("b").Terminals < 8 {
			time.Sleep(time.Millisecond)
		}
	})
	d.goOn <- nil
	if err := <-a; err != nil {
		t.Error(err)
	}
	<-d.begun
	d.goOn <- nil
	for range 8 {
		within(t, "each change waits for a write of its own", func() {
			if err := <-more; err != nil {
				t.Error(err)
			}
		})
	}
	if k := kept(t, file); !k["a"].Off || k["b"].Terminals != 8 {
		t.Errorf("the file has %+v", k)
	}
}

func TestTheNewestStateIsWrittenLast(t *testing.T) {
	t.Parallel()
	s, d, file := onSlowDisk(t)
	first := off(s, "a", "one")
	<-d.begun // with a switched off
	on := make(chan error, 1)
	go func() { on <- s.SwitchOn("a") }()
	within(t, "a switch waits for the disk before it applies", func() {
		for s.get("a").Off {
			time.Sleep(time.Millisecond)
		}
	})
	d.goOn <- nil
	<-d.begun
	d.goOn <- nil
	if err := errors.Join(<-first, <-on); err != nil {
		t.Error(err)
	}
	if k := kept(t, file); k["a"].Off {
		t.Errorf("an older state was written over the newest: %+v", k)
	}
}

func TestASwitchWithoutAChangeWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	s, d, file := onSlowDisk(t)
	failed := off(s, "a", "one")
	<-d.begun
	d.goOn <- errors.New("the disk is gone")
	if err := <-failed; err == nil {
		t.Fatal("a write that failed is no error")
	}
	again := off(s, "a", "one")
	within(t, "a change that failed to be written is not written later", func() { <-d.begun })
	d.goOn <- nil
	if err := <-again; err != nil || !kept(t, file)["a"].Off {
		t.Errorf("%v; the file has %+v", err, kept(t, file))
	}
	within(t, "a change that is on disk is written again", func() {
		if err := s.SwitchOff("a", "one", time.Now()); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrentChangesAreAllOnDisk(t *testing.T) {
	t.Parallel()
	s, file := NewState(), stateFileOf(t)
	check(t, errors.Join(s.register("a", "u"), s.Open(file, nil)))
	var writes atomic.Int64
	s.known.replace = func(path, text string) error {
		if writes.Add(1) > 1 {
			defer writes.Add(-1)
			return errors.New("two writes at a time")
		}
		defer writes.Add(-1)
		return atomicfile.WriteText(path, text)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				mine := 0
				if err := s.update("a", false, func(st *Status) { st.Terminals++; mine = st.Terminals }); err != nil {
					t.Error(err)
				}
				if n := kept(t, file)["a"].Terminals; n < mine {
					t.Errorf("change %d returned, and the file has %d", mine, n)
				}
			}
		})
	}
	wg.Wait()
	if n := kept(t, file)["a"].Terminals; n != 8*20 {
		t.Errorf("the file has %d, want %d", n, 8*20)
	}
}
