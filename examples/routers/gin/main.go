// Command gin is a webhook endpoint in a program with the framework Gin.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/eyelet-dev/eyelet"
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

func main() {
	rx, err := eyelet.Open("data",
		eyelet.GitHub(os.Getenv("GITHUB_SECRET")), eyelet.Handle(receiver.Inline("github", "push")),
		eyelet.Stripe(os.Getenv("STRIPE_SECRET")),
		eyelet.On("stripe", "*", func(_ context.Context, ev eyelet.Event[[]byte]) error {
			log.Printf("%s: %s", ev.ID, ev.Type)
			return nil
		}),
	)
	if err == nil {
		srv := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(rx.Receiver), ReadHeaderTimeout: 10 * time.Second}
		err = eyelet.Serve(context.Background(), srv, rx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
