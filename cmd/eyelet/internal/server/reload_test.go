package server

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// reloading runs a server with a store in memory until the test ends. Its configuration is that of
// next, each time it is read.
func reloading(t *testing.T, next func() Options) *Server {
	t.Helper()
	o := next()
	o.Reread = func(context.Context) (Options, error) {
		again := next()
		again.Reread = o.Reread
		return again, nil
	}
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// quietOptions are those of a server for GitHub on free ports.
func quietOptions(store dedup.Store) Options {
	return Options{
		Receiver: receiver.Config{Producers: []producer.Producer{preset.GitHub("of-this-test")}},
		Targets:  forward.NewState(), Listen: "127.0.0.1:0", Operations: Off, Loopback: true, Drain: time.Minute,
		OpenStore: func(context.Context, *slog.Logger) (dedup.Store, error) { return store, nil },
		Log:       NewLog(&servertest.Buffer{}, "text", slog.LevelInfo),
	}
}

// TestARefusedReloadLeavesTheTargetsAsTheyAre: the receiver refuses the second configuration. A target
// that is switched off after it is listed, and is off after the next reload.
func TestARefusedReloadLeavesTheTargetsAsTheyAre(t *testing.T) {
	t.Parallel()
	store := dedup.NewMemory(dedup.MemoryOptions{})
	attempts := 1
	s := reloading(t, func() Options {
		o := quietOptions(store)
		target, err := forward.New(forward.Config{Name: "deploy", URL: "http://h.example/", State: o.Targets})
		if err != nil {
			t.Fatal(err)
		}
		o.Receiver.Attempts, o.OnClose = attempts, target.Close
		return o
	})
	off := func() bool {
		return slices.ContainsFunc(listTargets(s.current.Load().Targets), func(target opsapi.Target) bool { return !target.On })
	}
	attempts = -1
	if _, err := s.Reload(t.Context(), false); err == nil {
		t.Fatal("the reload was not refused")
	}
	if err := s.current.Load().Targets.SwitchOff("deploy", "a test", time.Now()); err != nil || !off() {
		t.Errorf("after the refused reload: off %t, %v", off(), err)
	}
	attempts = 1
	if _, err := s.Reload(t.Context(), false); err != nil || !off() {
		t.Errorf("after the next one: off %t, %v", off(), err)
	}
}
