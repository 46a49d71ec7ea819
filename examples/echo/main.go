// Command echo is a webhook endpoint in an Echo program.
package main

import (
	"context"
	"log"
	"os"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// Push is the part of GitHub's push event that the handler needs.
type Push struct{ Ref string }

func onPush(_ context.Context, ev receiver.Event[Push]) error {
	log.Printf("%s: push to %s", ev.VendorID, ev.Data.Ref)
	return nil
}

func main() {
	store, err := badgerstore.Open("data", badgerstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{preset.GitHub(os.Getenv("GITHUB_SECRET"))},
		Handlers:  []receiver.Handler{receiver.On("github", "push", onPush)},
	})
	if err != nil {
		log.Fatal(err)
	}
	e := echo.New()
	echov4.Mount(e, rx) // POST /webhooks/github, GET /policy
	err = e.Start("127.0.0.1:8080")
	log.Print(err, rx.Close(), store.Close())
}
