// Command chi is a webhook endpoint in a program with the router chi.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

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
	_, _ = fmt.Fprintf(w, "%s of team %s", ev.Data.Ref, chi.URLParam(r, "team"))
}

// routes has Verified on the route (With), not on the router (Use): chi would run it for unknown
// paths too. The prefix of other endpoints is removed by http.StripPrefix, which Mount does not do.
func routes(rx *receiver.Receiver) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Route("/teams/{team}", func(r chi.Router) {
		r.With(rx.Verified("github")).Post("/github", onPush)
	})
	r.Mount("/api", http.StripPrefix("/api", rx.Handler())) // /api/webhooks/stripe, /api/policy
	return r
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
