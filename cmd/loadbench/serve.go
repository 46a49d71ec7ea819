package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// serve prints the URL to load and runs one side until standard input closes.
func serve(ctx context.Context, s settings, out io.Writer) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	if s.profile != "" {
		stop, err := profile(s.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	switch s.child {
	case "bare":
		e.POST(hookPath, bare)
		e.GET(statePath, func(c echo.Context) error { return c.JSON(http.StatusOK, state{Mallocs: mallocs()}) })
	case "receiver":
		stop, err := mountReceiver(e, s.dir)
		if err != nil {
			return err
		}
		defer stop()
	default:
		return fmt.Errorf("unknown side %q", s.child)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: receiver.DefaultBodyTimeout}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if _, err := fmt.Fprintf(out, "http://%s%s\n", l.Addr(), hookPath); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare checks the signature and answers, as a handler without a receiver would.
func bare(c echo.Context) error {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, receiver.DefaultMaxBody))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sent, err := hex.DecodeString(strings.TrimPrefix(c.Request().Header.Get("X-Hub-Signature-256"), "sha256="))
	if err != nil || !hmac.Equal(sent, mac.Sum(nil)) {
		return echo.ErrUnauthorized
	}
	return c.NoContent(http.StatusOK)
}

func mountReceiver(e *echo.Echo, dir string) (stop func(), err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	// A new store for each round, so no round pays for the compaction of an earlier one.
	fresh, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	store, err := badgerstore.Open(filepath.Join(fresh, "data"), badgerstore.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	var handled atomic.Int64
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{
			receiver.On("github", "*", func(context.Context, receiver.Event[[]byte]) error {
				handled.Add(1)
				return nil
			}),
		},
		Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	echov4.Mount(e, rx)
	e.GET(statePath, func(c echo.Context) error {
		st, err := store.Stats(c.Request().Context())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, state{
			Handled: handled.Load(), Backlog: st.Pending + st.Running, Commits: st.Commits, Mallocs: mallocs(),
		})
	})
	return func() {
		_ = rx.Close()
		_ = store.Close()
		_ = os.RemoveAll(fresh)
	}, nil
}

// Paths of a side: for deliveries, and for its state.
const (
	hookPath  = "/webhooks/github"
	statePath = "/state"
)

// state is reported by a side at statePath.
type state struct {
	Handled int64  `json:"handled"` // calls of the handler
	Backlog int64  `json:"backlog"` // tasks without an outcome
	Commits int64  `json:"commits"` // durable steps
	Mallocs uint64 `json:"mallocs"`
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// profile writes a CPU profile of this process to a file until stop is called, and then an
// allocation profile to a second file, whose name ends in ".allocs".
func profile(name string) (stop func(), err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	allocs, err := os.Create(name + ".allocs")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = pprof.Lookup("allocs").WriteTo(allocs, 0)
		_ = errors.Join(f.Close(), allocs.Close())
	}, nil
}
