package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestASocketServesTheSettingWithItsAddress(t *testing.T) {
	t.Parallel()
	tcp := func(s string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", s)
		check(t, err)
		return a
	}
	for _, tc := range []struct {
		bound      net.Addr
		configured string
		want       bool
	}{
		{tcp("127.0.0.1:8080"), "127.0.0.1:8080", true},
		{tcp("127.0.0.1:8080"), "localhost:8080", true},
		{tcp("[::1]:8080"), "localhost:8080", true},
		{tcp("127.0.0.1:8080"), "127.0.0.1:18080", false},
		{tcp("127.0.0.1:18080"), "127.0.0.1:8080", false},
		{tcp("127.0.0.2:8080"), "127.0.0.1:8080", false},
		{tcp("[::]:443"), ":443", true},
		{tcp("0.0.0.0:443"), ":443", true},
		{tcp("[::]:443"), "0.0.0.0:443", true},
		{tcp("[::]:443"), "127.0.0.1:443", false},
		{tcp("192.0.2.1:443"), ":443", false},
		{tcp("192.0.2.1:443"), "hooks.example:443", false},
		{&net.UnixAddr{Net: "unix", Name: "/run/eyelet.sock"}, "unix:/run/eyelet.sock", true},
		{&net.UnixAddr{Net: "unix", Name: "/run/other.sock"}, "unix:/run/eyelet.sock", false},
		{&net.UnixAddr{Net: "unix", Name: "/run/eyelet.sock"}, "127.0.0.1:8080", false},
	} {
		if got := isAddress(tc.bound, tc.configured); got != tc.want {
			t.Errorf("%s for %s: %v", tc.bound, tc.configured, got)
		}
	}
}

func TestASocketThatNoSettingNamesIsRefused(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	sockets := inheritedSockets{ln}
	if got := sockets.take("127.0.0.1:1"); got != nil {
		t.Errorf("got %v", got.Addr())
	}
	if err := sockets.unused(); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("got %v", err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("it is still open")
	}
}

// TestSystemdIsNotified plays systemd: it reads the messages of a server.
func TestSystemdIsNotified(t *testing.T) {
	dir, err := os.MkdirTemp("", "sd") // a short name, because sockets have a limit
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "n")})
	check(t, err)
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "20000")
	next := func() string {
		b := make([]byte, 100)
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(b)
		check(t, err)
		return string(b[:n])
	}
	s, err := New(t.Context(), Options{
		Receiver: receiver.Config{
			Producers: []producer.Producer{preset.GitHub("of-this-test")}, Handlers: []receiver.Handler{},
		},
		Targets: forward.NewState(), Listen: "127.0.0.1:0", Operations: Off, Loopback: true, Drain: time.Minute,
		OpenStore: func(context.Context, *slog.Logger) (dedup.Store, error) {
			return memstore.New(memstore.Options{}), nil
		},
		Log:    NewLog(&servertest.Buffer{}, "text", slog.LevelInfo),
		Reread: func(context.Context) (Options, error) { return Options{}, errors.New("a mistake") },
	})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if got := next(); got != "READY=1" {
		t.Errorf("first %q", got)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("then %q", got)
		}
	}
	other := func() string {
		got := next()
		for got == "WATCHDOG=1" {
			got = next()
		}
		return got
	}
	if _, err := s.Reload(ctx, false); err == nil {
		t.Error("the reload was not refused")
	}
	if got := other(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("at the reload %q", got)
	}
	if got := other(); got != "READY=1" {
		t.Errorf("after the reload %q", got)
	}
	stop()
	if got := other(); got != "STOPPING=1" {
		t.Errorf("last %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
