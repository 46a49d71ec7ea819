// Command echo is a webhook endpoint in an Echo program: middleware verifies each event and
// stores it in front of an ordinary handler.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// Push is the part of GitHub's push event that the handler needs.
type Push struct{ Ref string }

// onPush runs once for each push. Its response is stored, and repeated when GitHub sends again.
func onPush(c echo.Context) error {
	ev, err := echov4.EventOf[Push](c)
	if err != nil {
		return err
	}
	log.Printf("%s: push to %s", ev.VendorID, ev.Data.Ref)
	return c.JSON(http.StatusOK, echo.Map{"deployed": ev.Data.Ref})
}

func routes(rx *receiver.Receiver) *echo.Echo {
	e := echo.New()
	e.POST("/hooks/github", onPush, echov4.Verified(rx, "github"))
	e.GET("/policy", echo.WrapHandler(rx.Policy()))
	return e
}

func run(ctx context.Context) error {
	store, err := badgerstore.Open("data", badgerstore.Options{})
	if err != nil {
		return err
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{preset.GitHub(os.Getenv("GITHUB_SECRET"))},
		Handlers:  []receiver.Handler{receiver.Inline("github", "push")},
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	e := routes(rx)
	served := make(chan error, 1)
	if err = rx.Bind(e); err == nil {
		go func() { served <- e.Start("127.0.0.1:8080") }()
		select {
		case err = <-served:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, rx.Shutdown(ctx), e.Shutdown(ctx), store.Close())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
