package server

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
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
	check(t, err)
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

// TestARefusedReloadLeavesTheTargetsAsTheyAre: the receiver refuses the second configuration. A
// target that is switched off after it is listed, and is off after the next reload.
func TestARefusedReloadLeavesTheTargetsAsTheyAre(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	attempts := 1
	s := reloading(t, func() Options {
		o := quietOptions(store)
		target, err := forward.New(forward.Config{Name: "deploy", URL: "http://h.example/", State: o.Targets})
		check(t, err)
		o.Receiver.Attempts, o.OnClose = attempts, target.Close
		return o
	})
	off := func() bool {
		targets := listTargets(s.current.Load().Targets)
		return slices.ContainsFunc(targets, func(target opsapi.Target) bool { return !target.On })
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

// TestARemovedHandlerFinishesWhatCameLate: a delivery whose body takes long is accepted by the
// replaced receiver, after the tasks of the removed handler were counted. The next reload keeps the
// handler.
func TestARemovedHandlerFinishesWhatCameLate(t *testing.T) {
	t.Parallel()
	store, log := memstore.New(memstore.Options{}), &servertest.Buffer{}
	var fixed atomic.Bool
	removed := receiver.On("github", "push", func(context.Context, receiver.Event[[]byte]) error {
		if !fixed.Load() {
			return errors.New("not yet")
		}
		return nil
	}).Named("removed")
	handlers := []receiver.Handler{removed}
	s := reloading(t, func() Options {
		o := quietOptions(store)
		o.Log, o.Receiver.Handlers = NewLog(log, "text", slog.LevelInfo), handlers
		for range handlers {
			o.HandlerNames = append(o.HandlerNames, "removed")
		}
		o.Receiver.BackoffBase, o.Receiver.BackoffCap, o.Receiver.OrphanAfter = time.Millisecond, time.Millisecond, -1
		o.Receiver.Attempts = 1_000_000
		return o
	})
	late := beginDelivery(t, s, `{"n":1}`)
	handlers = nil
	reload := func() {
		t.Helper()
		if _, err := s.Reload(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	eventually(t, func() bool { return strings.Contains(log.String(), "a removed handler has no tasks left") })
	if status := late(); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, func() bool { return !s.replacing() })
	reload()
	fixed.Store(true)
	var state dedup.State
	eventually(t, func() bool {
		for rec, err := range store.List(t.Context(), dedup.Filter{ID: "late"}) {
			check(t, err)
			state = rec.State()
		}
		return state == dedup.Done || state == dedup.Dead
	})
	if state != dedup.Done {
		t.Errorf("the event is %s", state)
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// beginDelivery sends a push without its body and returns once the receiver reads it. The function
// sends the body and returns the status.
func beginDelivery(t *testing.T, s *Server, body string) (end func() int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.listeners[0].Addr().String())
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	mac := hmac.New(sha256.New, []byte("of-this-test"))
	mac.Write([]byte(body))
	fmt.Fprintf(conn, "POST /webhooks/github HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: push\r\nX-GitHub-Delivery: late\r\nX-Hub-Signature-256: sha256=%x\r\n"+
		"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", mac.Sum(nil), len(body))
	r := bufio.NewReader(conn)
	status := func() int {
		res, err := http.ReadResponse(r, nil)
		check(t, err)
		_ = res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != http.StatusContinue {
		t.Fatalf("status %d", got)
	}
	return func() int {
		_, _ = io.WriteString(conn, body)
		return status()
	}
}
