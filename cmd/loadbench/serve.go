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
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// serve runs one side until standard input closes, after printing the address to load.
func serve(ctx context.Context, s settings, out io.Writer) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	switch s.child {
	case "bare":
		e.POST("/webhooks/github", bare)
	case "receiver":
		stop, err := mountReceiver(e, s.dir)
		if err != nil {
			return err
		}
		defer stop()
	default:
		return fmt.Errorf("no side is called %q", s.child)
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
	if _, err := fmt.Fprintf(out, "http://%s/webhooks/github\n", l.Addr()); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare is what stands without a receiver: it checks the signature and answers.
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
	// Each round has a store of its own, so that no round pays for the compaction of the one before.
	fresh, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	store, err := badgerstore.Open(filepath.Join(fresh, "data"), badgerstore.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{producer.GitHub(secret)},
		Handlers: []receiver.Handler{
			receiver.On("github", "*", func(context.Context, receiver.Event[[]byte]) error { return nil }),
		},
		Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	echov4.Mount(e, rx)
	return func() {
		_ = rx.Close()
		_ = store.Close()
		_ = os.RemoveAll(fresh)
	}, nil
}
