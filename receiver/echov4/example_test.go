package echov4_test

import (
	"context"
	"fmt"
	"log"

	"github.com/labstack/echo/v4"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
)

// Push is the part of GitHub's push event that this program needs.
type Push struct{ Ref string }

func onPush(_ context.Context, ev receiver.Event[Push]) error {
	fmt.Println("pushed to", ev.Data.Ref)
	return nil
}

func ExampleMount() {
	store := memstore.New(memstore.Options{}) // badgerstore.Open("data") keeps events across restarts
	rx, err := receiver.Open(receiver.Config{
		Store:     store,
		Producers: []producer.Producer{preset.GitHub("a long random secret")}, // os.Getenv("GITHUB_SECRET")
		Handlers:  []receiver.Handler{receiver.On("github", "push", onPush)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rx.Close() }()
	e := echo.New()
	echov4.Mount(e, rx) // POST /webhooks/github, GET /policy
	// e.Start("127.0.0.1:8080")
	fmt.Println("mounted")
	// Output: mounted
}
