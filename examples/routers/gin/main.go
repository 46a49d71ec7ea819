// Command gin is a webhook endpoint in a program with the framework Gin.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Push is the part of GitHub's push event that the handler needs.
type Push struct{ Ref string }

// onPush runs once for each push. Its response is stored, and repeated when GitHub sends again.
func onPush(w http.ResponseWriter, r *http.Request) {
	ev, err := receiver.EventOf[Push](r)
	if err != nil {
		receiver.Respond(r, receiver.Response{}, err)
		return
	}
	log.Printf("%s: push to %s", ev.VendorID, ev.Data.Ref)
	_, _ = fmt.Fprintf(w, "%s of team %s", ev.Data.Ref, r.PathValue("team"))
}

// verified gives Gin's path parameters to a handler of net/http, behind Verified.
func verified(middleware func(http.Handler) http.Handler, h http.HandlerFunc) gin.HandlerFunc {
	behind := middleware(h)
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		behind.ServeHTTP(c.Writer, c.Request)
	}
}

// routes mounts the other endpoints below a prefix, which http.StripPrefix removes.
func routes(rx *receiver.Receiver) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(gin.Recovery())
	e.POST("/teams/:team/github", verified(rx.Verified("github"), onPush))
	e.Any("/api/*path", gin.WrapH(http.StripPrefix("/api", rx.Handler()))) // /api/webhooks/stripe, /api/policy
	return e
}

func run(ctx context.Context) error {
	store, err := badgerstore.Open("data", badgerstore.Options{})
	if err != nil {
		return err
	}
	rx, err := receiver.Open(receiver.Config{
		Store: store,
		Producers: []producer.Producer{
			preset.GitHub(os.Getenv("GITHUB_SECRET")), preset.Stripe(os.Getenv("STRIPE_SECRET")),
		},
		Handlers: []receiver.Handler{
			receiver.Inline("github", "push"),
			receiver.On("stripe", "*", func(_ context.Context, ev receiver.Event[[]byte]) error {
				log.Printf("%s: %s", ev.ID, ev.Type)
				return nil
			}),
		},
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(rx), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	if err = rx.Bind(srv.Handler); err == nil {
		go func() { served <- srv.ListenAndServe() }()
		select {
		case err = <-served:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, rx.Shutdown(ctx), srv.Shutdown(ctx), store.Close())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
